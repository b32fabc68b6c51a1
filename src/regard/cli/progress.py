"""How far many inputs are: nothing for a few seconds, then a bar on a terminal, or a plain line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column

from regard.cli.console import say, talk
from regard.config.wording import roughly

SOON, QUIET = 3.0, 30.0  # seconds before anything is said, and between two plain lines


class Progress:
    """Counts inputs aloud. Where data is shown on the terminal itself, that is progress enough."""

    def __init__(self, total: int | None, *, to_file: bool) -> None:
        self.total, self.done = total, 0
        self._shown = to_file or not sys.stdout.isatty()
        self._began = time.monotonic()
        self._next = self._began + SOON
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, n: int) -> None:
        """So many more are done."""
        self.done += n
        now = time.monotonic()
        if not self._shown or now < self._next or self.done == self.total:
            return
        if not talk().is_terminal:
            self._next = now + QUIET
            say(self.line(now - self._began))
            return
        line = self.line(now - self._began)
        if self._bar is None or self._task is None:
            self._bar = _bar(counted=self.total is not None)
            self._task = self._bar.add_task(line, total=self.total, completed=self.done)
            self._bar.start()
        self._bar.update(self._task, completed=self.done, description=line)

    def line(self, seconds: float) -> str:
        """Count, rate and time left: `1,200 of 5,000  85/s  45 s left`."""
        rate = self.done / max(seconds, 1e-9)
        pace = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min"
        if self.total is None:
            return f"{self.done:,} done  {pace}"
        return f"{self.done:,} of {self.total:,}  {pace}  {roughly((self.total - self.done) / rate)} left"


def _bar(*, counted: bool) -> Bar:
    text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (BarColumn(bar_width=12), text) if counted else (text,)
    return Bar(*columns, console=talk(), transient=True, redirect_stdout=False)
