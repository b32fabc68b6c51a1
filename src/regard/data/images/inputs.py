"""One image as people have it → pixels: a path, an image of pillow, an array or a tensor.

    pixels_of("cat.jpg", size=224)  →  (3, 224, 224), as `read_image` gives it

Arrays and tensors are (H, W, 3), (3, H, W) or (H, W), uint8 from 0 to 255 or floats from 0 to 1. What could be read as
both (three rows, and three channels last) is taken as its kind usually is: an array has channels last, a tensor first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.images.files import COVER, Fit, convert_image, fit_image, read_image
from regard.errors import UsageError, kind_of

if TYPE_CHECKING:
    from PIL.Image import Image

ImageInput: TypeAlias = "str | Path | Image | NDArray[Any] | Tensor"


def are_several(inputs: object) -> bool:
    """Whether these are several images: a list of them, or an array with one dimension more."""
    listed = isinstance(inputs, Sequence | Iterator) and not isinstance(inputs, str)
    return listed or (isinstance(inputs, np.ndarray | Tensor) and inputs.ndim == 4)


def check_images(inputs: Sequence[object]) -> None:
    """Refuse what is no image, by its number."""
    for number, given in enumerate(inputs):
        if not isinstance(given, str | Path | np.ndarray | Tensor) and not hasattr(given, "getexif"):
            raise UsageError(f"input {number} is {kind_of(given)}; a path, an image, an array or a tensor was expected")


def image_name(image: ImageInput) -> str:
    """What an image is called: its file, where it has one."""
    return str(image) if isinstance(image, str | Path) else str(getattr(image, "filename", "") or "")


def pixels_of(
    image: ImageInput, *, size: int | tuple[int, int] | None = None, fit: Fit = COVER, where: str = "the image"
) -> Tensor:
    """The pixels of an image: uint8 (3, H, W), brought to a size; errors name it `where`."""
    if isinstance(image, str | Path):
        return read_image(Path(image), size=size, fit=fit)
    if isinstance(image, np.ndarray | Tensor):
        return fit_image(_bytes_of(_channels_first(image, where), where), size=size, fit=fit)
    return convert_image(image, size=size, fit=fit)


def _channels_first(image: NDArray[Any] | Tensor, where: str) -> Tensor:
    """The values (3, H, W), whatever they are."""
    values = image.detach().cpu() if isinstance(image, Tensor) else torch.from_numpy(np.ascontiguousarray(image))
    if values.ndim == 2:
        values = values[None]
    shape = tuple(values.shape)
    if values.ndim != 3 or 0 in shape or not {1, 3} & {shape[0], shape[-1]}:
        raise UsageError(f"{where} has the shape {tuple(image.shape)}; (H, W, 3), (3, H, W) or (H, W) was expected")
    last = shape[-1] in (1, 3) and (shape[0] not in (1, 3) or (isinstance(image, np.ndarray) and image.ndim == 3))
    values = values.permute(2, 0, 1) if last else values
    return values.expand(3, -1, -1)


def _bytes_of(values: Tensor, where: str) -> Tensor:
    """Values as uint8: as they are, or floats from 0 to 1 by 255."""
    if values.dtype == torch.uint8:
        return values.contiguous()
    low, high = float(values.min()), float(values.max())
    if not values.is_floating_point() or not 0 <= low <= high <= 1:
        raise UsageError(
            f"{where} holds {str(values.dtype).removeprefix('torch.')} from {low:g} to {high:g}; "
            "uint8 from 0 to 255 or floats from 0 to 1 were expected"
        )
    return (values.float() * 255).round().to(torch.uint8).contiguous()
