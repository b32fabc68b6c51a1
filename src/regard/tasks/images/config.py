"""How to train a classifier of images: the `[train]` section of an images recipe."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from regard.config.training import ScheduleName, TrainConfig
from regard.errors import ConfigError
from regard.tasks.images.augmentation import Augmentation
from regard.tasks.images.classifier import ImageOptions
from regard.tasks.images.data import ImageData
from regard.tasks.registry import TaskSpec


@dataclass(frozen=True, kw_only=True)
class ImageConfig(TrainConfig):
    """What suits a Vision Transformer on images of one's own: epochs, decay, a cosine, and images that vary a little.

    batch_examples        images a batch, drawn at random
    evaluations           how many there are, evenly spaced, but none before an epoch is over
    crop, zoom, flip      a crop out of the image padded by a share of its sides; of a share of its area; mirrored
    operations, magnitude, spread    RandAugment: operations an image, their strength from 0 to 10, and how it varies
    erase                 share of images that lose a box to noise
    mixup, cutmix, mix    parameters of how two images are mixed, and the share of images that are
    """

    epochs: float = 30.0
    batch_examples: int = 128
    evaluations: int = 20
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 1e-8
    weight_decay: float = 0.05
    schedule: ScheduleName = "cosine"
    warmup: int = 100
    clip: float = 1.0
    label_smoothing: float = 0.1
    crop: float = 0.125
    zoom: tuple[float, float] = (1.0, 1.0)
    flip: bool = True
    operations: int = 0
    magnitude: float = 9.0
    spread: float = 0.5
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    mix: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch_examples", "evaluations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"train.{name} is {getattr(self, name)}, at least 1")
        if self.r_drop:
            raise ConfigError("train.r_drop is for texts; leave it 0")
        self.augmentation()  # says what is wrong with it

    def augmentation(self) -> Augmentation:
        """How images are changed."""
        return Augmentation(**{field.name: getattr(self, field.name) for field in fields(Augmentation)})

    def for_epochs(self, n_batches: int) -> TrainConfig:
        """The same with steps and evaluations for `epochs` passes of so many batches, where epochs are what counts."""
        if not self.epochs:
            return self
        each = max(1, -(-n_batches // self.accumulate))
        steps = max(1, round(self.epochs * each))
        n = max(1, min(self.evaluations, round(steps / each)))
        every = max(1, round(steps / n))
        return replace(self, steps=every * n, eval_every=every, save_every=every, warmup=min(self.warmup, steps // 10))


TASK = TaskSpec(
    name="images",
    models=("vit",),
    data=ImageData,
    decode=ImageOptions,
    train=ImageConfig,
    setup="regard.tasks.images.setup:ImageSetup",
    predictor="regard.tasks.images.predictor:ImagePredictor",
)
