"""How to train on speech: the `[train]` section of a speech recipe."""

from __future__ import annotations

from dataclasses import dataclass

from regard.config.training import ScheduleName, TrainConfig
from regard.data.audio.augmentation import Changes
from regard.errors import ConfigError
from regard.tasks.registry import TaskSpec
from regard.tasks.speech.data import SpeechData, SpeechPieces
from regard.tasks.speech.options import SpeechOptions


@dataclass(frozen=True, kw_only=True)
class SpeechTrainConfig(TrainConfig):
    """What suits models of speech: batches of seconds, clipping, a cosine, and recordings that change every time.

    batch_seconds         seconds of sound a batch, padding included
    ctc                   weight of the alignment's loss beside the speller's; 0: none
    speed, gain, noise, warp, band_masks, band_width, time_masks, time_width     see `regard.data.audio.augmentation`
    """

    steps: int = 3000
    batch_seconds: float = 160.0
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    schedule: ScheduleName = "cosine"
    warmup: int = 200
    clip: float = 1.0
    label_smoothing: float = 0.1
    ctc: float = 0.0
    speed: float = 0.1
    gain: float = 6.0
    noise: float = 0.5
    warp: float = 0.1
    band_masks: int = 2
    band_width: int = 6
    time_masks: int = 2
    time_width: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = []
        if self.batch_seconds <= 0:
            wrong.append(f"train.batch_seconds is {self.batch_seconds}, above 0")
        if not 0 <= self.ctc < 1:
            wrong.append(f"train.ctc is {self.ctc}, from 0 to below 1")
        shares = {name: getattr(self, name) for name in ("speed", "warp", "noise", "time_width")}
        limits = {"speed": 0.5, "warp": 0.3, "noise": 1.0, "time_width": 0.5}
        wrong += [f"train.{name} is {value}, from 0 to {limits[name]:g}" for name, value in shares.items()
                  if not 0 <= value <= limits[name]]  # fmt: skip
        counts = ("gain", "band_masks", "band_width", "time_masks")
        wrong += [f"train.{name} is {getattr(self, name)}, at least 0" for name in counts if getattr(self, name) < 0]
        if self.r_drop:
            wrong.append("train.r_drop is for translation; leave it 0")
        if wrong:
            raise ConfigError("; ".join(wrong))

    def changes(self) -> Changes:
        """What is done to recordings."""
        return Changes(
            speed=self.speed,
            gain=self.gain,
            noise=self.noise,
            warp=self.warp,
            band_masks=self.band_masks,
            band_width=self.band_width,
            time_masks=self.time_masks,
            time_width=self.time_width,
        )


TASK = TaskSpec(
    name="speech",
    models=("speech-transformer", "las"),
    data=SpeechData,
    tokenizer=SpeechPieces,
    decode=SpeechOptions,
    train=SpeechTrainConfig,
    size="small",
    setup="regard.tasks.speech.setup:SpeechSetup",
    predictor="regard.tasks.speech.predictor:SpeechPredictor",
    flags=("beam", "n_best", "target"),
)
