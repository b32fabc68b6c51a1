"""What a run says while it runs: a progress bar or plain lines, metrics.jsonl, TensorBoard, sample translations.

On a terminal, a bar with rate, loss and time left; piped, one plain line a report. Everything also goes to
`metrics.jsonl`, one JSON object a line. A resumed run first cuts off the lines that its checkpoint does not know,
so that the file reads as if nothing had happened.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from regard.checkpoints.run import RunFolder
from regard.config.wording import roughly, score
from regard.data.io.hashes import forget_hashes, record_hashes
from regard.metrics.figure_names import figure, is_mirrored

_LABELS = {"lr": "rate"}
_QUIET, _SOON = 30.0, 2.0  # seconds without a word, and before the first one
_SLOW = 3  # steps that warm up


class Reporter:
    """Tells people and files how training goes. Only the first of several processes speaks."""

    def __init__(
        self, run: RunFolder, *, steps: int, speaks: bool = True, tensorboard: bool = True, unit: str = "tokens"
    ) -> None:
        """`unit` is what the task's batches count."""
        self.run, self.steps, self.speaks, self.unit = run, steps, speaks, unit
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._events: Any = None
        self._tensorboard = tensorboard and speaks
        self._began = self._spoke = time.monotonic()
        self._first = self._from = 0

    def start(self, step: int) -> None:
        """Begin, or go on from a step: forget what was reported after it."""
        if not self.speaks:
            return
        self._first = self._from = step
        self._began, self._spoke = time.monotonic(), time.monotonic() - _QUIET + _SOON
        cut_after(self.run.metrics, step)
        if self._tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(self.run.path / "events", purge_step=step + 1)
        if self.console.is_terminal:
            whole = Column(no_wrap=True, overflow="ellipsis", ratio=1)  # on a narrow terminal figures give way
            columns = (
                BarColumn(bar_width=12),
                MofNCompleteColumn(),
                TextColumn("{task.fields[shown]}", table_column=whole),
                TimeRemainingColumn(compact=True),
            )
            self._bar = Progress(*columns, console=self.console, expand=True)
            self._task = self._bar.add_task("train", total=self.steps, completed=step, shown="")
            self._bar.start()

    def tick(self, step: int) -> None:
        """A step is done: move the bar; without one, speak up if nothing was heard for a while."""
        if step == self._first + _SLOW:  # what comes before is not how fast it goes
            self._from, self._began = step, time.monotonic()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=step)
        elif self.speaks and time.monotonic() - self._spoke > _QUIET:
            self.say(f"step {step:,}/{self.steps:,}{self._left(step)}")

    def _left(self, step: int) -> str:
        """How long the rest takes at most, by the time that steps took so far."""
        done, left = step - self._from, self.steps - step
        return f"  {roughly((time.monotonic() - self._began) / done * left)} left" if done > 0 and left > 0 else ""

    def say(self, text: str) -> None:
        """One line for people."""
        self._spoke = time.monotonic()
        if self.speaks:
            self.console.print(text, markup=False)

    def metrics(self, step: int, facts: Mapping[str, float | int], *, aloud: bool = True) -> None:
        """Record figures of a step, and tell them."""
        if not self.speaks:
            return
        write_metrics(self.run.metrics, step, facts)
        if self._events is not None:
            for name, value in facts.items():
                self._events.add_scalar(name, value, step)
        shown = "  ".join(self._shown(name, value) for name, value in facts.items() if not _aside(name))
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=step, shown=shown)
        if aloud and self._bar is None:
            self.say(f"step {step:,}/{self.steps:,}  {shown}{self._left(step)}")

    def _shown(self, name: str, value: float | int) -> str:
        """A figure in words, speed in what the task counts."""
        if name == "tokens_per_second":
            return f"{score(value)} {self.unit}/s"
        return f"{_LABELS.get(name) or figure(name).label} {_short(value)}"

    def samples(self, step: int, samples: Sequence[tuple[str, str, str]]) -> None:
        """Keep a few translations, so that one can read how the model grows."""
        if not self.speaks or not samples:
            return
        folder = self.run.path / "samples"
        folder.mkdir(exist_ok=True)
        text = "\n\n".join(f"source     {s}\nreference  {r}\nmodel      {m}" for s, r, m in samples)
        (folder / f"step-{step:08d}.txt").write_text(text + "\n", encoding="utf-8")
        source, _, model = samples[0]
        self.say(f"  {_clip(source)} → {_clip(model)}")

    def stop(self) -> None:
        """Put the bar and the files away."""
        if self._bar is not None:
            self._bar.stop()
        if self._events is not None:
            self._events.close()


def write_metrics(path: Path, step: int, facts: Mapping[str, float | int]) -> None:
    """Add the figures of a step to a metrics.jsonl."""
    line = {"step": step} | {k: _rounded(v) for k, v in facts.items()}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def cut_after(path: Path, step: int) -> None:
    """Keep the lines up to a step; a line cut short by a kill goes too."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue
    forget_hashes(path.parent, [path.name])
    draft = path.with_name(f".draft-{path.name}")
    draft.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    draft.replace(path)
    record_hashes(path.parent, [path.name])


def _aside(name: str) -> bool:
    """Whether a figure is for files alone: what a loss is made of, or a loss turned around."""
    return name == "nll" or is_mirrored(name)


def _rounded(value: float | int) -> float | int:
    return value if isinstance(value, int) else float(f"{value:.8g}")


def _short(value: float | int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _clip(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"
