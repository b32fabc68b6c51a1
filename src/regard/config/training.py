"""How to train: the `[train]` section of a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from regard.config.settings import Settings, setting, settings_of

OptimizerName = Literal["adamw", "muon"]
ScheduleName = Literal["inverse_sqrt", "cosine", "linear", "constant"]
Precision = Literal["auto", "fp32", "bf16", "fp64"]
Layout = Literal["auto", "padded", "packed"]
Switch = Literal["auto", "on", "off"]
Sharding = Literal["auto", "off", "full"]
Recomputed = Literal["off", "blocks"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Settings):
    """What the trainer needs to know besides task, model and data."""

    section: ClassVar = "train"

    plan: Switch = setting(
        "auto",
        "what is not set follows from the data; auto: unless a recipe speaks of model, tokenizer or training",
    )
    steps: int = setting(10_000, "optimizer steps; instead of train.epochs", ge=1)
    epochs: float = setting(
        0.0, "passes over the training data, with an evaluation after each; 0: train.steps counts", ge=0
    )
    seed: int = setting(1, "what every random number follows from", ge=0)
    batch_tokens: int = setting(4096, "tokens a batch, on its longer side", ge=1)
    accumulate: int = setting(1, "batches a step; their gradients count by tokens, as those of one big batch", ge=1)
    layout: Layout = setting("auto", "batches with padding, or packed without any; auto: packed where the model can")
    optimizer: OptimizerName = setting("adamw", "AdamW; or Muon for matrices, and AdamW for the rest")
    lr: float = setting(1e-3, "peak learning rate", gt=0)
    betas: tuple[float, float] = setting((0.9, 0.98), "decay of the optimizer's two averages", ge=0, le=1)
    epsilon: float = setting(1e-9, "what the optimizer adds to its divisor", ge=0)
    weight_decay: float = setting(0.0, "decoupled weight decay of matrices", ge=0)
    schedule: ScheduleName = setting("inverse_sqrt", "the course of the learning rate after the warm-up")
    warmup: int = setting(1000, "steps that the learning rate takes to reach its peak", ge=0)
    final_lr_ratio: float = setting(
        0.0, "share of the peak that the learning rate does not fall below", ge=0, was="final_rate"
    )
    clip: float = setting(0.0, "largest norm of the gradients; 0: any", ge=0)
    label_smoothing: float = setting(0.1, "share of the probability that is spread over all answers", ge=0, lt=1)
    r_drop: float = setting(
        0.0, "weight of the divergence between two dropout passes (Liang et al., 2021); 0: one pass", ge=0
    )
    ema: float = setting(0.0, "decay of a moving average of the weights, which is what is kept; 0: none", ge=0, lt=1)
    average: int = setting(
        0, "so many snapshots, one an evaluation, are averaged, which is what is kept; 0: none", ge=0
    )
    precision: Precision = setting(
        "auto", "auto: bf16 where the GPU has it, else fp32; fp64: slow, to check what ought to be equal"
    )
    same_draws: bool = setting(
        False,
        "random draws follow from seed, step and example alone, not from how many processes share a batch",
    )
    compile: Switch = setting("auto", "let the compiler fuse the loss; auto: on a GPU, where batches have one shape")
    cuda_graphs: Switch = setting(
        "auto",
        "a whole step as one CUDA graph; auto: where there are few shapes and nothing waits for it",
        was="graphs",
    )
    shard: Sharding = setting(
        "auto",
        "full: processes hold weights, gradients and optimizer in parts; off: each a copy; auto: parts where they pay",
    )
    replicas: int = setting(1, "how often the parts of train.shard=full are there; it divides the processes", ge=1)
    checkpointing: Recomputed = setting(
        "off", "blocks: forget activations inside blocks, and compute them again for the gradients: less memory"
    )
    device: str = setting("auto", "cpu, cuda or cuda:N; auto: a GPU where there is one")
    eval_every: int = setting(500, "steps between evaluations, of which the best weights are kept", ge=1)
    eval_from: int = setting(0, "the first step that is evaluated", ge=0)
    save_every: int = setting(500, "steps between checkpoints", ge=1)
    log_every: int = setting(50, "steps between reports", ge=1)
    patience: int = setting(0, "evaluations without a better score before stopping; 0: never", ge=0)
    keep_best: int = setting(1, "how many of the best checkpoints stay", ge=0)
    n_samples: int = setting(3, "predictions that an evaluation shows", ge=0)

    def contradictions(self) -> Iterator[str]:
        """One way of averaging, and replicas of parts."""
        if self.ema and self.average:
            yield "train.ema and train.average are both set, two ways of averaging; set one of them to 0"
        if self.replicas > 1 and self.shard == "off":
            yield f"train.replicas is {self.replicas} and train.shard off; replicas are of parts, by train.shard=full"

    def idle(self) -> frozenset[str]:
        """Steps where epochs count, and the other way round."""
        return super().idle() | (self._left_open() | {"steps"} if self.epochs else {"epochs"})

    def for_epochs(self, n_batches: int) -> Self:
        """The same with steps and evaluations for `epochs` passes of so many batches, where epochs are what counts."""
        if not self.epochs:
            return self
        each = max(1, -(-n_batches // self.accumulate))
        return self.spaced(max(1, round(self.epochs * each)), each)

    def spaced(self, steps: int, each: int) -> Self:
        """The same with so many steps, evaluated and saved after each so many, unless other numbers are given."""
        own = {"eval_every": self.eval_every, "save_every": self.save_every}
        due = {name: each if name in self._left_open() else given for name, given in own.items()}
        return replace(self, steps=steps, eval_every=due["eval_every"], save_every=due["save_every"])

    def remarks(self) -> Iterator[str]:
        """What a user may not expect of these settings, a sentence each."""
        late = "eval_every" if self.eval_every > self.steps else "eval_from"
        if not self.epochs and getattr(self, late) > self.steps:
            stopped = ", and train.patience stops nothing" if self.patience else ""
            yield (
                f"train.{late} is {getattr(self, late)} and train.steps {self.steps}: nothing is evaluated, the last "
                f"weights are kept{stopped}; train.{late}={self.steps} evaluates them"
            )

    def _left_open(self) -> frozenset[str]:
        """What is due after every epoch, since no number of steps is given."""
        known = settings_of(type(self))
        return frozenset(k for k in ("eval_every", "save_every") if getattr(self, k) == known[k].default)


@dataclass(frozen=True, kw_only=True)
class ReadingConfig(TrainConfig):
    """What suits models that are trained on plain text: no smoothing, decay, clipping, a cosine."""

    epsilon: float = 1e-8
    weight_decay: float = 0.1
    schedule: ScheduleName = "cosine"
    warmup: int = 100
    clip: float = 1.0
    label_smoothing: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TuningConfig(TrainConfig):
    """What suits fine-tuning: a few epochs at a small rate that falls to nothing."""

    epochs: float = 3.0
    lr: float = 5e-5
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    schedule: ScheduleName = "linear"
    warmup: int = 100
    clip: float = 1.0
    label_smoothing: float = 0.0
    batch_examples: int = setting(
        0, "examples a batch, drawn at random; 0: as many of like length as train.batch_tokens hold", ge=0
    )
    lm_weight: float = setting(
        0.0, "weight of the next word's loss beside the task's (Radford et al., 2018), below a language model", ge=0
    )

    def contradictions(self) -> Iterator[str]:
        """Examples are counted where rows are padded."""
        yield from super().contradictions()
        if self.batch_examples and self.layout == "packed":
            yield "train.batch_examples counts rows that are padded; train.layout is packed, by batch_tokens"
