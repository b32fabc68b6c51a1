"""Stopping a run politely: it saves its state first and can go on from there."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from types import FrameType

from regard.errors import RegardError


class Interrupted(RegardError):  # noqa: N818 - a wish of the user, not an error
    """Training was asked to stop, and has saved its state."""

    exit_code = 130


@contextmanager
def listening() -> Iterator[Event]:
    """An event that Ctrl-C or a polite kill sets; a second Ctrl-C is not so patient."""
    stopping = Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()

    signals = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()  # others may not listen
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
