"""The settings of the task, and what it consists of.

train = ["photos"]                     a folder of class folders, an archive, a table (CSV) or arrays (.npz)
train = ["cifar10.tar.gz"]             with train/ and test/ inside: the test part is the test set
valid, test                            other places; without validation data a share of train is held out
size = 224, size = [192, 256]          every image is scaled to cover it, and cut; else all have to be of one size
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from regard.config.data import BadRows, DataConfig
from regard.config.settings import Settings, setting
from regard.config.training import ScheduleName, TrainConfig
from regard.tasks.registry import TaskSpec
from regard.tasks.use import Use


@dataclass(frozen=True, kw_only=True)
class ImageData(DataConfig):
    """The `[data]` section: labelled images."""

    size: int | tuple[int, int] | None = setting(
        None, "a side, or height and width in pixels; unset: that of the images", ge=1, le=4096
    )
    image: str = setting("image", "the column of a table that names images")
    label: str = setting("label", "the column of a table that names classes")
    bad: BadRows = setting("refuse", "images that cannot be read: all named at once, or dropped and counted")
    valid_share: float = setting(0.1, "share of the training images to choose by without data.valid", gt=0, lt=1)
    report: bool = setting(True, "whether test sets are looked at; off for as long as one is still choosing")

    @property
    def sides(self) -> tuple[int, int] | None:
        """Height and width, where they are asked for."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size


@dataclass(frozen=True, kw_only=True)
class ImageConfig(TrainConfig):
    """What suits a Vision Transformer on images of one's own: epochs, decay, a cosine, images that vary a little."""

    unused: ClassVar = ("batch_tokens", "layout", "r_drop")

    epochs: float = 30.0
    batch_examples: int = setting(128, "images a batch, drawn at random", ge=1)
    evaluations: int = setting(20, "how many there are, evenly spaced, but none before an epoch is over", ge=1)
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 1e-8
    weight_decay: float = 0.05
    schedule: ScheduleName = "cosine"
    warmup: int = 100
    clip: float = 1.0
    crop: float = setting(0.125, "share of its sides that an image is padded by, to be cut out of it", ge=0, le=1)
    zoom: tuple[float, float] = setting((1.0, 1.0), "least and most share of the area that is cut out", gt=0, le=1)
    flip: bool = setting(True, "images are mirrored at random")
    operations: int = setting(0, "RandAugment: operations an image", ge=0)
    magnitude: float = setting(9.0, "RandAugment: their strength", ge=0, le=10)
    spread: float = setting(0.5, "RandAugment: how much the strength varies", ge=0)
    erase: float = setting(0.0, "share of the images that lose a box to noise", ge=0, le=1)
    mixup: float = setting(0.0, "parameter of mixup, two images that shine through one another; 0: none", ge=0)
    cutmix: float = setting(0.0, "parameter of cutmix, a box of one image in another; 0: none", ge=0)
    mix: float = setting(1.0, "share of the images that are mixed", ge=0, le=1)

    def contradictions(self) -> Iterator[str]:
        """Shares rise."""
        yield from super().contradictions()
        if self.zoom[0] > self.zoom[1]:
            yield f"train.zoom is {list(self.zoom)}; two shares of the area, rising, above 0 and up to 1"

    def for_epochs(self, n_batches: int) -> Self:
        """The same with steps and evaluations for `epochs` passes of so many batches, where epochs are what counts."""
        if not self.epochs:
            return self
        each = max(1, -(-n_batches // self.accumulate))
        steps = max(1, round(self.epochs * each))
        n = max(1, min(self.evaluations, round(steps / each)))
        every = max(1, round(steps / n))
        return replace(self.spaced(every * n, every), warmup=min(self.warmup, steps // 10))


@dataclass(frozen=True, kw_only=True)
class ImageOptions(Settings):
    """The `[decode]` section."""

    section: ClassVar = "decode"

    k: int = setting(5, "how many of the likeliest classes are shown", ge=0)
    flip: bool = setting(False, "mirror images are read too, and their probabilities averaged")


TASK = TaskSpec(
    name="images",
    help="the class of an image",
    models=("vit",),
    data=ImageData,
    decode=ImageOptions,
    train=ImageConfig,
    plan="regard.tasks.images.planning:plan_images",
    setup="regard.tasks.images.setup:ImageSetup",
    inputs="regard.tasks.images.data:named_files",
    predictor="regard.tasks.images.predictor:ImagePredictor",
    use=Use(
        does="says what an image shows",
        figures=("accuracy",),
        loss="nats an image",
        asked=("photo.jpg",),
        looked="photo.jpg",
        data="photos/",
        limits=("It knows the classes of its training data and no others: something else gets one of them, too.",),
    ),
)
