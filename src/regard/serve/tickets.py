"""What is asked of an engine, a request under way, and how pieces of its answer get to whoever waits for them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from regard.errors import RegardError

Kind = Literal["predict", "stream", "embed"]


class BusyError(RegardError):
    """The queue is full."""


class LateError(RegardError):
    """A request took longer than it may."""


class StoppingError(RegardError):
    """The server is about to end."""


class CancelledError(RegardError):
    """Whoever asked has gone."""


@dataclass(frozen=True)
class Ask:
    """What is asked of a model: an input, and options as `regard predict` takes them.

    `finish` makes what is sent of what the model says. A stream hands its tokens to `tell` as they come: what they
    spell is for whoever sends it to say, so that the thread of the model has that much less to do.
    """

    input: Any
    options: dict[str, Any] = field(default_factory=dict)
    kind: Kind = "predict"
    finish: Callable[[Any], Any] = lambda output: output
    tell: Callable[[list[int]], None] = lambda tokens: None


class Ticket:
    """A request under way. `future` is done when it is answered or refused."""

    def __init__(self, ask: Ask, *, rows: int, tokens: int, deadline: float) -> None:
        self.ask, self.rows, self.tokens = ask, rows, tokens
        self.came = time.monotonic()
        self.deadline = self.came + deadline
        self.future: Future[Any] = Future()
        self.future.set_running_or_notify_cancel()  # it ends when the engine says so, and not before
        self.cancelled = False
        self.leave: Callable[[], None] = lambda: None  # says so to whoever steps without looking here
        self.n_steps = 0
        self.has_begun = False

    def cancel(self) -> None:
        """Whoever asked has gone: it leaves before the next step."""
        self.cancelled = True
        self.leave()

    def result(self, timeout: float | None = None) -> Any:
        """The answer, or what was wrong, as an error."""
        return self.future.result(timeout)

    def problem(self, now: float) -> Exception | None:
        """Why it cannot go on, if it cannot."""
        if self.cancelled:
            return CancelledError("the request was cancelled")
        if now > self.deadline:
            return LateError(
                f"the request took longer than {self.deadline - self.came:g} seconds", hint="ask for less, or later"
            )
        return None

    def stepped(self, now: float, watcher: Watcher) -> None:
        """A step was made for it, which brought its first token if it had none."""
        self.n_steps += 1
        if not self.has_begun:
            self.has_begun = True
            watcher.first_token(now - self.came)


class Watcher(Protocol):
    """Who counts what an engine does."""

    def began(self, waited: float) -> None:
        """A request left the queue after so many seconds."""

    def first_token(self, seconds: float) -> None:
        """A request has its first token, so many seconds after it came."""

    def stepped(self, n_tokens: int, seconds: float) -> None:
        """Steps were made that brought so many tokens; each took so long."""

    def ended(self, outcome: str, seconds: float) -> None:
        """A request is over."""


class NobodyWatches:
    """Counts nothing."""

    def began(self, waited: float) -> None:
        """Nothing."""

    def first_token(self, seconds: float) -> None:
        """Nothing."""

    def stepped(self, n_tokens: int, seconds: float) -> None:
        """Nothing."""

    def ended(self, outcome: str, seconds: float) -> None:
        """Nothing."""


def outcome_name(outcome: object) -> str:
    """One word for how a request ended."""
    names: dict[type, str] = {LateError: "late", CancelledError: "cancelled", StoppingError: "stopped"}
    if not isinstance(outcome, BaseException):
        return "answered"
    return names.get(type(outcome), "refused" if isinstance(outcome, RegardError) else "failed")


class Deliveries:
    """Pieces on their way from engines' threads to queues of event loops, in the order they came.

    Waking a loop takes longer than handing a piece over, and a step for hundreds of streams has a piece for each: those
    of one loop are handed over together.
    """

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pieces] = WeakKeyDictionary()

    def here(self) -> _Pieces:
        """Those of the loop that is running."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops[loop] = _Pieces(loop)
        return self._loops[loop]


class _Pieces:
    """Pieces for queues of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[asyncio.Queue[Any], Any]] = deque()
        self._called = False

    def add(self, queue: asyncio.Queue[Any], piece: Any) -> None:
        """Hand a piece over soon; from any thread."""
        self._waiting.append((queue, piece))
        if not self._called:  # where two threads see that, the loop is woken once more than it has to be
            self._called = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False
        while self._waiting:
            queue, piece = self._waiting.popleft()
            queue.put_nowait(piece)
