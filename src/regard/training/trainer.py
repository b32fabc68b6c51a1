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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import blake2b
from threading import Event

import torch
from torch import Tensor, nn

from regard.checkpoints.shards import as_stored, load_parts
from regard.checkpoints.steps import Saved
from regard.checkpoints.weights import weights_of
from regard.config.devices import computing, quick_products, uses_bf16
from regard.config.process import seed_torch
from regard.config.training import TrainConfig
from regard.config.twins import twin
from regard.data.batching.plan import Position
from regard.errors import CheckpointError, EnvironmentProblem
from regard.models.precision import in_single
from regard.training.averaging import Averager, State, averaged, make_averager
from regard.training.distributed import together
from regard.training.draws import draw_by_example, draws_of
from regard.training.optimizers import make_optimizer
from regard.training.prefetch import Batches, Prefetcher, StepFeed
from regard.training.progress import Progress, Window
from regard.training.protocol import Batch, Losses, Trainable
from regard.training.recompute import recompute_blocks
from regard.training.report import Reporter
from regard.training.saving import CheckpointSaver
from regard.training.schedules import rate_at
from regard.training.setup import RunContext
from regard.training.sharding import Sharded, choose_parallel
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
        model = model.double() if config.precision == "fp64" else model
        self.parallel = choose_parallel(task, model, config, group=self.group, device=self.device, bf16=self.bf16)
        self.model = self.parallel.model
        sharded, keyed = isinstance(self.parallel, Sharded), config.same_draws
        self._undo_recompute = recompute_blocks(self.model) if config.checkpointing == "blocks" else None
        if keyed:
            draw_by_example(task, self.model, config, n_processes=self.group.size, say=self.say)
        plain = not (sharded or keyed)  # parts, and draws by key, are neither captured nor compiled
        automatic = self.device.type == "cuda" and task.static_shapes and plain
        alone = config.accumulate == 1 and self.group.size == 1 and plain and config.checkpointing == "off"
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
        self._saver = CheckpointSaver(self.run, self.group, sharded=sharded, writes=self.parallel.writes)
        self._stopping: Event | None = None
        self._feed = StepFeed(self.group, accumulate=config.accumulate, wishes=self._wishes)
        self.reporter = Reporter(self.run, steps=config.steps, speaks=self.group.first, unit=task.unit)
        self._captured = graphs(self._whole, self.device) if graphs is not None and captured else None
        if (config.compile == "on" and plain) or (config.compile == "auto" and automatic):
            task.compile()

    def fit(self) -> Progress:
        """Train until the steps are done, the score stops rising, or somebody says stop."""
        self.model.train()
        self.reporter.start(self.progress.step)
        batches, orderly = Prefetcher(self._batches, pinned=self.device.type == "cuda"), False
        try:
            with listening() as stopping, quick_products(self.device), self._kernels(), self._saver:
                self._run(batches, stopping)
                self._keep_some_weights()
            orderly = True
        except Interrupted:  # all have stopped
            orderly = True
            raise
        finally:
            batches.close()
            self.reporter.stop()
            self.parallel.close()
            if self._undo_recompute is not None:
                self._undo_recompute()
            self.group.leave(orderly=orderly)
        return self.progress

    def _kernels(self) -> AbstractContextManager[None]:
        fast = twin("training_kernels")
        return nullcontext() if fast is None else fast(self.model, self.device)

    def _wishes(self) -> tuple[bool, bool]:
        """Whether somebody said stop, or is no longer there to say so, and whether the time is over."""
        stop = self.group.abandoned or (self._stopping is not None and self._stopping.is_set())
        return stop, time.monotonic() > self.deadline

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
            with quick_products(self.device), self._kernels():
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
        load_parts(self.model, tensors["model"], origin=origin)
        self.optimizer.load_state_tensors(tensors["optimizer"])
        if self.averager:
            self.averager.load_state_tensors(tensors["average"])
        progress.done = self._out_of_patience(progress)  # by today's patience
        progress.examples *= self.group.first  # what was seen by all is one's to carry on
        self.progress = progress
        if self.group.first and step == self.run.steps()[-1]:  # a damaged one stays until there is another
            kept = [self.progress.step, *self.run.before(self.progress.step), *self._best()]
            self.run.keep(kept)  # a kill may have come between a save and its clearing up
        return True

    def _newest(self, names: list[str]) -> Saved | None:
        """The checkpoint that the first process chooses, in all of them."""
        chosen: list[Saved] = []

        def choose() -> int | None:
            saved = self.run.open_newest(names, say=self.say)
            chosen.extend([] if saved is None else [saved])
            return None if saved is None else saved.step

        step = self.group.from_first(choose)
        return None if step is None else chosen[0] if chosen else self.run.open(step, names, check=False)

    def _run(self, batches: Batches, stopping: Event) -> None:
        config, progress, self._stopping = self.config, self.progress, stopping
        window = self._window()
        while progress.step < config.steps and not progress.done:
            self._step(batches, window)
            self.reporter.tick(progress.step)
            stop, late = self._feed.agreed()
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
            self._saver.check()
            if stop:
                self._save(window)
                self._keep_some_weights()
                self._saver.wait()
                raise Interrupted(f"stopped after step {progress.step}", hint="go on with --resume")

    def _step(self, batches: Batches, window: Window) -> None:
        config, progress = self.config, self.progress
        taken, n_tokens = self._feed.take(batches)
        # Dropout draws from a stream of its own at each step and in each process, so no state has to be kept.
        seed_torch(_seed(config.seed, progress.step, self.group.rank), self.device)
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
        if self._captured is not None and n_tokens:
            window.add(self._captured(taken[0][1], n_tokens))
        else:
            for batch, counts in self.parallel.passes([batch for _, batch in taken]):
                losses = self._pass(batch.to(self.device), n_tokens if counts else math.inf)
                if counts:
                    window.add(losses)
            self._update()
        progress.saw(batch for _, batch in taken)
        progress.position, progress.tokens = taken[-1][0], progress.tokens + n_tokens
        window.rate = rate

    def _whole(self, batch: Batch, n_tokens: Tensor) -> Losses:
        """All that a step of one batch does on the device."""
        losses = self._pass(batch, n_tokens)
        self._update()
        return losses

    def _pass(self, batch: Batch, n_tokens: float | Tensor) -> Losses:
        """Gradients of a batch's share of the mean over `n_tokens`."""
        with draws_of(batch, self.config, self.device):
            with computing(self.device, bf16=self.bf16):
                losses = self.parallel.loss(batch)
            with together(computing=True):
                (losses.total / n_tokens).backward()
        return Losses(*(figure.detach() for figure in losses))

    def _update(self) -> None:
        """New weights by the gradients, which are forgotten then, and their average."""
        self.parallel.finish_gradients()
        if self.config.clip:
            self.parallel.clip(self.config.clip)
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
        with averaged(self.model, self.averager), self.parallel.gathered() as model:
            score = self.group.from_first(lambda: self._score(in_single(model)))
        better = score > max(progress.best.values(), default=-math.inf)
        progress.since_best = 0 if better else progress.since_best + 1
        ranked = sorted((progress.best | {progress.step: score}).items(), key=lambda item: -item[1])
        progress.best = dict(ranked[: max(1, config.keep_best)])
        progress.done = self._out_of_patience(progress)

    def _score(self, model: nn.Module) -> float:
        """Evaluate a whole model and tell how it is; if it is the best so far, its weights are kept."""
        model.eval()
        with computing(self.device, bf16=self.bf16):
            figures = self.task.evaluate(model)
            self.reporter.metrics(self.progress.step, figures)
            self.reporter.samples(self.progress.step, self.task.samples(model, self.config.n_samples))
        score = figures[self.task.objective]
        if score > max(self.progress.best.values(), default=-math.inf):
            self.run.write_weights(weights_of(model))
        model.train()
        return score

    def _keep_some_weights(self) -> None:
        """Where no evaluation has chosen any, write the weights there are, averaged where they are averaged."""
        if self.progress.best:
            return
        if self.averager and self.progress.step % self.config.eval_every:
            self.averager.snapshot(self.model)
        with averaged(self.model, self.averager), self.parallel.gathered() as model:
            self.group.from_first(lambda: self.run.write_weights(weights_of(in_single(model))))

    def _out_of_patience(self, progress: Progress) -> bool:
        return self.config.patience > 0 and progress.since_best >= self.config.patience

    def _window(self) -> Window:
        """An open window, with what a checkpoint kept of the last one."""
        *sums, seconds = self.progress.unreported
        return Window(time.monotonic() - seconds, sums if self.group.first else [0.0] * 3)

    def _sums(self, window: Window) -> list[float]:
        """Loss, nll and tokens of a window over all processes; what is no number is neither told nor saved."""
        sums = self.group.totals(window.total())
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
        tables: dict[str, State] = {
            "model": {name: as_stored(tensor) for name, tensor in weights_of(self.model).items()},
            "optimizer": self.optimizer.state_tensors(),
        }
        if self.averager:
            tables["average"] = self.averager.state_tensors()
        facts = self.progress.facts() | {"examples": self.progress.examples_of_all(self.group.total)}
        self._saver.save(self.progress.step, tables, facts=facts, kept=self._best())

    def _best(self) -> list[int]:
        """The checkpoints that stay for their score."""
        return sorted(self.progress.best) if self.config.keep_best else []

    def _batches(self) -> Iterator[tuple[Position, Batch]]:
        return self.task.batches(self.progress.position, rank=self.group.rank, world=self.group.size)


def _seed(*parts: int) -> int:
    """Whole numbers as one seed in whose every bit they all take part: a CPU's generator uses 32 of them only."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little") >> 1
