"""Stopping politely: the first signal is noted, the second is not waited for, and handlers are put back."""

import os
import signal
from threading import Thread

import pytest

from regard.training.signals import listening


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_noted_and_the_second_ends_at_once(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with listening() as stopping:
        assert not stopping.is_set()
        os.kill(os.getpid(), number)
        assert stopping.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_another_thread_only_looks_at_the_event() -> None:
    found = []

    def run() -> None:
        with listening() as stopping:
            found.append(stopping.is_set())

    before = signal.getsignal(signal.SIGINT)
    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]
    assert signal.getsignal(signal.SIGINT) is before
