"""One image file to pixels: all that cameras and paint programs write, and all ways to be broken."""

import builtins
import io

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.images.files import Fit, decode_image, fit_image, read_image
from regard.errors import DataError, EnvironmentProblem, UsageError


def picture(height=20, width=30, seed=0):
    levels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(levels)


def stored(image, kind="PNG", **how):
    file = io.BytesIO()
    image.save(file, kind, **how)
    return file.getvalue()


def pixels(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def test_rgb_comes_as_it_is(tmp_path):
    (tmp_path / "a.png").write_bytes(stored(picture()))
    read = read_image(tmp_path / "a.png")
    assert read.dtype == torch.uint8
    assert torch.equal(read, pixels(picture()))


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA"])
def test_other_modes_become_rgb(mode):
    image = picture().convert(mode)
    assert torch.equal(decode_image(stored(image), where="a"), pixels(image.convert("RGB")))


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "L"])
def test_jpegs_of_other_colours(mode):
    content = stored(picture().convert(mode), "JPEG", quality=95)
    expected = pixels(Image.open(io.BytesIO(content)).convert("RGB"))
    assert torch.equal(decode_image(content, where="a"), expected)


def test_sixteen_bits_are_scaled_and_not_clipped():
    levels = np.arange(256, dtype=np.uint16).reshape(16, 16)
    read = decode_image(stored(Image.fromarray(levels * 257)), where="a")
    assert torch.equal(read[0], torch.from_numpy(levels.astype(np.uint8)))
    dark = decode_image(stored(Image.fromarray(levels)), where="a")
    assert dark.max() == 1, "a dark image stays dark"


def test_transparent_is_white():
    image = picture().convert("RGBA")
    image.putalpha(Image.new("L", image.size, 0))
    assert (decode_image(stored(image), where="a") == 255).all()
    image = Image.new("P", (4, 4), 0)
    image.info["transparency"] = 0
    assert (decode_image(stored(image, transparency=0), where="a") == 255).all()


@pytest.mark.parametrize("turn", range(1, 9))
def test_exif_turns_are_made(turn):
    from PIL import ImageOps

    facts = Image.Exif()
    facts[0x0112] = turn
    content = stored(picture(), "JPEG", exif=facts, quality=95)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    assert torch.equal(decode_image(content, where="a"), pixels(expected))


def test_a_size_is_covered_and_cut_from_the_middle():
    levels = np.zeros((10, 30, 3), np.uint8)
    levels[:, 10:20] = 200
    content = stored(Image.fromarray(levels))
    assert (decode_image(content, where="a", size=10) == 200).all()
    assert decode_image(content, where="a", size=(7, 40)).shape == (3, 7, 40)
    assert decode_image(content, where="a", size=(50, 3)).shape == (3, 50, 3)
    wide = decode_image(content, where="a", size=10, fit=Fit("stretch"))
    assert wide[0, 5].tolist() == sorted(wide[0, 5, :5].tolist()) + wide[0, 5, 5:].tolist()
    assert (wide[0, :, 0] == 0).all()
    assert wide[0, 5, 5] > 190
    zoomed = decode_image(stored(picture(40, 40)), where="a", size=20, fit=Fit(shortest=40))
    assert torch.equal(zoomed, pixels(picture(40, 40))[:, 10:30, 10:30])
    assert torch.equal(fit_image(pixels(picture(40, 40)), size=20, fit=Fit(shortest=40)), zoomed)


@pytest.mark.parametrize("size", [0, (4, 0), -1])
def test_a_size_of_nothing_is_refused(size):
    with pytest.raises(UsageError, match="at least 1 × 1"):
        decode_image(stored(picture()), where="a", size=size)


def test_broken_files_are_named(tmp_path):
    whole = stored(picture(), "JPEG")
    for name, content, reason in [
        ("empty.jpg", b"", "is empty, not an image"),
        ("text.jpg", b"hello", "cannot identify image file"),
        ("cut.jpg", whole[: len(whole) // 2], "not an image that can be read"),
        ("cut.png", stored(picture())[:80], "not an image that can be read"),
        ("head.jpg", whole[:20], "not an image that can be read"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=reason) as error:
            read_image(tmp_path / name)
        assert str(tmp_path / name) in str(error.value)
        assert "BytesIO" not in str(error.value)
        assert error.value.hint
    with pytest.raises(DataError, match=r"none.png: cannot be read \(No such file"):
        read_image(tmp_path / "none.png")
    with pytest.raises(DataError, match="cannot be read"):
        read_image(tmp_path)


def test_without_pillow_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "PIL" or name.startswith("PIL."):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    content = stored(picture())
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EnvironmentProblem, match="needs pillow") as error:
        decode_image(content, where="a")
    assert "regard[images]" in error.value.hint
