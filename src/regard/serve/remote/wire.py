"""Messages between two processes of a server, in the order they were put in; those of a moment travel together.

    wire.put(("cancel", 7))            from any thread; never waits for the other side
    for message in wire.messages():    until the other side is gone

Both ends are processes of one server, of one version: messages are pickled. Nobody else can write to the connection.
"""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

Message = tuple[Any, ...]
_MOMENT = 0.0005  # seconds for which a message waits for others


def socket_pair() -> tuple[Connection, socket.socket]:
    """One end for this process, and one to be handed to another."""
    ours, theirs = socket.socketpair()
    return Connection(ours.detach()), theirs


class Wire:
    """One end of a connection; `besides` gives messages that go along with every batch."""

    def __init__(self, connection: Connection, *, besides: Callable[[], Sequence[Message]] = tuple) -> None:
        self._connection, self.besides = connection, besides
        self._waiting: deque[Message] = deque()
        self._filled = threading.Event()
        self._closed = False
        self._sender = threading.Thread(target=self._send_all, name="regard-wire", daemon=True)
        self._sender.start()

    def put(self, message: Message) -> None:
        """Let a message go soon."""
        self._waiting.append(message)
        if not self._filled.is_set():
            self._filled.set()

    def messages(self) -> Iterator[Message]:
        """What comes, until the other side is gone."""
        while True:
            try:
                batch = self._connection.recv_bytes()
            except (EOFError, OSError):
                return
            yield from pickle.loads(batch)

    def close(self) -> None:
        """Send what is left, and nothing more."""
        self._closed = True
        self._filled.set()
        self._sender.join(timeout=5.0)
        self._connection.close()

    def _send_all(self) -> None:
        while not (self._closed and not self._waiting):
            self._filled.wait()
            if not self._closed:
                time.sleep(_MOMENT)
            self._filled.clear()  # what is put in from here on is sent now or wakes us again
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not batch:
                continue
            try:
                self._connection.send_bytes(_pickled([*batch, *self.besides()]))
            except OSError:  # nobody is there any more
                return


def _pickled(batch: list[Message]) -> bytes:
    try:
        return pickle.dumps(batch, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:  # one of them cannot be sent: the others are
        return pickle.dumps([_sendable(message) for message in batch], protocol=pickle.HIGHEST_PROTOCOL)


def _sendable(message: Message) -> Message:
    """The message; a part that cannot be pickled is said in words, as an error."""
    return tuple(part if _can_be_pickled(part) else RuntimeError(repr(part)[:1000]) for part in message)


def _can_be_pickled(part: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(part))
    except Exception:
        return False
    return True
