"""The tasks there are, and what a recipe of each consists of: the types of its sections and the models it can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.decoding import DecodeOptions
from regard.tasks.pairs import PairData, PieceConfig
from regard.training.config import TrainConfig


@dataclass(frozen=True)
class Kind:
    """What recipes of one task are made of. The first of its models is the one that goes without saying."""

    models: tuple[str, ...]
    data: type[Any]
    tokenizer: type[Any]
    decode: type[Any] = DecodeOptions
    train: type[TrainConfig] = TrainConfig

    @property
    def sections(self) -> Mapping[str, type[Any]]:
        """The types of all sections but the model's."""
        return {name: getattr(self, name) for name in SECTIONS}


SECTIONS = ("data", "tokenizer", "train", "decode")
KINDS: Mapping[str, Kind] = {
    "translation": Kind(("transformer", "recurrent"), PairData, PieceConfig),
}
