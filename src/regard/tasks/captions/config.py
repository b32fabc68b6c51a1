"""The settings of the task, and what it consists of.

train = ["holiday"]                                    a folder with captions.csv and the images it names
train = ["captions.tsv"], images = "photos.zip"        a table, and the images in an archive
train = ["Flickr8k.token.txt.gz", "trainImages.txt"]   a table, and a list of the images to take from it
synthetic = "shapes"                                   coloured shapes, made on the spot
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.config.data import BadRows, DataConfig, TokenizerConfig, TokenizerKind
from regard.config.settings import setting
from regard.config.training import ScheduleName, TrainConfig
from regard.data.synthetic.shapes import SIDE
from regard.decoding.options import DecodeOptions
from regard.tasks.registry import TaskSpec
from regard.tasks.use import Use


@dataclass(frozen=True, kw_only=True)
class CaptionData(DataConfig):
    """The `[data]` section: tables of images and captions, and where the images are."""

    images: str | None = setting(None, "a folder or an archive of the images; unset: beside the table")
    image: str = setting("image", "the column that names images")
    caption: str = setting("caption", "the column of the captions")
    format: str | None = setting(None, "what tables are, where their names do not tell: csv, tsv, jsonl …")
    image_size: int = setting(80, "images are scaled and cut to squares of so many pixels", ge=1)
    held_out: float = setting(0.1, "share of the training images to choose by without data.valid", gt=0, lt=1)
    punctuation: Literal["drop", "keep"] = setting("drop", "what becomes of punctuation")
    max_tokens: int = setting(40, "longer training captions are left out", ge=1)
    bad: BadRows = setting("refuse", "rows and images that cannot be used: all named at once, or dropped and counted")
    synthetic: Literal["shapes"] | None = setting(None, "make the images instead: coloured shapes")
    n_train: int = setting(4_000, "synthetic images to learn from", ge=1)
    n_valid: int = setting(200, "synthetic images to choose by", ge=1)
    n_test: int = setting(500, "synthetic images to report on", ge=1)

    def contradictions(self) -> Iterator[str]:
        """Shapes have one size."""
        if self.synthetic and self.image_size != SIDE:
            yield f"data.image_size is {self.image_size}, and synthetic shapes are drawn on {SIDE} pixels"


@dataclass(frozen=True, kw_only=True)
class CaptionPieces(TokenizerConfig):
    """The `[tokenizer]` section: words in lower case, unless something else is asked for."""

    kind: TokenizerKind = "words"
    size: int = 10_000
    lowercase: bool = True


@dataclass(frozen=True, kw_only=True)
class CaptionDecode(DecodeOptions):
    """The `[decode]` section: as for any text, but captions are short."""

    max_length: int = 40


@dataclass(frozen=True, kw_only=True)
class CaptionConfig(TrainConfig):
    """What suits a network that learns to see and to write at once: decay, clipping, a cosine, changed images."""

    unused: ClassVar = ("batch_tokens", "layout", "r_drop")

    epochs: float = 30.0
    batch_images: int = setting(64, "images a batch", ge=1)
    captions_each: int = setting(5, "captions of each image that are learnt from at once", ge=1)
    bag_of_words: float = setting(
        0.3, "weight of predicting an image's words whatever their order, beside its captions", ge=0, was="words"
    )
    doubly_stochastic: float = setting(
        0.0, "weight of looking everywhere once over a caption (Xu et al., 2015); recurrent only", ge=0, was="doubly"
    )
    crop: float = setting(1.0, "least share of the area that a random crop keeps; 1: whole images", gt=0, le=1)
    flip: bool = setting(False, "images are mirrored at random; not where captions tell left from right")
    jitter: float = setting(0.0, "how much light may change", ge=0, le=1)
    epsilon: float = 1e-8
    weight_decay: float = 0.05
    schedule: ScheduleName = "cosine"
    warmup: int = 100
    clip: float = 1.0


TASK = TaskSpec(
    name="captions",
    help="a sentence for an image",
    models=("captioner", "transformer-captioner"),
    data=CaptionData,
    tokenizer=CaptionPieces,
    decode=CaptionDecode,
    train=CaptionConfig,
    size="base",
    plan="regard.tasks.captions.planning:plan_captions",
    setup="regard.tasks.captions.setup:CaptionSetup",
    inputs="regard.tasks.captions.data:named_files",
    predictor="regard.tasks.captions.predictor:CaptionPredictor",
    flags=("beam", "n_best", "prefix", "ensemble", "target"),
    use=Use(
        does="describes an image in a sentence",
        figures=("cider-d", "cider"),
        loss="nats a token",
        asked=("photo.jpg",),
        looked="photo.jpg",
        data="captions.csv",
        limits=("It may name things that are not in the image.",),
    ),
)
