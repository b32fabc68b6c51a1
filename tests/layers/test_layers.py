"""Norms, feed-forward, embeddings and recurrent layers against the formulas they stand for."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.errors import ShapeError, UsageError
from regard.layers import (
    Dropout,
    Embedding,
    FeedForward,
    GatedFeedForward,
    Recurrent,
    activation_of,
    drop,
    merge_directions,
    norm_of,
)


def test_layer_norm_has_zero_mean_and_unit_variance():
    normed = norm_of("layer")(64)(torch.randn(3, 5, 64) * 7 + 2)
    torch.testing.assert_close(normed.mean(-1), torch.zeros(3, 5), atol=1e-6, rtol=0)
    torch.testing.assert_close(normed.var(-1, unbiased=False), torch.ones(3, 5), atol=1e-4, rtol=0)


def test_rms_norm_has_unit_root_mean_square_and_keeps_the_mean():
    x = torch.randn(3, 64) + 5
    normed = norm_of("rms")(64)(x)
    torch.testing.assert_close(normed, x / x.square().mean(-1, keepdim=True).sqrt(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_norms_hand_on_the_precision_of_the_products_around_them(name):
    norm, x = norm_of(name)(64), torch.randn(3, 5, 64) * 7 + 2
    torch.nn.init.normal_(norm.weight)
    exact = norm(x)
    assert exact.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        rounded = norm(x.bfloat16())
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, atol=0.05, rtol=0.02)
    x.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        handed_on = norm(x)
    assert handed_on.dtype == torch.bfloat16, "whatever came in"
    handed_on.sum().backward()
    assert norm.weight.grad.dtype == torch.float32  # the weights themselves stay in single precision


def test_a_layer_norm_shifts_in_half_precision_too():
    norm = norm_of("layer")(4)
    with torch.no_grad():
        norm.bias.copy_(torch.tensor([1.0, -2.0, 3.0, 0.5]))
    x = torch.tensor([[1.0, 1.0, -1.0, -1.0]])  # normalised already
    with torch.autocast("cpu", torch.bfloat16):
        found = norm(x)
        plain = norm_of("layer", bias=False)(4)(x)
    torch.testing.assert_close(found.float(), torch.tensor([[2.0, -1.0, 2.0, -0.5]]), atol=1e-2, rtol=0)
    torch.testing.assert_close(plain.float(), x, atol=1e-2, rtol=0)


def test_an_unknown_norm_or_activation_is_named():
    with pytest.raises(UsageError, match=r"'batch'.*'layer' and 'rms'"):
        norm_of("batch")
    with pytest.raises(UsageError, match=r"'tahn'.*gelu"):
        activation_of("tahn")


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", F.relu),
        ("gelu", F.gelu),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        ("silu", lambda x: x * torch.sigmoid(x)),
    ],
)
def test_feed_forward_is_its_formula(name, function):
    part, x = FeedForward(8, 20, activation=name), torch.randn(2, 3, 8)
    expected = function(x @ part.inner.weight.T + part.inner.bias) @ part.outer.weight.T + part.outer.bias
    torch.testing.assert_close(part(x), expected)


def test_gated_feed_forward_is_its_formula():
    part, x = GatedFeedForward(8, 20), torch.randn(2, 3, 8)
    gate, inner = part.gate_inner.weight[:20], part.gate_inner.weight[20:]
    torch.testing.assert_close(part(x), (F.silu(x @ gate.T) * (x @ inner.T)) @ part.outer.weight.T)


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
def test_feed_forward_begins_as_glorot_has_it(kind):
    part = kind(30, 80, bias=True)
    for layer in part.children():
        bound = math.sqrt(6 / sum(layer.weight.shape))
        assert 0.98 * bound < layer.weight.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert (layer.bias == 0).all()


def test_embeddings_are_scaled_and_tied():
    embed, ids = Embedding(50, 16, scaled=True, pad_id=0), torch.tensor([[1, 0, 49]])
    vectors = embed(ids)
    torch.testing.assert_close(vectors, embed.weight[ids] * 4)
    assert vectors[0, 1].abs().max() == 0, "padding has no vector"
    torch.testing.assert_close(embed.unembed(vectors), vectors @ embed.weight.T)
    assert sum(p.numel() for p in embed.parameters()) == 50 * 16
    assert 0.2 < embed.weight[1:].std() < 0.3, "scaled embeddings start with variance 1/D"


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("bidirectional", [False, True])
class TestRecurrent:
    def layers(self, kind, bidirectional):
        return Recurrent(kind, 6, d_hidden=5, n_layers=2, bidirectional=bidirectional)

    def test_what_stands_in_the_padding_never_matters(self, kind, bidirectional):
        layers, x, lengths = self.layers(kind, bidirectional), torch.randn(3, 7, 6), torch.tensor([4, 7, 1])
        noisy = x.clone()
        noisy[0, 4:], noisy[2, 1:] = 1e6, float("nan")
        one, other = layers(x, lengths=lengths), layers(noisy, lengths=lengths)
        assert torch.equal(one.outputs, other.outputs)
        assert torch.equal(one.state, other.state)

    def test_a_row_of_a_batch_is_the_row_alone(self, kind, bidirectional):
        layers, x, lengths = self.layers(kind, bidirectional), torch.randn(3, 7, 6), torch.tensor([4, 7, 1])
        together = layers(x, lengths=lengths)
        for row, length in enumerate(lengths.tolist()):
            alone = layers(x[row : row + 1, :length])
            torch.testing.assert_close(together.outputs[row : row + 1, :length], alone.outputs)
            torch.testing.assert_close(together.state[:, :, row : row + 1], alone.state)

    def test_shapes(self, kind, bidirectional):
        layers = self.layers(kind, bidirectional)
        outputs, state = layers(torch.randn(3, 7, 6))
        directions = 2 if bidirectional else 1
        assert outputs.shape == (3, 7, 5 * directions)
        assert layers.d_output == 5 * directions
        assert state.shape == (2 if kind == "lstm" else 1, 2 * directions, 3, 5)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_steps_from_a_carried_state_are_the_whole_run(kind):
    layers, x = Recurrent(kind, 6, d_hidden=5, n_layers=2), torch.randn(3, 7, 6)
    whole, state, steps = layers(x), None, []
    for t in range(7):
        outputs, state = layers(x[:, t : t + 1], state=state)
        steps.append(outputs)
    torch.testing.assert_close(torch.cat(steps, 1), whole.outputs)
    torch.testing.assert_close(state, whole.state)


def test_merged_directions_end_with_the_last_forward_and_first_backward_output():
    layers = Recurrent("gru", 6, d_hidden=5, n_layers=2, bidirectional=True)
    outputs, state = layers(torch.randn(3, 7, 6))
    merged = merge_directions(state)
    assert merged.shape == (1, 2, 3, 10)
    torch.testing.assert_close(merged[0, -1], torch.cat((outputs[:, -1, :5], outputs[:, 0, 5:]), -1))


def test_recurrent_errors_name_both_numbers():
    with pytest.raises(UsageError, match=r"'ltsm'.*'gru', 'lstm', 'rnn'"):
        Recurrent("ltsm", 4, d_hidden=4)
    with pytest.raises(ShapeError, match="2 rows does not fit inputs of 3 rows"):
        Recurrent("gru", 4, d_hidden=4)(torch.randn(3, 2, 4), state=torch.zeros(1, 1, 2, 4))


def test_recurrent_is_torchs_own():
    layers, peer = Recurrent("lstm", 6, d_hidden=5, n_layers=2), nn.LSTM(6, 5, 2, batch_first=True)
    peer.load_state_dict(layers.layers.state_dict())
    x = torch.randn(3, 7, 6)
    assert torch.equal(layers(x).outputs, peer(x)[0])


class TestDrop:
    def test_drops_the_share_asked_for_and_keeps_the_mean(self):
        dropped = drop(torch.ones(200, 501), 0.3, training=True)
        share = (dropped == 0).double().mean()
        assert abs(share - 0.3) < 0.01
        kept = dropped[dropped != 0]
        torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - round(0.3 * 65536) / 65536)))
        assert abs(dropped.mean() - 1) < 0.01

    def test_every_row_column_and_seed_is_its_own(self):
        torch.manual_seed(1)
        one = drop(torch.ones(64, 63), 0.5, training=True) > 0
        other = drop(torch.ones(64, 63), 0.5, training=True) > 0
        torch.manual_seed(1)
        assert torch.equal(drop(torch.ones(64, 63), 0.5, training=True) > 0, one)
        assert not torch.equal(one, other)
        for axis in (0, 1):
            neighbours = (one.narrow(axis, 0, 62) == one.narrow(axis, 1, 62)).double().mean()
            assert abs(neighbours - 0.5) < 0.05, "neighbours are independent"
        assert abs(one.double().mean(0) - 0.5).max() < 0.3

    def test_gradients_pass_where_values_do(self):
        x = torch.randn(5, 7, requires_grad=True)
        y = drop(x, 0.4, training=True)
        y.sum().backward()
        assert torch.equal(x.grad == 0, y == 0)

    def test_nothing_outside_training_and_nonsense_is_refused(self):
        x = torch.randn(3, 4)
        assert drop(x, 0.9, training=False) is x
        assert drop(x, 0.0, training=True) is x
        with pytest.raises(UsageError, match=r"not 1\.5"):
            Dropout(1.5)


def test_a_compiler_sees_the_same_gelu(monkeypatch):
    hidden = torch.linspace(-9, 9, 1001, dtype=torch.float64, requires_grad=True)
    plainly = activation_of("gelu_tanh")(hidden)
    (slope,) = torch.autograd.grad(plainly.sum(), hidden)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    otherwise = activation_of("gelu_tanh")(hidden)
    torch.testing.assert_close(otherwise, plainly)
    torch.testing.assert_close(torch.autograd.grad(otherwise.sum(), hidden)[0], slope)
