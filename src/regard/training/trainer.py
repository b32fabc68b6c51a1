"""The training loop: one for every task.

    step:  accumulate batches, weighted by tokens → clip → optimizer → average
    every so often:  report · evaluate on the task's own metric · save everything an exact continuation needs

A step depends on nothing but the state in its checkpoint: weights, optimizer, averages, the position in the data and
the step itself, which seeds the random numbers. So a run that was stopped, or killed at any instant, continues as if
nothing had happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from threading import Event

import torch
from torch import Tensor, nn

from regard.checkpoints.run import Saved
from regard.checkpoints.weights import load_weights, weights_of
from regard.config.devices import computing, quick_products, uses_bf16
from regard.config.process import seed_torch
from regard.config.training import TrainConfig
from regard.config.twins import twin
from regard.data.batching.plan import Position
from regard.errors import CheckpointError, EnvironmentProblem
from regard.training.averaging import Averager, averaged, make_averager
from regard.training.optimizers import clip_gradients, make_optimizer
from regard.training.prefetch import Prefetcher
from regard.training.progress import Progress, Window
from regard.training.protocol import Batch, Losses, Trainable
from regard.training.report import Reporter
from regard.training.schedules import rate_at
from regard.training.setup import RunContext
from regard.training.signals import Interrupted, listening


class Trainer:
    """Trains a model on a task, where the context of its run says."""

    def __init__(
        self, task: Trainable, model: nn.Module, config: TrainConfig, context: RunContext, *, deadline: float = math.inf
    ) -> None:
        """`deadline` is the time of `time.monotonic` that training ends at, whatever steps are left."""
        self.task, self.config, self.deadline = task, config, deadline
        self.run, self.device, self.group, self.say = context.run, context.device, context.group, context.say
        self.bf16 = uses_bf16(config.precision, self.device)
        self.model = model.to(self.device)
        automatic = self.device.type == "cuda" and task.static_shapes
        alone = config.accumulate == 1 and self.group.size == 1
        graphs = twin("training_step") if self.device.type == "cuda" and config.cuda_graphs != "off" and alone else None
        captured = graphs is not None and task.record()
        self.optimizer = make_optimizer(
            self.model,
            name=config.optimizer,
            lr=config.lr,
            weight_decay=config.weight_decay,
            betas=config.betas,
            epsilon=config.epsilon,
            recordable=captured,
        )
        self.averager: Averager | None = make_averager(self.model, ema=config.ema, last=config.average)
        self.progress = Progress()
        self._saved = 0
        self.reporter = Reporter(self.run, steps=config.steps, speaks=self.group.first, unit=task.unit)
        self._captured = graphs(self._whole, self.device) if graphs is not None and captured else None
        if config.compile == "on" or (config.compile == "auto" and automatic):
            task.compile()

    def fit(self) -> Progress:
        """Train until the steps are done, the score stops rising, or somebody says stop."""
        self.model.train()
        self.reporter.start(self.progress.step)
        batches = Prefetcher(self._batches, pinned=self.device.type == "cuda")
        try:
            with listening() as stopping, quick_products(self.device):
                self._run(batches, stopping)
        finally:
            batches.close()
            self.reporter.stop()
            self.group.leave()
        return self.progress

    @contextmanager
    def rehearsal(self) -> Iterator[Callable[[], None]]:
        """What takes one step after the other, for nothing but to see how long each takes."""
        self.model.train()
        batches, window = Prefetcher(self._batches, pinned=self.device.type == "cuda"), self._window()

        def step() -> None:
            self._step(batches, window)
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)

        try:
            with quick_products(self.device):
                yield step
        finally:
            batches.close()

    def restore(self) -> bool:
        """Go on from the newest checkpoint that is whole, if there is one."""
        names = ["model", "optimizer", *(["average"] if self.averager else [])]
        saved = self._newest(names)
        if saved is None:
            return False
        step, tensors, facts = saved
        origin = f"{self.run.checkpoints / f'step-{step:08d}'}"
        try:
            progress = Progress.of(facts)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise CheckpointError(f"{origin}: its state.json is of another version ({problem!r})") from problem
        load_weights(self.model, tensors["model"], origin=origin)
        self.optimizer.load_state_tensors(tensors["optimizer"])
        if self.averager:
            self.averager.load_state_tensors(tensors["average"])
        progress.done = self._out_of_patience(progress)  # by today's patience
        self.progress = progress
        if self.group.first and step == self.run.steps()[-1]:  # a damaged one stays until there is another
            self._keep()  # a kill may have come between a save and its clearing up
        return True

    def _newest(self, names: list[str]) -> Saved | None:
        """The checkpoint that the first process chooses, in all of them."""
        chosen: list[Saved] = []

        def choose() -> int | None:
            saved = self.run.read_newest(names, say=self.say)
            chosen.extend([] if saved is None else [saved])
            return None if saved is None else saved.step

        step = self.group.from_first(choose)
        return None if step is None else chosen[0] if chosen else Saved(step, *self.run.read(step, names))

    def _run(self, batches: Iterator[tuple[Position, Batch]], stopping: Event) -> None:
        config, progress = self.config, self.progress
        window = self._window()
        while progress.step < config.steps and not progress.done:
            self._step(batches, window)
            self.reporter.tick(progress.step)
            late = self.group.total(time.monotonic() > self.deadline) > 0 if self.deadline < math.inf else False
            if progress.step % config.log_every == 0:
                window = self._report(window)
            if progress.step % config.eval_every == 0 or late:
                if self.averager:
                    self.averager.snapshot(self.model)
                if progress.step >= config.eval_from or late:
                    began = time.monotonic()
                    self._evaluate()
                    window.began += time.monotonic() - began  # no time of training
            progress.done = progress.done or late
            among_best = config.keep_best > 0 and progress.step in progress.best
            if progress.step % config.save_every == 0 or among_best or progress.step == config.steps or progress.done:
                self._save(window)
            if self.group.total(stopping.is_set()) > 0:
                self._save(window)
                raise Interrupted(f"stopped after step {progress.step}", hint="go on with --resume")

    def _step(self, batches: Iterator[tuple[Position, Batch]], window: Window) -> None:
        config, progress = self.config, self.progress
        taken = [next(batches) for _ in range(config.accumulate)]
        # Dropout draws from a stream of its own at each step and in each process, so no state has to be kept.
        seed_torch(_seed(config.seed, progress.step, self.group.rank), self.device)
        n_tokens = self.group.total(sum(batch.n_tokens for _, batch in taken))
        progress.step += 1
        rate = rate_at(
            progress.step,
            schedule=config.schedule,
            lr=config.lr,
            warmup=config.warmup,
            steps=config.steps,
            final=config.final_lr_ratio,
        )
        self.optimizer.set_rate(rate)
        real = [batch for _, batch in taken if batch.n_tokens]
        if self._captured is not None and real:
            window.add(self._captured(real[0], n_tokens))
        else:
            for batch in real:
                window.add(self._pass(batch.to(self.device), n_tokens))
            self._update()
        progress.position, progress.tokens = taken[-1][0], progress.tokens + int(n_tokens)
        window.rate = rate

    def _whole(self, batch: Batch, n_tokens: Tensor) -> Losses:
        """All that a step of one batch does on the device."""
        losses = self._pass(batch, n_tokens)
        self._update()
        return losses

    def _pass(self, batch: Batch, n_tokens: float | Tensor) -> Losses:
        """Gradients of a batch's share of the mean over `n_tokens`."""
        with computing(self.device, bf16=self.bf16):
            losses = self.task.loss(self.model, batch)
        (losses.total / n_tokens).backward()
        return Losses(*(figure.detach() for figure in losses))

    def _update(self) -> None:
        """New weights by the gradients, which are forgotten then, and their average."""
        self.group.sum_gradients(self.model.parameters())
        if self.config.clip:
            clip_gradients(self.model.parameters(), self.config.clip)
        self.optimizer.apply()
        self.optimizer.zero_grad()
        if self.averager:
            self.averager.update(self.model)

    def _report(self, window: Window) -> Window:
        loss, nll, count = self._sums(window)
        now = time.monotonic()
        self.progress.seconds += now - window.began
        facts = {
            "loss": loss / count,
            "nll": nll / count,
            "lr": window.rate,
            "tokens_per_second": count / max(now - window.began, 1e-9),
            "epoch": self.progress.position.epoch,
        }
        self.reporter.metrics(self.progress.step, facts)
        return Window(now)

    def _evaluate(self) -> None:
        """Score the averaged weights if there are any, else the current ones, and keep the best."""
        config, progress = self.config, self.progress
        self.model.eval()
        with averaged(self.model, self.averager), computing(self.device, bf16=self.bf16):
            figures = self.task.evaluate(self.model)
            self.reporter.metrics(progress.step, figures)
            self.reporter.samples(progress.step, self.task.samples(self.model, config.n_samples))
            score = figures[self.task.objective]
            if score > max(progress.best.values(), default=-math.inf):
                progress.since_best = 0
                if self.group.first:
                    self.run.write_weights(weights_of(self.model))
            else:
                progress.since_best += 1
        self.model.train()
        ranked = sorted((progress.best | {progress.step: score}).items(), key=lambda item: -item[1])
        progress.best = dict(ranked[: max(1, config.keep_best)])
        progress.done = self._out_of_patience(progress)

    def _out_of_patience(self, progress: Progress) -> bool:
        return self.config.patience > 0 and progress.since_best >= self.config.patience

    def _window(self) -> Window:
        """An open window, with what a checkpoint kept of the last one."""
        *sums, seconds = self.progress.unreported
        return Window(time.monotonic() - seconds, sums if self.group.first else [0.0] * 3)

    def _sums(self, window: Window) -> list[float]:
        """Loss, nll and tokens of a window over all processes; what is no number is neither told nor saved."""
        sums = [self.group.total(value) for value in window.total()]
        if not math.isfinite(sums[0]):
            raise EnvironmentProblem(
                f"the loss is {sums[0]} at step {self.progress.step}", hint="lower train.lr, or set train.clip=1"
            )
        return sums

    def _save(self, window: Window) -> None:
        if self.progress.step == self._saved:  # replacing a checkpoint would leave an instant without any
            return
        self._saved = self.progress.step
        self.progress.unreported = [*self._sums(window), time.monotonic() - window.began]
        self.group.wait()
        if not self.group.first:
            return
        files = {"model": weights_of(self.model), "optimizer": self.optimizer.state_tensors()}
        if self.averager:
            files["average"] = self.averager.state_tensors()
        self.run.save(self.progress.step, files=files, facts=self.progress.facts())
        self._keep()

    def _keep(self) -> None:
        """Remove all checkpoints but the last two and the best."""
        best = sorted(self.progress.best) if self.config.keep_best else []
        self.run.keep([self.progress.step, *self.run.before(self.progress.step), *best])

    def _batches(self) -> Iterator[tuple[Position, Batch]]:
        return self.task.batches(self.progress.position, rank=self.group.rank, world=self.group.size)


def _seed(*parts: int) -> int:
    """Whole numbers as one seed in whose every bit they all take part: a CPU's generator uses 32 of them only."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1
