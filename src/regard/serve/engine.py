"""A model, and everybody who asks it.

Requests wait in a bounded queue. Those that decode are begun a few at a time and then step together: between two steps
new ones join, and finished, cancelled and late ones leave (`threads`, `joining`). Models that decode nothing answer one
request after another; on a GPU, or where the last digits do not matter, requests wait a moment for company and are
predicted as one batch. Each request has a deadline; one that fails takes no other with it.

    engine = Engine(predictor, Limits())
    ticket = engine.submit([Ask("A dog.", {"beam": 5}, finish=lambda output: output.record())])[0]
    ticket.result()
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from regard.config.twins import twin
from regard.decoding import DecodeOptions
from regard.errors import UsageError
from regard.serve.joining import JoinedModel
from regard.serve.limits import Limits
from regard.serve.threads.desk import Desk
from regard.serve.threads.worker import Room, Worker
from regard.serve.tickets import Ask, BusyError, NobodyWatches, StoppingError, Ticket, Watcher

_AT_ONCE = 2  # inputs that are read together while others are being stepped for


class Engine:
    """A model, its thread, and the requests it works on.

    `exact` keeps the bits of an answer from depending on the company: on a CPU, where that costs little, unless told
    otherwise, on a GPU only when told so.
    """

    def __init__(
        self, predictor: Any, limits: Limits, *, watcher: Watcher | None = None, exact: bool | None = None
    ) -> None:
        self.predictor, self.limits = predictor, limits
        self.device, self.description = str(predictor.device), repr(predictor)
        on_cpu = predictor.device.type == "cpu"
        self.exact = on_cpu if exact is None else exact
        self._models: list[Any] = []
        self.joined = predictor.with_models(self._joined_model)
        self.gathers = self.joined is None and not self.exact
        self._refuses = False
        self._desk = Desk(predictor, self.joined, limits, watcher or NobodyWatches(), self.gathers)
        self._worker = Worker(self._desk, self._room(on_cpu))
        self._worker.start()

    @property
    def n_waiting(self) -> int:
        """Requests in the queue."""
        return len(self._desk.queue)

    @property
    def n_running(self) -> int:
        """Requests that are being decoded."""
        return len(self._worker.live)

    def submit(self, asks: Sequence[Ask], *, deadline: float | None = None) -> list[Ticket]:
        """Let requests wait for their turn: all of them, or none where the queue has no room."""
        limit = self.limits.deadline if deadline is None else min(deadline, self.limits.deadline)
        tickets = [self._ticket(ask, limit) for ask in asks]
        with self._desk.changed:
            if self._refuses:
                raise StoppingError("the server is stopping", hint="ask again in a moment")
            if len(self._desk.queue) + len(tickets) > self.limits.queue:
                raise BusyError(f"{len(self._desk.queue)} requests are waiting already", hint="ask again in a moment")
            self._desk.queue.extend(tickets)
            self._desk.changed.notify_all()
        return tickets

    def stop(self, grace: float) -> None:
        """Take nothing new, finish within so many seconds, and end the rest with an error."""
        with self._desk.changed:
            self._refuses = True
        until = time.monotonic() + grace
        while (self._desk.queue or self.n_running) and time.monotonic() < until:
            time.sleep(0.02)
        with self._desk.changed:
            self._desk.ended = True
            self._desk.changed.notify_all()
        self._worker.join()

    def _room(self, on_cpu: bool) -> Room:
        """What the thread has: steps are made beside it where threads change no bit, and there are two."""
        limits, threads = self.limits, torch.get_num_threads()
        beside = on_cpu and threads > 1 and bool(self._models) and all(map(_leaves_rows_alone, self._models))
        starts = limits.starts if on_cpu else limits.batch
        if beside:  # while it reads, nobody is finished: more at once are cheaper, and many wait longer
            starts = min(starts, _AT_ONCE)
        return Room(limits.rows, limits.tokens or 1024 * limits.rows, starts, threads, beside)

    def _joined_model(self, model: Any) -> JoinedModel:
        self._models.append(model)
        shared = twin("shared_model")
        rows = None if shared is None else shared(model, n_rows=self.limits.rows, exact=self.exact)
        return JoinedModel(model if rows is None else rows)

    def _ticket(self, ask: Ask, deadline: float) -> Ticket:
        rows, tokens = rows_and_tokens(self.predictor, self.limits, ask)
        return Ticket(ask, rows=rows, tokens=tokens, deadline=deadline)


def rows_and_tokens(predictor: Any, limits: Limits, ask: Ask) -> tuple[int, int]:
    """What a request will take; more than there is of either is refused."""
    rows, length = 1, 1
    if ask.kind in ("predict", "stream"):
        rows, length = _rows_and_length(predictor, ask.options)
    if rows > limits.rows:
        raise UsageError(f"{rows} hypotheses or samples were asked for; allowed are up to {limits.rows}")
    if length > limits.length:
        raise UsageError(f"decode.max_length is {length}; allowed is up to {limits.length}")
    return rows, rows * length


def _rows_and_length(predictor: Any, options: dict[str, Any]) -> tuple[int, int]:
    section = predictor.config.decode
    if not isinstance(section, DecodeOptions):
        return 1, 1
    known = {name: value for name, value in options.items() if hasattr(section, name)}
    chosen = predictor.options(known)
    return max(chosen.beam, chosen.n_samples), chosen.max_length


def _leaves_rows_alone(model: Any) -> bool:
    """Whether a model reads and steps by kernels for which neither company nor threads change a bit."""
    independent = twin("rows_independent")
    return hasattr(model, "start_each") and independent is not None and bool(independent(model))
