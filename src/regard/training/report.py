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

from regard.checkpoints.run import RunFolder


class Reporter:
    """Tells people and files how training goes. Only the first of several processes speaks."""

    def __init__(self, run: RunFolder, *, steps: int, speaks: bool = True, tensorboard: bool = True) -> None:
        self.run, self.steps, self.speaks = run, steps, speaks
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._events: Any = None
        self._tensorboard = tensorboard and speaks
        self._began = time.monotonic()

    def start(self, step: int) -> None:
        """Begin, or go on from a step: forget what was reported after it."""
        if not self.speaks:
            return
        _cut_after(self.run.metrics, step)
        if self._tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(self.run.path / "events", purge_step=step + 1)
        if self.console.is_terminal:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[shown]}"), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self.console)
            self._task = self._bar.add_task("train", total=self.steps, completed=step, shown="")
            self._bar.start()

    def say(self, text: str) -> None:
        """One line for people."""
        if self.speaks:
            self.console.print(text, markup=False)

    def metrics(self, step: int, facts: Mapping[str, float | int], *, aloud: bool = True) -> None:
        """Record figures of a step, and tell them."""
        if not self.speaks:
            return
        line = {"step": step} | {k: _rounded(v) for k, v in facts.items()}
        with self.run.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self._events is not None:
            for name, value in facts.items():
                self._events.add_scalar(name, value, step)
        shown = "  ".join(f"{name} {_short(value)}" for name, value in facts.items())
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=step, shown=shown)
        if aloud and self._bar is None:
            self.say(f"step {step}/{self.steps}  {shown}")

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


def _cut_after(path: Path, step: int) -> None:
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
    draft = path.with_name(f".draft-{path.name}")
    draft.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    draft.replace(path)


def _rounded(value: float | int) -> float | int:
    return value if isinstance(value, int) else float(f"{value:.8g}")


def _short(value: float | int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _clip(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"
