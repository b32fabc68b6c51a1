"""Labelled images as a task's data: where they are, their size, and what is held out.

`config.py` says how they are named. Everything is decoded and checked before training begins, once: the
pixels are kept in the run's data folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.data.images.sources import ImageExample, ImageSource, Part
from regard.data.images.space import Channels, ImageSpace
from regard.data.images.store import ImageStore, Size
from regard.data.text.labelled import is_number
from regard.errors import DataError
from regard.tasks.files import DataFiles, Say, Sets, split_off
from regard.tasks.images.config import ImageData

Indices = npt.NDArray[np.int64]
_AT_ONCE = 2**22  # pixels that are looked at together


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Some images of a store: their places in it, and what they are, as numbers of the classes."""

    store: ImageStore
    rows: Indices
    labels: Indices

    def __len__(self) -> int:
        return len(self.rows)

    def pixels(self, indices: npt.ArrayLike | slice = slice(None)) -> npt.NDArray[np.uint8]:
        """The images of these numbers, uint8 (n, 3, H, W)."""
        return self.store.pixels[self.rows[indices]]  # type: ignore[index]

    def places(self) -> list[str]:
        """Where each image was found."""
        known = self.store.places
        return [known[row] for row in self.rows.tolist()]

    def part(self, indices: npt.ArrayLike) -> ImageSet:
        """Only the images of these numbers."""
        chosen = np.asarray(indices, np.int64)
        return replace(self, rows=self.rows[chosen], labels=self.labels[chosen])


@dataclass(frozen=True)
class ImageSets(Sets[ImageSet]):
    """The images of a run, and what they are read as."""

    space: ImageSpace


class ImageFiles(DataFiles[ImageData]):
    """The images of a recipe; decoded ones are kept under `made`."""

    holds, example = "images", "FOLDER"

    @cached_property
    def train(self) -> list[ImageSource]:
        """Where the images to learn from are."""
        return self.sources(self.data.train, what="train")

    def sources(self, names: Sequence[str], *, what: str = "test") -> list[ImageSource]:
        """Folders, archives, tables and arrays by name."""
        return [ImageSource(Path(path), self.data.image, self.data.label) for path in self.find(names, what=what)]

    def read(self, *, say: Say = lambda _: None) -> ImageSets:
        """Decode and check everything; classes that training never shows are an error elsewhere."""
        store = self._store("train", _part("train"), self.train, None, say)
        names = _class_names(store)
        whole = _labelled(store, names)
        space = ImageSpace(names, store.size)
        valid = self._other("valid", self.data.valid, space, say)
        train, held = (whole, valid) if valid is not None else _held_out(whole, share=self.data.valid_share)
        named = (self.data.test or {"test": ()}) if self.data.report else {}
        tests = {name: self._other(name, files, space, say) for name, files in named.items()}
        mean, std = _scale_of(train)
        present = {name: images for name, images in tests.items() if images is not None}
        assert held is not None
        return ImageSets(train, held, present, replace(space, mean=mean, std=std))

    def train_examples(self) -> Iterable[ImageExample]:
        """What there is to learn from, undecoded."""
        part = _part("train")
        return chain.from_iterable(source.examples(part(source)) for source in self.train)

    def has_valid(self) -> bool:
        """Whether there are images to choose by, so that none are held out."""
        return bool(self.data.valid) or any("valid" in source.parts() for source in self.train)

    def read_known(self, names: Sequence[str], space: ImageSpace, *, say: Say = lambda _: None) -> ImageSet:
        """Other images, whose classes have to be known: of a place with parts, its test part."""
        store = self._store("other", _part("test", "valid"), self.sources(names), space.size, say)
        return _labelled(store, space.names)

    def fingerprints(self) -> dict[str, list[str]]:
        """A SHA-256 of every source."""
        named = {name: self.train if name == "train" else self.sources(files) for name, files in self.sets().items()}
        return {name: [source.fingerprint() for source in sources] for name, sources in named.items()}

    def _other(self, name: str, names: Sequence[str], space: ImageSpace, say: Say) -> ImageSet | None:
        """Images to choose by or to report on: those named, else beside the training images, if there are."""
        part: Part = "valid" if name == "valid" else "test"
        sources = self.sources(names) if names else [source for source in self.train if part in source.parts()]
        if not sources:
            return None
        return _labelled(self._store(name, _part(part, "test", "valid"), sources, space.size, say), space.names)

    def _store(
        self, name: str, part: Callable[[ImageSource], Part | None], sources: Sequence[ImageSource],
        size: Size | None, say: Say,
    ) -> ImageStore:  # fmt: skip
        chosen = [(source, part(source)) for source in sources]
        size = size or self.data.sides
        facts = [(source.fingerprint(), which) for source, which in chosen]
        key = hashlib.sha256(repr((facts, size, self.data.bad)).encode()).hexdigest()

        def build(folder: Path) -> ImageStore:
            say(f"{name}: decoding the images of {', '.join(str(source.path) for source, _ in chosen)}")
            examples = (example for source, which in chosen for example in source.examples(which, say))
            store = ImageStore.build(examples, folder, size=size, bad=self.data.bad, fingerprint=key)
            dropped = f", {store.header.dropped:,} dropped" if store.header.dropped else ""
            say(f"{name}: {len(store):,} images of {store.size[0]} × {store.size[1]}{dropped}")
            return store

        return ImageStore.cached(key, self.made, build=build, say=say)


def named_files(data: ImageData, root: Path | None) -> list[Path]:
    """The images that tables name."""
    files = ImageFiles(data, root)
    tables = [one for names in files.sets().values() for one in files.sources(names) if one.kind == "table"]
    return [example.held for table in tables for example in table.examples() if isinstance(example.held, Path)]


def _part(*wanted: Part) -> Callable[[ImageSource], Part | None]:
    """Which part of a place is meant: the first of the wanted ones that it has; None where it is not divided."""

    def choose(source: ImageSource) -> Part | None:
        present = source.parts()
        if present and not set(wanted) & set(present):
            raise DataError(f"{source.path}: has no {wanted[0]} part; it has {', '.join(present)}")
        return next((part for part in wanted if part in present), None)

    return choose


def _class_names(store: ImageStore) -> tuple[str, ...]:
    """The classes in order: whole numbers by size, the rest by their letters; at least two."""
    names = store.header.names
    if len(names) < 2:
        raise DataError(f"there is one class only, {names[0]!r}: there is nothing to tell apart")
    return tuple(sorted(names, key=lambda name: (0, float(name), name) if is_number(name) else (1, 0.0, name)))


def _labelled(store: ImageStore, names: Sequence[str]) -> ImageSet:
    """All images of a store, with the numbers of these classes."""
    known = {name: number for number, name in enumerate(names)}
    unknown = [number for number, name in enumerate(store.header.names) if name not in known]
    if unknown:
        row = int(np.flatnonzero(store.labels == unknown[0])[0])
        shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        raise DataError(
            f"{store.places[row]}: the class {store.header.names[unknown[0]]!r} was not trained on; there are {shown}",
            hint="images to learn from are needed for every class",
        )
    number = np.array([known[name] for name in store.header.names], np.int64)
    return ImageSet(store, np.arange(len(store)), number[store.labels])


def _held_out(images: ImageSet, *, share: float) -> tuple[ImageSet, ImageSet]:
    """What is left to learn from, and what is held out: chosen at random, the same every time."""
    train, held = (images.part(numbers) for numbers in split_off(len(images), share))
    if len(set(train.labels.tolist())) < len(set(images.labels.tolist())):
        raise DataError(
            f"{len(images):,} images are too few to hold {len(held):,} out: a class would have none left",
            hint="give validation data, or more images",
        )
    return train, held


def _scale_of(images: ImageSet) -> tuple[Channels, Channels]:
    """The mean and the deviation of each channel, from 0 to 1; of one colour all through, the deviation is 1."""
    total, squares, n = np.zeros(3), np.zeros(3), 0
    step = max(1, _AT_ONCE // int(np.prod(images.store.size)))
    for begin in range(0, len(images), step):
        values = images.pixels(slice(begin, begin + step)).astype(np.float64) / 255
        total, squares = total + values.sum((0, 2, 3)), squares + (values**2).sum((0, 2, 3))
        n += values.size // 3
    mean = total / n
    std = np.sqrt(np.maximum(squares / n - mean**2, 0))
    red, green, blue = zip(mean.round(6).tolist(), np.where(std > 1e-4, std, 1.0).round(6).tolist(), strict=True)
    return (red[0], green[0], blue[0]), (red[1], green[1], blue[1])
