"""Engines as the process that speaks HTTP has them: what is asked of one is answered in another process.

    process = EngineProcess()
    process.begin("gpt2", place, How(limits, "cuda", "bf16", check=True, exact=None))
    engine = process.opened("gpt2", regard.load(place, "meta"))
    engine.submit([Ask("A dog.")])[0].result()         as of an `Engine`
    engine.stop(10.0)

`predictor` has the model's settings and tokenizers, and no weights.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import regard
from regard.errors import EnvironmentProblem
from regard.serve.engine import rows_and_tokens
from regard.serve.limits import Limits
from regard.serve.remote.protocol import How, Question
from regard.serve.remote.wire import Wire, socket_pair
from regard.serve.tickets import Ask, BusyError, NobodyWatches, StoppingError, Ticket, Watcher

_AFTER_GRACE = 5.0  # seconds in which the process ends once the grace is over


class RemoteTicket(Ticket):
    """A request that another process works on."""

    def __init__(self, ask: Ask, number: int, wire: Wire, *, rows: int, tokens: int, deadline: float) -> None:
        super().__init__(ask, rows=rows, tokens=tokens, deadline=deadline)
        self.number, self._wire = number, wire

    def cancel(self) -> None:
        """Whoever asked has gone: it leaves before the next step."""
        if not self.cancelled and not self.future.done():
            self._wire.put(("cancel", self.number))
        super().cancel()


class EngineProcess:
    """A process with models, which ends when it is stopped or this one ends; `on_end` is called where it dies."""

    def __init__(self, *, on_end: Callable[[], None] = lambda: None) -> None:
        self.on_end = on_end
        connection, theirs = socket_pair()
        paths = [str(Path(regard.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        told = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "regard.serve.remote.process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | told,
            )
        self.wire = Wire(connection)
        self._numbers = itertools.count()
        self._engines: dict[str, RemoteEngine] = {}
        self._tickets: dict[int, RemoteTicket] = {}
        self._stopping = False
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="regard-remote", daemon=True).start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def begin(self, name: str, place: Path, how: How) -> None:
        """Have a model opened, while this process does something else; `opened` waits for it."""
        self._engines[name] = RemoteEngine(name, self, how.limits)
        self.wire.put(("open", name, place.absolute(), how))

    def opened(self, name: str, predictor: Any, *, watcher: Watcher | None = None) -> RemoteEngine:
        """The engine of a model, once it is there; what is wrong with it is raised."""
        engine = self._engines[name]
        engine.ready.wait()
        if engine.problem is not None:
            raise engine.problem
        engine.predictor, engine.watcher = predictor, watcher or NobodyWatches()
        return engine

    def submit(self, engine: RemoteEngine, asks: Sequence[Ask], deadline: float) -> list[RemoteTicket]:
        """Send requests."""
        sizes = [rows_and_tokens(engine.predictor, engine.limits, ask) for ask in asks]
        tickets = [
            RemoteTicket(ask, next(self._numbers), self.wire, rows=rows, tokens=tokens, deadline=deadline)
            for ask, (rows, tokens) in zip(asks, sizes, strict=True)
        ]
        with self._lock:
            if self._stopping:
                raise StoppingError("the server is stopping", hint="ask again in a moment")
            self._tickets |= {one.number: one for one in tickets}
        questions = [Question(ask.input, ask.options, ask.kind) for ask in asks]
        self.wire.put(("submit", engine.name, [one.number for one in tickets], questions, deadline))
        return tickets

    def stop(self, grace: float) -> None:
        """Take nothing new, let it finish, and see that it ends."""
        with self._lock:
            first, self._stopping = not self._stopping, True
        if first:
            self.wire.put(("stop", grace))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace + _AFTER_GRACE)
        self._process.kill()
        self._process.wait()

    # ---- what it says

    def _listen(self) -> None:
        does: dict[str, Callable[..., None]] = {
            "told": self._told,
            "done": self._done,
            "failed": self._failed,
            "watched": self._watched,
            "load": self._load,
            "opened": self._opened,
            "refused": self._refused,
        }
        for what, *given in self.wire.messages():
            does[what](*given)
        self._ended()

    def _told(self, number: int, tokens: list[int]) -> None:
        if (ticket := self._tickets.get(number)) is not None:
            ticket.ask.tell(tokens)

    def _done(self, number: int, output: Any) -> None:
        if (ticket := self._tickets.pop(number, None)) is None:
            return
        try:
            answer = ticket.ask.finish(output)
        except Exception as problem:
            ticket.future.set_exception(problem)
        else:
            ticket.future.set_result(answer)

    def _failed(self, number: int, problem: Exception) -> None:
        if (ticket := self._tickets.pop(number, None)) is not None:
            ticket.future.set_exception(problem)

    def _watched(self, name: str, what: str, numbers: Sequence[Any]) -> None:
        getattr(self._engines[name].watcher, what)(*numbers)

    def _load(self, name: str, n_waiting: int, n_running: int) -> None:
        self._engines[name].n_running = n_running

    def _opened(self, name: str, description: str, device: str, exact: bool) -> None:
        engine = self._engines[name]
        engine.description, engine.device, engine.exact = description, device, exact
        engine.ready.set()

    def _refused(self, name: str, problem: Exception) -> None:
        engine = self._engines[name]
        engine.problem = problem
        engine.ready.set()

    def _ended(self) -> None:
        """The process is gone: nobody waits for it for ever."""
        with self._lock:
            died, self._stopping = not self._stopping, True
            left, self._tickets = list(self._tickets.values()), {}
        for ticket in left:
            ticket.future.set_exception(StoppingError("the server is stopping", hint="ask again in a moment"))
        for engine in self._engines.values():
            engine.problem = engine.problem or EnvironmentProblem("the process with the models has ended")
            engine.ready.set()
        if died:
            self.on_end()


class RemoteEngine:
    """A model of another process, and those who ask it."""

    predictor: Any

    def __init__(self, name: str, process: EngineProcess, limits: Limits) -> None:
        self.name, self.process, self.limits = name, process, limits
        self.watcher: Watcher = NobodyWatches()
        self.ready = threading.Event()
        self.problem: Exception | None = None
        self.description = self.device = ""
        self.exact = False
        self._n_asked = self.n_running = 0
        self._lock = threading.Lock()

    @property
    def n_waiting(self) -> int:
        """Requests that are under way and not being decoded, as far as is known here."""
        return max(0, self._n_asked - self.n_running)

    def submit(self, asks: Sequence[Ask], *, deadline: float | None = None) -> list[Ticket]:
        """Let requests wait for their turn: all of them, or none where the queue has no room."""
        with self._lock:
            if self._n_asked + len(asks) > self.limits.queue + self.limits.rows:  # the other side knows better
                raise BusyError(f"{self.n_waiting} requests are waiting already", hint="ask again in a moment")
            self._n_asked += len(asks)
        try:
            limit = self.limits.deadline if deadline is None else min(deadline, self.limits.deadline)
            tickets = self.process.submit(self, asks, limit)
        except Exception:
            self._leave(len(asks))
            raise
        for ticket in tickets:
            ticket.future.add_done_callback(lambda _: self._leave(1))
        return list(tickets)

    def stop(self, grace: float) -> None:
        """Take nothing new, finish within so many seconds, and end the rest with an error."""
        self.process.stop(grace)

    def _leave(self, n: int) -> None:
        with self._lock:
            self._n_asked -= n
