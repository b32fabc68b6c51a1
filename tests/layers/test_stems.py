"""Images as sequences, where each token stands, and blocks that are now and then gone around."""

import pytest
import torch
import torch.nn.functional as F

from regard.attention import MultiHeadAttention
from regard.attention.positions import sinusoidal
from regard.errors import ShapeError, UsageError
from regard.layers import EncoderBlock, FeedForward
from regard.layers.stems import ConvStem, LearnedGrid, PatchStem, ResidualStem, SinusoidalGrid
from regard.layers.stochastic_depth import depth_rates, skip_at_random


def test_patches_are_a_linear_map_of_their_pixels():
    stem = PatchStem(3, 7, patch=4)
    images = torch.randn(2, 3, 9, 14)
    tokens = stem(images)
    assert tokens.shape == (2, 2 * 3, 7)
    assert stem.grid(9, 14) == (2, 3)
    patch = images[1, :, 4:8, 8:12].flatten()  # row 1, column 2
    expected = stem.projection.weight.flatten(1) @ patch + stem.projection.bias
    torch.testing.assert_close(tokens[1, 1 * 3 + 2], expected)


@pytest.mark.parametrize(("stride", "n_layers"), [(1, 1), (1, 3), (2, 1), (2, 2), (4, 2), (4, 3)])
@pytest.mark.parametrize("size", [(8, 8), (9, 14)])
def test_convolutions_halve_the_grid(stride, n_layers, size):
    stem = ConvStem(3, 6, stride=stride, n_layers=n_layers, width=5)
    rows, columns = stem.grid(*size)
    assert stem(torch.randn(2, 3, *size)).shape == (2, rows * columns, 6)
    assert [layer.weight.shape[0] for layer in stem.layers] == [5] * (n_layers - 1) + [6]


def test_a_convolutional_token_sees_its_neighbours_and_no_further():
    stem, image = ConvStem(3, 6, stride=2, n_layers=1), torch.randn(1, 3, 16, 16)
    changed = image.clone()
    changed[:, :, 9, 9] += 1
    moved = (stem(image) != stem(changed)).any(-1).view(8, 8)
    assert moved.any()
    assert set(map(tuple, moved.nonzero().tolist())) <= {(r, c) for r in (4, 5) for c in (4, 5)}
    for wrong in ({"stride": 3, "n_layers": 2}, {"stride": 8, "n_layers": 2}, {"stride": 1, "n_layers": 0}):
        with pytest.raises(ShapeError, match="cannot bring the grid down"):
            ConvStem(3, 6, **wrong)


@pytest.mark.parametrize(("stride", "widths"), [(1, [12]), (2, [4, 12]), (4, [4, 8, 12]), (8, [4, 8, 12, 12])])
@pytest.mark.parametrize("size", [(8, 8), (9, 14)])
def test_residual_blocks_halve_the_grid_and_widen(stride, widths, size):
    stem = ResidualStem(3, 12, stride=stride, n_blocks=2, width=4, norm="group")
    images = torch.randn(2, 3, *size)
    rows, columns = stem.grid(*size)
    tokens = stem(images)
    assert tokens.shape == (2, rows * columns, 12)
    assert [block.second.weight.shape[0] for block in stem.blocks] == [w for w in widths for _ in range(2)]
    torch.testing.assert_close(tokens[:1], stem(images[:1]), msg="no image feels its neighbours")
    for wrong in ({"stride": 3, "n_blocks": 1}, {"stride": 0, "n_blocks": 1}, {"stride": 4, "n_blocks": 0}):
        with pytest.raises(ShapeError, match="cannot bring the grid down"):
            ResidualStem(3, 12, **wrong)


def test_learned_positions_are_interpolated_as_an_image():
    positions = LearnedGrid(5, grid=(2, 3), n_extra=1)
    tokens = torch.zeros(2, 7, 5)
    assert torch.equal(positions(tokens, grid=(2, 3))[1], positions.table.weight)
    wider = positions(torch.zeros(2, 1 + 4 * 6, 5), grid=(4, 6))[0]
    assert torch.equal(wider[0], positions.table.weight[0]), "what stands before the grid is not part of it"
    image = positions.table.weight[1:].view(2, 3, 5).permute(2, 0, 1)[None]
    expected = F.interpolate(image, size=(4, 6), mode="bicubic")[0].permute(1, 2, 0).flatten(0, 1)
    torch.testing.assert_close(wider[1:], expected)


def test_sinusoidal_positions_say_row_and_column():
    positions = SinusoidalGrid(8, n_extra=1)
    table = positions(torch.zeros(1, 7, 8), grid=(2, 3))[0]
    assert (table[0] == 0).all()
    grid = table[1:].view(2, 3, 8)
    assert torch.equal(grid[:, 0, :4], sinusoidal(2, 4))
    assert torch.equal(grid[1, :, 4:], sinusoidal(3, 4))
    assert len({tuple(row) for row in table[1:].tolist()}) == 6
    with pytest.raises(ShapeError, match="multiple of 4"):
        SinusoidalGrid(6)


def block(p, order="pre"):
    torch.manual_seed(0)
    made = EncoderBlock(8, attention=MultiHeadAttention(8, 2), feedforward=FeedForward(8, 12), order=order)
    return skip_at_random(made, p)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_rows_that_go_around_stay_and_the_rest_is_scaled(order):
    torch.manual_seed(1)
    hidden, skipping, whole = torch.randn(200, 3, 8), block(0.5, order), block(0.0, order)
    assert torch.equal(skipping.eval()(hidden), whole.eval()(hidden)), "nothing is skipped outside training"
    assert skipping.state_dict().keys() == whole.state_dict().keys()
    around = skipping.train().around_attention
    part = torch.randn(200, 3, 8)
    found = around(hidden, lambda _: part)
    norm = around.norm
    kept, gone = (hidden + 2 * part, hidden) if order == "pre" else (norm(hidden + 2 * part), norm(hidden))
    is_kept = torch.isclose(found, kept, atol=1e-5).flatten(1).all(1)
    is_gone = torch.isclose(found, gone, atol=1e-5).flatten(1).all(1)
    assert (is_kept ^ is_gone).all()
    assert 60 < is_kept.sum() < 140


def test_rates_rise_with_depth():
    assert depth_rates(5, 0.2) == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])
    assert depth_rates(1, 0.2) == [0.0]
    with pytest.raises(UsageError, match="from 0 to below 1, not 1"):
        block(1.0)
