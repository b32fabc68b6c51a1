"""Images changed at random: every operation is pillow's, maps compose, draws follow the seed."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from regard.data.images.operations import autocontrast, equalize, grey, mean_grey, posterize, solarize
from regard.data.images.space import ImageSpace
from regard.data.images.warping import affine, crops, flips, joined, warped, zooms
from regard.errors import ConfigError
from regard.tasks.images.augmentation import (
    COLOURS,
    OPERATIONS,
    SHAPES,
    Augmentation,
    boxes,
    mixed,
    recoloured,
    reshaped,
)

SIZE = (20, 28)
PLAIN = ImageSpace(("a", "b"), SIZE, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
CPU = torch.device("cpu")


@pytest.fixture
def levels():
    """Six images: dark, bright, of two levels, of one, …"""
    torch.manual_seed(0)
    noise = torch.randn(6, 3, *SIZE) * torch.tensor([30.0, 5, 60, 90, 1, 0]).view(6, 1, 1, 1)
    images = (noise + torch.tensor([60.0, 120, 200, 128, 90, 77]).view(6, 1, 1, 1)).clamp(0, 255).round()
    images[4] = torch.where(images[4] > 90, 250.0, 3.0)
    return images


def by_pillow(levels, change):
    images = [Image.fromarray(image.permute(1, 2, 0).byte().numpy()) for image in levels]
    return torch.stack([torch.from_numpy(np.array(change(image))).permute(2, 0, 1).float() for image in images])


def chosen(name, n=6):
    return torch.full((n,), OPERATIONS.index(name))


@pytest.mark.parametrize("strength", [-1.0, -0.4, 0.5, 1.0])
@pytest.mark.parametrize("name", COLOURS)
def test_colours_change_as_in_pillow(name, strength, levels):
    theirs = {
        "identity": lambda image: image,
        "autocontrast": ImageOps.autocontrast,
        "equalize": ImageOps.equalize,
        "posterize": lambda image: ImageOps.posterize(image, 8 - round(4 * abs(strength))),
        "solarize": lambda image: ImageOps.solarize(image, 256 * (1 - abs(strength))),
        "colour": lambda image: ImageEnhance.Color(image).enhance(1 + 0.9 * strength),
        "contrast": lambda image: ImageEnhance.Contrast(image).enhance(1 + 0.9 * strength),
        "brightness": lambda image: ImageEnhance.Brightness(image).enhance(1 + 0.9 * strength),
        "sharpness": lambda image: ImageEnhance.Sharpness(image).enhance(1 + 0.9 * strength),
    }[name]
    ours = recoloured(levels, chosen(name), torch.full((6,), strength))
    apart = (ours - by_pillow(levels, theirs)).abs()
    assert apart.max() <= 1, "rounding may differ by a level"
    assert (apart > 0).float().mean() < 0.02


def test_each_image_of_a_batch_has_its_own_operation(levels):
    which = torch.tensor([OPERATIONS.index(name) for name in ("equalize", "posterize", "rotate", "solarize")])
    some = levels[:4]
    found = recoloured(some, which, torch.full((4,), 0.9))
    assert torch.equal(found[0], equalize(some)[0])
    assert torch.equal(found[1], posterize(some, torch.full((4,), 4.0))[1])
    assert torch.equal(found[2], some[2]), "a change of shape leaves colours alone"
    assert torch.equal(found[3], solarize(some, torch.full((4,), 256 * 0.1))[3])
    maps = reshaped(which, torch.full((4,), 0.9), SIZE)
    assert torch.equal(maps[[0, 1, 3]], affine(3, CPU))
    assert not torch.equal(maps[2], affine(1, CPU)[0])
    assert torch.equal(autocontrast(levels)[5], levels[5]), "one level stays"
    assert mean_grey(levels).shape == (6, 1, 1, 1)
    assert grey(levels).shape == (6, 1, *SIZE)


def test_shifts_and_flips_are_exact(levels):
    moved = warped(levels, affine(6, CPU, x=torch.full((6,), 3.0), y=torch.full((6,), -2.0)))
    expected = torch.zeros_like(levels)
    expected[:, :, 2:, :-3] = levels[:, :, :-2, 3:]
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-3)
    flipped = warped(levels, affine(6, CPU, xx=-torch.ones(6)))
    torch.testing.assert_close(flipped, levels.flip(-1), rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_change_as_in_pillow(name, levels):
    """Pillow's affine maps have their origin in the corner; ours in the middle."""
    maps = reshaped(chosen(name), torch.full((6,), 0.7), SIZE).double()
    middle = torch.tensor([SIZE[1] / 2, SIZE[0] / 2], dtype=torch.double)
    a, shift = maps[0, :, :2], maps[0, :, 2]
    corner = middle + shift - a @ middle
    given = [a[0, 0], a[0, 1], corner[0], a[1, 0], a[1, 1], corner[1]]
    bilinear = Image.Resampling.BILINEAR
    theirs = by_pillow(
        levels, lambda image: image.transform(image.size, Image.Transform.AFFINE, [float(v) for v in given], bilinear)
    )
    ours = warped(levels, maps.float())
    inside = (warped(torch.ones_like(levels), maps.float()) > 0.999) & (theirs > 0)
    assert inside.float().mean() > 0.3
    assert (ours - theirs)[inside].abs().max() <= 1.01


def test_maps_join_in_order(levels):
    first = affine(6, CPU, x=torch.full((6,), 4.0))
    then = affine(6, CPU, xx=-torch.ones(6))
    both = warped(levels, joined(first, then))
    torch.testing.assert_close(both, warped(warped(levels, first), then), rtol=0, atol=1e-3)
    assert not torch.allclose(both, warped(levels, joined(then, first)), atol=1)


def test_draws_stay_within_what_was_asked_for():
    torch.manual_seed(0)
    shifts = crops(500, CPU, (2, 3))[:, :, 2]
    assert sorted(set(shifts[:, 0].tolist())) == [-3, -2, -1, 0, 1, 2, 3]
    assert sorted(set(shifts[:, 1].tolist())) == [-2, -1, 0, 1, 2]
    assert set(flips(100, CPU)[:, 0, 0].tolist()) == {-1.0, 1.0}
    maps = zooms(500, CPU, size=SIZE, share=(0.25, 0.5))
    area = maps[:, 0, 0] * maps[:, 1, 1]
    assert 0.2 < area.min() < 0.3
    assert area.max() <= 0.5001
    for axis, side in ((0, SIZE[1]), (1, SIZE[0])):
        reach = maps[:, axis, 2].abs() + maps[:, axis, axis] * side / 2
        assert reach.max() <= side / 2 + 1e-3, "a crop lies within the image"


def test_boxes_have_about_their_share():
    torch.manual_seed(0)
    found = boxes(2000, (64, 64), share=torch.full((2000,), 0.1))
    assert 0.07 < found.float().mean() < 0.1  # some reach over the edge
    assert found.flatten(1).any(1).float().mean() > 0.99


def test_mixing_mixes_labels_by_what_is_seen():
    torch.manual_seed(0)
    images = torch.stack([torch.zeros(3, 16, 16), torch.ones(3, 16, 16)] * 50)
    targets = images[:, :1, 0, 0] * torch.tensor([-1.0, 1.0]) + torch.tensor([1.0, 0.0])  # (1, 0) or (0, 1)
    for how in ({"mixup": 0.8, "cutmix": 0.0}, {"mixup": 0.0, "cutmix": 1.0}, {"mixup": 0.8, "cutmix": 1.0}):
        seen, said = mixed(images, targets, **how)
        torch.testing.assert_close(said.sum(1), torch.ones(100))
        torch.testing.assert_close(seen.mean((1, 2, 3)), said[:, 1], rtol=0, atol=1e-5)
        assert ((said[:, 1] > 0.05) & (said[:, 1] < 0.95)).float().mean() > 0.5
        cut = (seen == seen.round()).flatten(1).all(1)
        assert {"mixup": not cut.all(), "cutmix": cut.any()}["cutmix" if how["cutmix"] else "mixup"]
    seen, said = mixed(images, targets, mixup=0.8, cutmix=1.0, share=0.3)
    assert 50 < (said.max(1).values == 1).sum() < 90
    unmixed, same = mixed(images, targets, mixup=0.0, cutmix=0.0)
    assert unmixed is images
    assert same is targets


FULL = Augmentation(crop=0.2, zoom=(0.5, 1), flip=True, operations=2, erase=0.5, mixup=0.8, cutmix=1.0)


def test_everything_together_follows_the_seed(levels):
    pixels, targets = levels.byte(), torch.eye(2)[torch.tensor([0, 1, 0, 1, 1, 0])]

    def draw(seed):
        torch.manual_seed(seed)
        return FULL(pixels, targets, PLAIN)

    first, again, other = draw(1), draw(1), draw(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert first[0].shape == levels.shape
    assert first[0].isfinite().all()
    torch.testing.assert_close(first[1].sum(1), torch.ones(6))


def test_nothing_is_nothing(levels):
    images, targets = Augmentation()(levels.byte(), torch.eye(6), PLAIN)
    assert torch.equal(images, levels / 255)
    assert torch.equal(targets, torch.eye(6))


def test_erased_boxes_are_noise(levels):
    torch.manual_seed(0)
    images, _ = Augmentation(erase=1.0)(levels[5:].byte().repeat(50, 1, 1, 1), torch.eye(50), PLAIN)
    changed = images != 77 / 255
    assert 0.02 < changed.float().mean() < 0.3
    assert (images.amax((1, 2, 3)) > 1).float().mean() > 0.5


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"magnitude": 11}, "train.magnitude is 11, from 0 to 10"),
        ({"zoom": (0.0, 1.0)}, "train.zoom is"),
        ({"zoom": (0.9, 0.5)}, "train.zoom is"),
        ({"erase": 1.5, "mixup": -1.0}, "train.mixup is -1.0, at least 0; train.erase is 1.5, from 0 to 1"),
    ],
)
def test_what_cannot_be_asked_for(wrong, reason):
    with pytest.raises(ConfigError, match=reason):
        Augmentation(**wrong)
