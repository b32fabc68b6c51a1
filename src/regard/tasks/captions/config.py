"""How to train a captioner: the `[train]` section of a captions recipe."""

from __future__ import annotations

from dataclasses import dataclass

from regard.config.training import ScheduleName, TrainConfig
from regard.errors import ConfigError
from regard.tasks.captions.data import CaptionData, CaptionDecode, CaptionPieces
from regard.tasks.captions.loss import Weights
from regard.tasks.captions.training import Views
from regard.tasks.registry import TaskSpec


@dataclass(frozen=True, kw_only=True)
class CaptionConfig(TrainConfig):
    """What suits a network that learns to see and to write at once: decay, clipping, a cosine, changed images.

    batch_images          images a batch, each with up to `captions_each` captions
    words                 weight of predicting the image's words whatever their order, beside its captions
    doubly                weight of looking everywhere once over a caption (Xu et al., 2015); recurrent captioners only
    crop, flip, jitter    least share of the area that a random crop keeps (1: whole images); whether images are
                          mirrored (not where captions tell left from right); how much light may change
    """

    epochs: float = 30.0
    batch_images: int = 64
    captions_each: int = 5
    words: float = 0.3
    doubly: float = 0.0
    crop: float = 1.0
    flip: bool = False
    jitter: float = 0.0
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    weight_decay: float = 0.05
    schedule: ScheduleName = "cosine"
    warmup: int = 100
    clip: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        least = {"batch_images": 1, "captions_each": 1, "words": 0, "doubly": 0, "jitter": 0}
        wrong = [f"train.{k} is {getattr(self, k)}, at least {v}" for k, v in least.items() if getattr(self, k) < v]
        if not 0 < self.crop <= 1:
            wrong.append(f"train.crop is {self.crop}, above 0 and up to 1")
        if self.jitter > 1:
            wrong.append(f"train.jitter is {self.jitter}, from 0 to 1")
        if self.r_drop:
            wrong.append("train.r_drop is for translations; leave it 0")
        if wrong:
            raise ConfigError("; ".join(wrong))

    @property
    def weights(self) -> Weights:
        """How much each part of the loss counts."""
        return Weights(self.label_smoothing, self.words, self.doubly)

    @property
    def views(self) -> Views:
        """How images are changed."""
        return Views(self.crop, self.flip, self.jitter)


TASK = TaskSpec(
    name="captions",
    models=("captioner", "transformer-captioner"),
    data=CaptionData,
    tokenizer=CaptionPieces,
    decode=CaptionDecode,
    train=CaptionConfig,
    size="base",
    setup="regard.tasks.captions.setup:CaptionSetup",
    predictor="regard.tasks.captions.predictor:CaptionPredictor",
    flags=("beam", "n_best", "prefix", "ensemble", "target"),
)
