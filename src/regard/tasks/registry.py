"""The tasks there are, and what a recipe of each consists of: the types of its sections and the models it can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.config.training import ReadingConfig, TrainConfig, TuningConfig
from regard.decoding import DecodeOptions
from regard.tasks.answers.data import AnswerData, AnswerOptions
from regard.tasks.captions.config import CaptionConfig
from regard.tasks.captions.data import CaptionData, CaptionDecode, CaptionPieces
from regard.tasks.images.classifier import ImageOptions
from regard.tasks.images.config import ImageConfig
from regard.tasks.images.data import ImageData
from regard.tasks.labels.data import LabelData
from regard.tasks.masked.data import MaskedData, MaskedPieces
from regard.tasks.pairs import PairData, PieceConfig
from regard.tasks.series.config import SeriesConfig
from regard.tasks.series.data import SeriesData
from regard.tasks.speech.config import SpeechTrainConfig
from regard.tasks.speech.data import SpeechData, SpeechPieces
from regard.tasks.speech.options import SpeechOptions
from regard.tasks.texts import TextData, TextPieces
from regard.tasks.words.config import WordsConfig
from regard.tasks.words.data import WordData, WordPieces


@dataclass(frozen=True, kw_only=True)
class GuessOptions:
    """The `[decode]` section of a task that guesses: the `k` best guesses are shown."""

    k: int = 5


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """The `[decode]` section of a task that leaves no choice."""


@dataclass(frozen=True)
class Kind:
    """What recipes of one task are made of. The first of its models goes without saying, and so does its `size`.

    `beginnings` are the keys of `[model]` that say where its weights begin.
    """

    models: tuple[str, ...]
    data: type[Any]
    tokenizer: type[Any]
    decode: type[Any] = DecodeOptions
    train: type[TrainConfig] = TrainConfig
    size: str | None = None
    beginnings: tuple[str, ...] = ("start",)

    def model(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The `[model]` section with what goes without saying."""
        named = {"name": self.models[0]} | dict(given)
        sized = {"size", "start", "d_model", "n_layers"} & set(given) or named["name"] != self.models[0]
        return named if sized or self.size is None else {"name": named["name"], "size": self.size} | named

    @property
    def sections(self) -> Mapping[str, type[Any]]:
        """The types of all sections but the model's."""
        return {name: getattr(self, name) for name in SECTIONS}


SECTIONS = ("data", "tokenizer", "train", "decode")
_TEXT = ("start", "vectors")
KINDS: Mapping[str, Kind] = {
    "translation": Kind(("transformer", "recurrent"), PairData, PieceConfig),
    "language": Kind(
        ("gpt", "recurrent-lm"), TextData, TextPieces, train=ReadingConfig, size="small", beginnings=_TEXT
    ),
    "masked": Kind(("bert",), MaskedData, MaskedPieces, GuessOptions, ReadingConfig, "small", _TEXT),
    "labels": Kind(("classifier",), LabelData, MaskedPieces, NoOptions, TuningConfig, beginnings=_TEXT),
    "answers": Kind(("span-reader",), AnswerData, MaskedPieces, AnswerOptions, TuningConfig, beginnings=_TEXT),
    "words": Kind(("word-vectors",), WordData, WordPieces, GuessOptions, WordsConfig),
    "series": Kind(
        ("patch-forecaster", "series-transformer", "recurrent-forecaster", "dlinear"),
        SeriesData,
        NoOptions,
        NoOptions,
        SeriesConfig,
    ),
    "images": Kind(("vit",), ImageData, NoOptions, ImageOptions, ImageConfig),
    "captions": Kind(
        ("captioner", "transformer-captioner"), CaptionData, CaptionPieces, CaptionDecode, CaptionConfig, "base"
    ),
    "speech": Kind(("speech-transformer", "las"), SpeechData, SpeechPieces, SpeechOptions, SpeechTrainConfig, "small"),
}
