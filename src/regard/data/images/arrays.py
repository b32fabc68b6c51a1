"""Images and labels in one `.npz` file of arrays.

    images uint8 (N, H, W, 3), (N, 3, H, W), or (N, H, W) for grey ones        labels (N,) or (N, 1), numbers or texts

The two may be given for several parts: `train_images`, `train_labels`, `test_images`, …
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.io.arrays import DAMAGED, open_arrays
from regard.errors import DataError

Array = npt.NDArray[np.uint8]


def array_names(path: Path) -> list[str]:
    """What the arrays of a file are called."""
    return list(_load(path))


def read_arrays(path: Path, prefixes: Sequence[str] = ("",)) -> tuple[Array, list[str], str]:
    """Images (N, H, W, 3), their labels, and the name of the array, by the first of the prefixes that is there."""
    names = array_names(path)
    prefix = next((prefix for prefix in prefixes if f"{prefix}images" in names), prefixes[0])
    wanted = (f"{prefix}images", f"{prefix}labels")
    missing = [name for name in wanted if name not in names]
    if missing:
        raise DataError(f"{path}: no array is called {missing[0]!r}; it has {', '.join(names) or 'none'}")
    images, labels = _load(path, wanted).values()
    images = _as_rows(images, path)
    if labels.size != len(images) or labels.shape[:1] != images.shape[:1]:
        raise DataError(f"{path}: {len(images):,} images and labels {labels.shape}; one label an image is needed")
    return images, [str(label) for label in labels.reshape(-1).tolist()], wanted[0]


def _load(path: Path, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The arrays of these names; without names only what there is to load."""
    try:
        with open_arrays(path) as held:
            return {name: held[name] for name in names} if names else dict.fromkeys(held.names)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except DAMAGED as error:
        reason = str(error).partition(". ")[0]
        raise DataError(
            f"{path}: not a file of arrays that can be read ({reason})", hint="numpy.savez(path, images=…, labels=…)"
        ) from None


def _as_rows(images: npt.NDArray[Any], path: Path) -> Array:
    if images.dtype != np.uint8:
        raise DataError(f"{path}: images are {images.dtype}, and uint8 from 0 to 255 is needed")
    if images.ndim == 3:
        images = images[..., None]
    elif images.ndim == 4 and images.shape[-1] not in (1, 3):
        images = images.transpose(0, 2, 3, 1)
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or 0 in images.shape[1:]:
        raise DataError(f"{path}: images of shape {images.shape}; (N, H, W, 3), (N, 3, H, W) or (N, H, W) are needed")
    rows: Array = np.broadcast_to(images, (*images.shape[:3], 3))
    return rows
