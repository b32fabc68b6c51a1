"""One image file → pixels: uint8 (3, H, W), RGB, upright.

Whatever a camera or a paint program writes comes out the same: grey, palette, sixteen-bit and CMYK images become RGB,
transparency is laid on white, the turn that EXIF asks for is made. Asked for a size, the image is scaled until it
covers it and the middle is cut out, unless `Fit` says otherwise. Pillow does the reading, and is imported on first use.

    read_image(Path("cat.jpg"), size=224)  →  (3, 224, 224)
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.config.bounded import read_bytes
from regard.config.process import no_warnings
from regard.errors import DataError, EnvironmentProblem, UsageError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_ORIENTATION = 0x0112
_SIXTEEN_BITS = ("I", "I;16", "I;16B", "I;16L")


@dataclass(frozen=True)
class Fit:
    """How an image comes to a size: scaled to `cover` it and cut from the middle, or `stretch`ed to it.

    `shortest` is what the shorter side is scaled to before the cut, where that is more than the size itself.
    """

    how: Literal["cover", "stretch"] = "cover"
    resample: Literal["bicubic", "bilinear"] = "bicubic"
    shortest: int | None = None


COVER = Fit()


def read_image(path: Path, *, size: int | tuple[int, int] | None = None, fit: Fit = COVER) -> Tensor:
    """The image in `path`: uint8 (3, H, W); with `size` (a side, or height and width) cut to it from the middle."""
    try:
        content = read_bytes(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    return decode_image(content, where=str(path), size=size, fit=fit)


def decode_image(content: bytes, *, where: str, size: int | tuple[int, int] | None = None, fit: Fit = COVER) -> Tensor:
    """The image whose file holds `content`: uint8 (3, H, W); errors name it `where`."""
    pillow, sides = _pillow(), _sides(size)
    if not content:
        raise DataError(f"{where}: is empty, not an image", hint="leave it out, or fetch it again")
    try:
        with no_warnings():  # pillow's remarks on odd metadata; what matters is whether the pixels come
            image = _fitted(_upright_rgb(pillow.open(io.BytesIO(content))), sides, fit)
    except (OSError, SyntaxError, ValueError, EOFError, ZeroDivisionError, pillow.DecompressionBombError) as error:
        reason = str(error).partition(" <_io.BytesIO")[0]
        raise DataError(
            f"{where}: not an image that can be read ({reason or type(error).__name__})",
            hint="open it in an image viewer; save it again as PNG or JPEG, or leave it out",
        ) from None
    return _as_tensor(image)


def convert_image(image: Any, *, size: int | tuple[int, int] | None = None, fit: Fit = COVER) -> Tensor:
    """An image of pillow as `read_image` gives the file that it came from: uint8 (3, H, W)."""
    sides = _sides(size)
    return _as_tensor(_fitted(_upright_rgb(image), sides, fit))


def fit_image(pixels: Tensor, *, size: int | tuple[int, int] | None, fit: Fit = COVER) -> Tensor:
    """Pixels (3, H, W) brought to a size."""
    sides = _sides(size)
    if sides is None or pixels.shape[1:] == sides:
        return pixels
    return _as_tensor(_fitted(_pillow().fromarray(pixels.permute(1, 2, 0).contiguous().numpy()), sides, fit))


def _as_tensor(image: Any) -> Tensor:
    return torch.from_numpy(np.array(image, dtype=np.uint8)).permute(2, 0, 1).contiguous()


def _upright_rgb(image: Any) -> Any:
    """`image` as RGB, turned as its EXIF says."""
    image.load()
    turn = image.getexif().get(_ORIENTATION, 1)
    if image.mode in _SIXTEEN_BITS or image.mode == "F":
        image = _eight_bits(image)
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        image = image.convert("RGBA")
        white = _pillow().new("RGBA", image.size, (255, 255, 255, 255))
        image = _pillow().alpha_composite(white, image)
    return _turned(image.convert("RGB"), turn)


def _eight_bits(image: Any) -> Any:
    """A grey image of more than eight bits, scaled to 0 … 255 (pillow's own conversion would clip it)."""
    values = np.asarray(image).astype(np.float64)
    most = values.max(initial=0.0)
    scale = 1.0
    if image.mode == "F":
        scale = 255.0 if most <= 1 else 1.0  # numbers up to 1, or up to 255
    elif image.mode != "I" or most > 255:
        scale = 1 / 257
    return _pillow().fromarray((values * scale).round().clip(0, 255).astype(np.uint8))


def _turned(image: Any, turn: int) -> Any:
    """`image` after the transposition that EXIF orientation `turn` names (1 to 8; anything else means none)."""
    how = _pillow().Transpose
    steps = (how.FLIP_LEFT_RIGHT, how.ROTATE_180, how.FLIP_TOP_BOTTOM, how.TRANSPOSE, how.ROTATE_270, how.TRANSVERSE,
             how.ROTATE_90)  # fmt: skip
    return image.transpose(steps[int(turn) - 2]) if turn in range(2, 9) else image


def _fitted(image: Any, size: tuple[int, int] | None, fit: Fit) -> Any:
    height, width = size or (image.height, image.width)
    if size is None or (image.size == (width, height) and fit.shortest is None):
        return image
    resample = getattr(_pillow().Resampling, fit.resample.upper())
    if fit.how == "stretch":
        return image.resize((width, height), resample)
    scale = max(height / image.height, width / image.width)
    if fit.shortest is not None:
        scale = max(scale, fit.shortest / min(image.size))
    tall, wide = max(round(image.height * scale), height), max(round(image.width * scale), width)
    image = image.resize((wide, tall), resample)
    top, left = (tall - height) // 2, (wide - width) // 2
    return image.crop((left, top, left + width, top + height))


def _sides(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    sides = (size, size) if isinstance(size, int) else size
    if sides is not None and min(sides) < 1:
        raise UsageError(f"an image's size is at least 1 × 1, given {sides[0]} × {sides[1]}")
    return sides


def _pillow() -> Any:
    """Pillow's Image module, on first use: text models never pay for it."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise EnvironmentProblem(
            "reading images needs pillow, which is not installed",
            hint="pip install 'regard[images]' (or pip install pillow)",
        ) from None
    return Image
