"""What is set for the whole process is put back, in however many threads it is set."""

from __future__ import annotations

import threading
import warnings

import pytest

from regard.config.process import no_warnings


def test_filters_of_warnings_are_put_back_by_whoever_leaves_last():
    before, inside, first_left = list(warnings.filters), threading.Barrier(2), threading.Event()

    def first() -> None:
        with no_warnings():
            inside.wait(10)
        first_left.set()

    def second() -> None:
        with no_warnings():
            inside.wait(10)
            assert first_left.wait(10)
            warnings.warn("nobody hears that", UserWarning, stacklevel=1)

    threads = [threading.Thread(target=one) for one in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert list(warnings.filters) == before
    with pytest.warns(UserWarning, match="this is heard"):
        warnings.warn("this is heard", UserWarning, stacklevel=1)


def test_what_fails_puts_them_back_as_well():
    before = list(warnings.filters)
    with pytest.raises(ZeroDivisionError), no_warnings():
        raise ZeroDivisionError
    assert list(warnings.filters) == before
