"""The process that has the models: it opens them, runs their engines, and says what these say.

    python -m regard.serve.remote.process FD

FD is one end of a connection to the process that speaks HTTP. This one ends when that one does, or says so. Signals are
the other's business: what a terminal or a service manager sends to all processes of a server does not end an answer
that may still be finished.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

import regard
from regard.config.process import short_turns
from regard.serve.engine import Engine
from regard.serve.remote.protocol import How, Question
from regard.serve.remote.wire import Message, Wire
from regard.serve.tickets import Ask, Ticket


class Teller:
    """An engine's watcher that tells another process."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire, self._name = wire, name

    def began(self, waited: float) -> None:
        """A request left the queue."""
        self._tell("began", waited)

    def first_token(self, seconds: float) -> None:
        """A request has its first token."""
        self._tell("first_token", seconds)

    def stepped(self, n_tokens: int, seconds: float) -> None:
        """Steps were made."""
        self._tell("stepped", n_tokens, seconds)

    def ended(self, outcome: str, seconds: float) -> None:
        """A request is over."""
        self._tell("ended", outcome, seconds)

    def _tell(self, what: str, *numbers: Any) -> None:
        self._wire.put(("watched", self._name, what, numbers))


class Models:
    """The models of this process, and the requests that they work on."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._engines: dict[str, Engine] = {}
        self._tickets: dict[int, Ticket] = {}
        wire.besides = self._loads

    def serve(self) -> None:
        """Do what is said, until the other side is gone or says stop."""
        does: dict[str, Callable[..., None]] = {"open": self.open, "submit": self.submit, "cancel": self.cancel}
        for what, *given in self._wire.messages():
            if what == "stop":
                self.stop(*given)
                return
            does[what](*given)
        self.stop(0.0)

    def open(self, name: str, place: Path, how: How) -> None:
        """Open a model."""
        try:
            predictor = regard.load(place, how.device, precision=how.precision, check=how.check)
            engine = Engine(predictor, how.limits, watcher=Teller(self._wire, name), exact=how.exact)
        except Exception as problem:
            self._wire.put(("refused", name, problem))
            return
        self._engines[name] = engine
        self._wire.put(("opened", name, engine.description, engine.device, engine.exact))

    def submit(self, name: str, numbers: Sequence[int], questions: Sequence[Question], deadline: float) -> None:
        """Let an engine answer, all of them or none."""
        asks = [
            Ask(one.input, one.options, one.kind, _on_the_host, partial(self._told, number))
            for number, one in zip(numbers, questions, strict=True)
        ]
        try:
            tickets = self._engines[name].submit(asks, deadline=deadline)
        except Exception as problem:
            for number in numbers:
                self._wire.put(("failed", number, problem))
            return
        for number, ticket in zip(numbers, tickets, strict=True):
            self._tickets[number] = ticket
            ticket.future.add_done_callback(partial(self._answered, number))

    def cancel(self, number: int) -> None:
        """Nobody waits for it any more."""
        if (ticket := self._tickets.get(number)) is not None:
            ticket.cancel()

    def stop(self, grace: float) -> None:
        """Finish what can be finished, and end the rest."""
        with ThreadPoolExecutor(max(1, len(self._engines))) as pool:
            for engine in self._engines.values():
                pool.submit(engine.stop, grace)
        self._wire.close()

    def _told(self, number: int, tokens: list[int]) -> None:
        self._wire.put(("told", number, tokens))

    def _answered(self, number: int, future: Future[Any]) -> None:
        self._tickets.pop(number, None)
        problem = future.exception()
        self._wire.put(("done", number, future.result()) if problem is None else ("failed", number, problem))

    def _loads(self) -> list[Message]:
        return [("load", name, engine.n_waiting, engine.n_running) for name, engine in self._engines.items()]


def _on_the_host(output: Any) -> Any:
    """What can be sent: nothing of a device's memory."""
    return output.cpu() if isinstance(output, torch.Tensor) else output


def main() -> None:
    """Serve the connection that was handed over."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    with short_turns():
        Models(Wire(Connection(int(sys.argv[1])))).serve()
    os._exit(0)  # readers of long inputs, and a device's libraries, are not waited for


if __name__ == "__main__":
    main()
