"""The small residual network: how images become locations."""

import pytest
import torch

from regard.errors import ConfigError, ShapeError
from regard.layers.convolution import ConvNet, GroupNorm, locations_of, norm_of


@pytest.mark.parametrize(("side", "locations"), [(80, 10), (48, 6), (20, 3), (8, 1), (1, 1), (81, 11)])
def test_a_location_for_every_eight_pixels(side, locations):
    net = ConvNet((4, 6, 8, 10), n_blocks=1)
    assert net(torch.rand(2, 3, side, side)).shape == (2, 10, locations, locations)
    assert locations_of(side) == locations


def test_with_group_norms_an_image_does_not_feel_its_neighbours_in_training_either():
    net = ConvNet((16, 32, 32), n_blocks=2, norm="group").double().train()
    images = torch.rand(3, 3, 24, 24, dtype=torch.double)
    together = net(images)
    for i in range(3):
        torch.testing.assert_close(net(images[i : i + 1])[0], together[i], rtol=0, atol=1e-12)
    assert not list(net.buffers())


def test_with_batch_norms_what_was_gathered_in_training_is_used_later():
    net = ConvNet((16, 32, 32), n_blocks=1).double().train()
    images = torch.rand(3, 3, 24, 24, dtype=torch.double)
    assert not torch.allclose(net(images[:1])[0], net(images)[0])
    net.eval()
    torch.testing.assert_close(net(images[:1])[0], net(images)[0], rtol=0, atol=1e-12)
    with pytest.raises(ConfigError, match="norm is 'layer'; allowed: batch, group"):
        ConvNet((4, 4, 4), norm="layer")


def test_bytes_are_shares_of_255():
    net = ConvNet((4, 4, 4), n_blocks=1).eval()
    images = torch.randint(0, 256, (1, 3, 16, 16), dtype=torch.uint8)
    torch.testing.assert_close(net(images), net(images / 255))


def test_groups_are_of_about_sixteen_channels():
    assert [norm_of("group", width).num_groups for width in (4, 16, 64, 48, 20, 40)] == [1, 1, 4, 3, 1, 2]


def test_the_norm_keeps_the_precision_of_the_products_around_it():
    norm = GroupNorm(2, 8)
    hidden = torch.randn(2, 8, 3, 3)
    with torch.autocast("cpu", torch.bfloat16):
        found = norm(hidden)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), norm(hidden), rtol=0.02, atol=0.02)


def test_what_makes_no_network_and_what_is_no_image():
    for widths, blocks in (((4, 4), 1), ((4, 0, 4), 1), ((4, 4, 4), 0)):
        with pytest.raises(ConfigError, match="make no network; allowed are three widths or more"):
            ConvNet(widths, n_blocks=blocks)
    with pytest.raises(ShapeError, match=r"images are \(batch, 3, height, width\), got \(1, 1, 8, 8\)"):
        ConvNet((4, 4, 4))(torch.rand(1, 1, 8, 8))


def test_a_location_stands_in_the_middle_of_its_pixels():
    """What is seen is the same from all sides: a mirrored image gives mirrored locations, if the weights are even."""
    net = ConvNet((4, 6, 8), n_blocks=1).double().eval()
    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.weight.data = (module.weight.data + module.weight.data.flip(-1)) / 2
    images = torch.rand(2, 3, 48, 48, dtype=torch.double)
    torch.testing.assert_close(net(images.flip(-1)), net(images).flip(-1), rtol=0, atol=1e-12)
