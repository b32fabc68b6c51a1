"""How to train: the `[train]` section of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from regard.errors import ConfigError

OptimizerName = Literal["adamw", "muon"]
ScheduleName = Literal["inverse_sqrt", "cosine", "linear", "constant"]
Precision = Literal["auto", "fp32", "bf16"]
Layout = Literal["auto", "padded", "packed"]
Switch = Literal["auto", "on", "off"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What the trainer needs to know besides task, model and data.

    steps, accumulate     optimizer steps, and batches a step; gradients are weighted by tokens, as one big batch's
    epochs                passes over the training data instead of steps, with an evaluation after each; 0: steps count
    batch_tokens          tokens a batch on its longer side; `layout` padded: with padding, packed: without any
    lr, schedule, warmup  peak rate, its course, and the steps it takes to reach the peak
    clip                  largest gradient norm; 0 switches clipping off
    label_smoothing       share of the probability spread over all words
    r_drop                weight of the divergence between two dropout passes (Liang et al., 2021); 0: one pass
    compile, graphs       let the compiler fuse the loss, auto: on a GPU, where all batches have one shape; record whole
                          steps as one piece of GPU work, auto: where there are few shapes and nothing waits for it
    ema                   decay of the moving average of the weights; 0: none
    average               how many snapshots, one an evaluation, are averaged; 0: none. The average is what is
                          evaluated and kept
    eval_every, save_every, log_every   steps between evaluations, checkpoints and reports; only weights that were
                          evaluated are kept, so let eval_every divide steps
    patience              evaluations without a better score before stopping; 0: never
    keep_best             how many of the best checkpoints stay
    """

    steps: int = 10_000
    epochs: float = 0.0
    seed: int = 1
    batch_tokens: int = 4096
    accumulate: int = 1
    layout: Layout = "auto"
    optimizer: OptimizerName = "adamw"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    schedule: ScheduleName = "inverse_sqrt"
    warmup: int = 1000
    final_rate: float = 0.0
    clip: float = 0.0
    label_smoothing: float = 0.1
    r_drop: float = 0.0
    ema: float = 0.0
    average: int = 0
    precision: Precision = "auto"
    compile: Switch = "auto"
    graphs: Switch = "auto"
    device: str = "auto"
    eval_every: int = 500
    eval_from: int = 0
    save_every: int = 500
    log_every: int = 50
    patience: int = 0
    keep_best: int = 1
    n_samples: int = 3

    def __post_init__(self) -> None:
        at_least = {
            **dict.fromkeys(("steps", "batch_tokens", "accumulate", "eval_every", "save_every", "log_every"), 1),
            **dict.fromkeys(("warmup", "clip", "r_drop", "average", "patience", "keep_best", "weight_decay"), 0),
            **dict.fromkeys(("n_samples", "eval_from", "final_rate", "seed", "epochs"), 0),
        }
        wrong = [f"train.{k} is {getattr(self, k)}, at least {v}" for k, v in at_least.items() if getattr(self, k) < v]
        shares = [f.name for f in fields(self) if f.name in ("label_smoothing", "ema")]
        wrong += [
            f"train.{k} is {getattr(self, k)}, from 0 to below 1" for k in shares if not 0 <= getattr(self, k) < 1
        ]
        if self.lr <= 0:
            wrong.append(f"train.lr is {self.lr}, above 0")
        if self.ema and self.average:
            wrong.append("train.ema and train.average are both set; one way of averaging at a time")
        if wrong:
            raise ConfigError("; ".join(wrong))

    def for_epochs(self, n_batches: int) -> TrainConfig:
        """The same with steps and evaluations for `epochs` passes of so many batches, where epochs are what counts."""
        if not self.epochs:
            return self
        each = max(1, -(-n_batches // self.accumulate))
        return replace(self, steps=max(1, round(self.epochs * each)), eval_every=each, save_every=each)


@dataclass(frozen=True, kw_only=True)
class ReadingConfig(TrainConfig):
    """What suits models that are trained on plain text: no smoothing, decay, clipping, a cosine."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    schedule: ScheduleName = "cosine"
    warmup: int = 100
    clip: float = 1.0
    label_smoothing: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TuningConfig(TrainConfig):
    """What suits fine-tuning: a few epochs at a small rate that falls to nothing.

    batch_examples        so many examples a batch, drawn at random; 0: as many of like length as batch_tokens hold
    lm_weight             weight of the language model's own loss beside the task's (Radford et al., 2018), for models
                          that predict the next word
    """

    epochs: float = 3.0
    lr: float = 5e-5
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    schedule: ScheduleName = "linear"
    warmup: int = 100
    clip: float = 1.0
    label_smoothing: float = 0.0
    batch_examples: int = 0
    lm_weight: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = [f"train.{k} is {getattr(self, k)}, at least 0" for k in ("batch_examples", "lm_weight")
                 if getattr(self, k) < 0]  # fmt: skip
        if self.batch_examples and self.layout == "packed":
            wrong.append("train.batch_examples counts rows that are padded; train.layout is packed, by batch_tokens")
        if wrong:
            raise ConfigError("; ".join(wrong))
