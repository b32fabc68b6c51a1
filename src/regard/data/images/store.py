"""Images decoded once, in one file of pixels that is read through the page cache: memory stays flat.

    images.pixels   uint8 (N, 3, H, W), one image after another
    images.labels   int64 (N,), numbers of the names in the header
    images.places   where each image was found, one a line
    images.json     how many there are, their size, the names of the labels, and the fingerprint of what it is made of

Building it checks everything: what cannot be decoded is named, all of it together. A store is whole or absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from os import cpu_count
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from torch import Tensor, from_numpy

from regard.config.bounded import read_text
from regard.config.data import BadRows
from regard.data.images.arrays import Array
from regard.data.images.files import decode_image, fit_image, read_image
from regard.data.images.sources import ImageExample
from regard.data.io.cache import REBUILD, Header, Store
from regard.errors import DataError

Size = tuple[int, int]
_AT_ONCE = 256  # images that are being decoded
_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class ImageHeader(Header):
    """What `images.json` says."""

    n: int
    height: int
    width: int
    names: list[str]
    dropped: int

    def sound(self) -> bool:
        """Whether there is an image, and a label."""
        return min(self.n, self.height, self.width, len(self.names)) >= 1


class ImageStore(Store):
    """Decoded images with their labels. Made by `ImageStore.build`, `open` or `cached`."""

    what, header_file, header_type = "images", "images.json", ImageHeader
    files = ("images.pixels", "images.labels", "images.places")

    def __init__(self, folder: Path, header: ImageHeader) -> None:
        super().__init__(folder, header)
        shape = (header.n, 3, header.height, header.width)
        for name, size in (("images.pixels", int(np.prod(shape))), ("images.labels", header.n * 8)):
            if not (folder / name).is_file() or (folder / name).stat().st_size != size:
                raise DataError(f"{folder / name}: is not whole", hint=REBUILD)
        self.pixels: Array = np.memmap(folder / "images.pixels", np.uint8, "r", shape=shape)
        self.labels: npt.NDArray[np.int64] = np.fromfile(folder / "images.labels", np.int64)
        if not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(header.names):
            raise DataError(f"{folder / 'images.labels'}: a label has no name", hint=REBUILD)

    def __len__(self) -> int:
        return int(self.header.n)

    @property
    def size(self) -> Size:
        """Height and width of all images."""
        return self.header.height, self.header.width

    @property
    def places(self) -> list[str]:
        """Where each image was found."""
        return read_text(self.folder / "images.places").splitlines()

    @classmethod
    def build(
        cls,
        examples: Iterable[ImageExample],
        folder: Path | str,
        *,
        size: Size | None = None,
        bad: BadRows = "refuse",
        fingerprint: str = "",
    ) -> Self:
        """Decode examples into `folder`; without a `size` all have to have that of the first."""
        folder = Path(folder)
        with cls.writing(folder) as draft:
            writer = _Writer(draft, size)
            writer.write(examples)
            cls.write_header(draft, writer.finish(bad, fingerprint))
        return cls.open(folder)


class _Writer:
    """Decodes into the files of a draft, and remembers what went wrong."""

    def __init__(self, draft: Path, size: Size | None) -> None:
        self.draft, self.size, self.forced = draft, size, size is not None
        self.first = ""
        self.labels: list[str] = []
        self.problems: list[str] = []

    def write(self, examples: Iterable[ImageExample]) -> None:
        with open(self.draft / "images.pixels", "wb") as pixels, open(self.draft / "images.places", "wb") as places:
            for example, image in _decoded(examples, self.size):
                image = image if isinstance(image, str) else self._checked(example, image)
                if isinstance(image, str):
                    self.problems.append(image)
                    continue
                pixels.write(image.numpy().tobytes())
                places.write(" ".join(example.where.splitlines()).encode() + b"\n")
                self.labels.append(example.label)

    def finish(self, bad: BadRows, fingerprint: str) -> ImageHeader:
        if self.problems and (bad == "refuse" or not self.labels):
            raise _refused(self.problems, len(self.labels))
        if not self.labels or self.size is None:
            raise DataError("there are no images")
        names = sorted(set(self.labels))
        numbers = {name: number for number, name in enumerate(names)}
        np.array([numbers[label] for label in self.labels], np.int64).tofile(self.draft / "images.labels")
        height, width = self.size
        counts = {"n": len(self.labels), "height": height, "width": width, "dropped": len(self.problems)}
        return ImageHeader(**counts, names=names, fingerprint=fingerprint)

    def _checked(self, example: ImageExample, image: Tensor) -> Tensor | str:
        height, width = image.shape[1:]
        if self.size is None:
            self.size, self.first = (height, width), example.where
        if (height, width) == self.size:
            return image
        return f"{example.where}: is {height} × {width}, and {self.first} is {self.size[0]} × {self.size[1]}"


def _decoded(examples: Iterable[ImageExample], size: Size | None) -> Iterator[tuple[ImageExample, Tensor | str]]:
    """Every example with its pixels, or with what is wrong with it, in order; several are decoded at a time."""

    def decode(example: ImageExample) -> Tensor | str:
        try:
            return pixels_of(example, size)
        except DataError as problem:
            return str(problem)

    stream = iter(examples)
    with ThreadPoolExecutor(cpu_count() or 1) as pool:  # pillow lets go of the interpreter while it decodes
        while chunk := list(islice(stream, _AT_ONCE)):
            yield from zip(chunk, pool.map(decode, chunk), strict=True)


def pixels_of(example: ImageExample, size: Size | None) -> Tensor:
    """The pixels (3, H, W) of an example."""
    if isinstance(example.held, Path):
        if not example.held.is_file():
            raise DataError(f"{example.where}: there is no such image")
        try:
            return read_image(example.held, size=size)
        except DataError as problem:
            row = example.where.removesuffix(str(example.held))  # of a table, its file and line
            raise DataError(f"{row}{problem}", hint=problem.hint) from None
    if isinstance(example.held, bytes):
        return decode_image(example.held, where=example.where, size=size)
    return fit_image(from_numpy(np.array(example.held.transpose(2, 0, 1), order="C")), size=size)


def _refused(problems: list[str], n_good: int) -> DataError:
    shown = problems[:_SHOWN] + ([f"… and {len(problems) - _SHOWN:,} more"] if len(problems) > _SHOWN else [])
    message = f"{len(problems):,} of {len(problems) + n_good:,} images cannot be used:\n  " + "\n  ".join(shown)
    sizes = any(" × " in problem for problem in problems)
    hint = "data.size=224 scales and cuts all of them to one size" if sizes else "data.bad=drop leaves them out"
    return DataError(message, hint=hint)
