"""Images with captions as a task's data: where they are, and what is kept of them.

`config.py` says how they are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.images.arrays import Array
from regard.data.images.captions import CaptionSource, hold_pictures, without_punctuation
from regard.data.io.archives import is_archive
from regard.data.io.globs import expand_all
from regard.data.io.lines import hash_file
from regard.data.io.paths import find_data
from regard.data.synthetic.shapes import shape_scenes
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.errors import ConfigError, DataError
from regard.tasks.captions.config import CaptionData
from regard.tasks.files import DataFiles, Say, Sets, split_off


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images with their captions: `pixels` uint8 (n, 3, H, W), `names` (n,), and several texts each."""

    pixels: Array
    names: list[str]
    captions: list[tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.names)

    def part(self, places: Sequence[int]) -> Pictures:
        """Some of them."""
        return Pictures(
            self.pixels[np.asarray(places, np.int64)],
            [self.names[i] for i in places],
            [self.captions[i] for i in places],
        )


CaptionSets = Sets[Pictures]


class CaptionFiles(DataFiles[CaptionData]):
    """The images and captions of a recipe; what is decoded is kept under `made`."""

    def read(self, *, say: Say = lambda _: None) -> CaptionSets:
        """Read and check everything."""
        if self.data.synthetic:
            sets = {part: self._drawn(part) for part in ("train", "valid", "test")}
            return CaptionSets(sets["train"], sets["valid"], {"test": sets["test"]})
        train = self.pictures(self.source(self.data.train, what="train"), say=say)
        if self.data.valid:
            valid = self.pictures(self.source(self.data.valid, what="valid"), say=say)
        else:
            train, valid = self._divided(train)
        return CaptionSets(train, valid, self.tests(say=say))

    def tests(self, *, say: Say = lambda _: None) -> dict[str, Pictures]:
        """The images to report on, by name."""
        if self.data.synthetic:
            return {"test": self._drawn("test")}
        return {
            name: self.pictures(self.source(files, what=f"test.{name}"), say=say)
            for name, files in self.data.test.items()
        }

    def source(self, files: Sequence[str], *, what: str) -> CaptionSource:
        """Describe one set of captions: a table or a folder, and perhaps a list of images."""
        files = expand_all(files, self.root)
        if not 1 <= len(files) <= 2:
            raise ConfigError(
                f"data.{what} names {len(files) or 'no'} files; allowed are a table of captions (or a folder with one) "
                "and a list of the images to take from it",
                hint=f"give one with --{what} FILE" if what in ("train", "valid") else None,
            )
        paths = [find_data(name, self.root) for name in files]
        only = paths[1] if len(paths) == 2 else None
        data = self.data
        return CaptionSource(paths[0], only, image=data.image, caption=data.caption, format=data.format)

    def pictures(self, source: CaptionSource, *, say: Say = lambda _: None) -> Pictures:
        """Read the captions of a source and decode its images."""
        data, made, images = self.data, self.made / "images", self._images or source.folder
        held = hold_pictures(source, images, size=data.image_size, folder=made, bad=data.bad, say=say)
        return Pictures(held.pixels, [e.image for e in held.examples], [e.captions for e in held.examples])

    def fingerprints(self) -> dict[str, Any]:
        """Of every set, and of the archive of images."""
        if self.data.synthetic:
            return {"synthetic": self.data.synthetic}
        fingerprints = {name: self.source(files, what=name).fingerprint() for name, files in self.sets().items()}
        images = self._images
        return fingerprints | ({"images": hash_file(images)} if images is not None and is_archive(images) else {})

    @cached_property
    def _images(self) -> Path | None:
        return None if self.data.images is None else Path(find_data(self.data.images, self.root))

    def _divided(self, whole: Pictures) -> tuple[Pictures, Pictures]:
        """A share of the images kept back, the same every time."""
        n = round(len(whole) * self.data.held_out)
        if not 1 <= n < len(whole):
            raise DataError(
                f"{len(whole)} images cannot be divided: data.held_out is {self.data.held_out}, "
                "and at least one is needed on each side",
                hint="name images to choose by: --valid FILE",
            )
        kept, held = split_off(len(whole), self.data.held_out)
        return whole.part(kept), whole.part(held)

    def _drawn(self, part: str) -> Pictures:
        scenes = shape_scenes(getattr(self.data, f"n_{part}"), 0, split=part)
        names = [f"{part}-{i}.png" for i in range(len(scenes))]
        return Pictures(np.stack([scene.pixels for scene in scenes]), names, [scene.captions for scene in scenes])


def named_files(data: CaptionData, root: Path | None) -> list[Path]:
    """The images that tables of captions name, where they lie beside the table; a folder of images counts itself."""
    files = CaptionFiles(data, root)
    if data.synthetic or data.images is not None:
        return []
    sources = [files.source(names, what=name) for name, names in files.sets().items()]
    return [source.folder / one.image for source in sources for one in source.examples(bad=data.bad)]


def as_text(data: CaptionData, caption: str) -> str:
    """A caption as the tokenizer gets it."""
    return without_punctuation(caption) if data.punctuation == "drop" else caption


def without_unknown(options: DecodeOptions, tokenizer: Tokenizer) -> DecodeOptions:
    """The same options, but a caption never says that it has no word for something."""
    unknown = tokenizer.special_tokens.unk
    if unknown is None or unknown in options.banned:
        return options
    return replace(options, banned=(*options.banned, unknown))
