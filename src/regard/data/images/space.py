"""What a classifier of images reads and says: the classes' names, the size, and the scale of its pixels.

    normalised = (pixels / 255 − mean) / std            channel by channel

A run keeps it as `images.json`; of others' models it is read from, and written to, `preprocessor_config.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from regard.data.images.files import COVER, Fit
from regard.data.io.atomic import read_facts, write_whole

FILE, THEIR_FILE = "images.json", "preprocessor_config.json"
Channels = tuple[float, float, float]
_SAYS_NOT = "does not say how images are read"
_LONGEST = 1 << 14
_BRIGHTEST = 1e6  # of a channel's mean and deviation
_RESAMPLE = {2: "bilinear", 3: "bicubic"}  # pillow's numbers


@dataclass(frozen=True)
class ImageSpace:
    """The classes in order, height and width, and the mean and deviation of each channel, from 0 to 1."""

    names: tuple[str, ...]
    size: tuple[int, int]
    mean: Channels = (0.5, 0.5, 0.5)
    std: Channels = (0.5, 0.5, 0.5)
    fit: Fit = COVER

    def normalised(self, pixels: Tensor) -> Tensor:
        """Pixels uint8 (..., 3, H, W) as a model reads them, in single precision."""
        # Filled in place: a copy from the processor would make every batch wait for the one before.
        each = (
            [torch.full((1, 1, 1), value, device=pixels.device) for value in part] for part in (self.mean, self.std)
        )
        mean, std = (torch.cat(channels) for channels in each)
        return (pixels.float() / 255 - mean) / std

    def save(self, folder: Path) -> None:
        """Write `images.json`, whole or not at all."""
        write_whole(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> ImageSpace:
        """Read what `save` wrote."""

        def parse(facts: dict[str, Any]) -> ImageSpace:
            height, width = map(_side, facts["size"])
            mean, std = (_channels(facts[name]) for name in ("mean", "std"))
            return cls(tuple(map(str, facts["names"])), (height, width), mean, std, _fit(facts["fit"]))

        return read_facts(folder / FILE, parse, what=_SAYS_NOT, hint="a run on images keeps how it reads them")

    @classmethod
    def of_others(cls, folder: Path, names: Sequence[str], size: tuple[int, int]) -> ImageSpace:
        """What `preprocessor_config.json` says, for a model that reads images of this size."""
        if not (folder / THEIR_FILE).exists():
            return cls(tuple(names), size)

        def parse(facts: dict[str, Any]) -> ImageSpace:
            plain = not facts.get("do_normalize", True)
            mean = (0.0, 0.0, 0.0) if plain else _channels(facts["image_mean"])
            std = (1.0, 1.0, 1.0) if plain else _channels(facts["image_std"])
            return cls(tuple(names), size, mean, std, _their_fit(facts))

        return read_facts(folder / THEIR_FILE, parse, what=_SAYS_NOT, hint="fetch it again")

    def for_others(self) -> dict[str, Any]:
        """What others' `preprocessor_config.json` says; they stretch images to their size."""
        height, width = self.size
        side = {"height": height, "width": width}
        cut = self.fit.how == "cover" and height == width
        resample = next(number for number, name in _RESAMPLE.items() if name == self.fit.resample)
        size: dict[str, int] = {"shortest_edge": self.fit.shortest or height} if cut else side
        return {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": size,
            **({"do_center_crop": True, "crop_size": side} if cut else {}),
            "resample": resample,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }


def _their_fit(facts: Mapping[str, Any]) -> Fit:
    resample = _RESAMPLE.get(facts.get("resample", 2), "bicubic")
    size = facts.get("size", {})
    if not isinstance(size, Mapping):
        size = {"shortest_edge": size} if facts.get("do_center_crop") else {"height": size}
    if "shortest_edge" not in size:
        return Fit("stretch", resample)  # type: ignore[arg-type]
    return Fit("cover", resample, _side(size["shortest_edge"]))  # type: ignore[arg-type]


def _fit(facts: Any) -> Fit:
    fit = TypeAdapter(Fit).validate_python(facts)
    return fit if fit.shortest is None else replace(fit, shortest=_side(fit.shortest))


def _side(given: Any) -> int:
    """A side of an image, in pixels."""
    side = int(given)
    if not 1 <= side <= _LONGEST:
        raise ValueError(f"a side of {side:,} pixels; allowed are 1 to {_LONGEST:,}")
    return side


def _channels(values: Sequence[Any]) -> Channels:
    first, second, third = map(float, values)
    if not all(abs(one) < _BRIGHTEST for one in (first, second, third)):
        raise ValueError(f"a channel's mean or deviation is none: {first}, {second}, {third}")
    return first, second, third
