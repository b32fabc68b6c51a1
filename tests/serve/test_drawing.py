"""Looks that are drawn in another process: the same files, whatever the task, and a process that may die."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest

import regard
from http_server import RUNS
from regard.errors import UsageError
from regard.inspection.record import Look
from regard.serve import drawing as drawing_module
from regard.serve.drawing import Drawing, DrawingError
from regard.serve.drawing_worker import drawn
from regard.serve.engine import BusyError, LateError, StoppingError
from regard.serve.errors import api_error
from regard.serve.packing import n_bytes, read, write

DATA = RUNS.parent / "data"
INPUTS = {
    "translation": "one two three",
    "language": "the cat sees",
    "masked": "the <mask> sees a dog .",
    "labels": "the cat sees a dog .",
    "images": "images/*.png",
    "captions-transformer": "captions/*.png",
    "speech": "speech/*.wav",
    "series": "series/hours.csv",
}


@pytest.fixture(scope="module")
def drawing():
    made = Drawing()
    yield made
    made.stop()


def look_of(name):
    given = INPUTS[name]
    if "/" in given:
        folder, pattern = given.split("/")
        given = str(sorted((DATA / folder).rglob(pattern))[0])
    return next(iter(regard.load(RUNS / name, "cpu").looks(given)))


def there_and_back(value):
    file = io.BytesIO()
    write(file, value)
    file.seek(0)
    return read(file)


@pytest.mark.parametrize("name", INPUTS)
def test_every_tasks_look_travels_whole(name):
    look = look_of(name)
    again = there_and_back(look)
    assert type(again) is type(look)
    assert again.html() == look.html()
    assert again.to_json() == look.to_json()


@pytest.mark.parametrize("file", ["look.json", "look.html", "look.png"])
def test_what_is_drawn_elsewhere_is_what_is_drawn_here(drawing, file):
    look = look_of("images")
    assert asyncio.run(drawing.draw(look, file)) == drawn(look, file)


def test_plain_values_travel():
    value = {"a": (1, 2.5, None, True), "b": [np.zeros((0, 3), np.float32), np.float64(2.0)], "c": "ü\ud800"}
    again = there_and_back(value)
    assert again["a"] == value["a"]
    assert again["b"][0].shape == (0, 3)
    assert again["c"] == value["c"]
    assert n_bytes([np.zeros(3), {"x": np.zeros(2, np.uint8)}]) == 26


@dataclass
class Odd:
    what: object


def test_nothing_else_travels():
    with pytest.raises(TypeError, match="cannot be sent"):
        write(io.BytesIO(), Odd(object()))
    file = io.BytesIO()
    write(file, {})
    tree = b'{"object": ["os:system", {}]}'
    with pytest.raises(TypeError, match="no dataclass"):
        read(io.BytesIO(len(tree).to_bytes(8, "little") + tree))
    with pytest.raises(EOFError):
        read(io.BytesIO(b"\x05" + bytes(7) + b"{"))
    assert read(io.BytesIO(b"")) is None


def test_a_process_that_died_is_started_anew(drawing):
    look = look_of("translation")
    assert asyncio.run(drawing.draw(look, "look.html"))
    os.kill(drawing.pid, signal.SIGKILL)
    while drawing.pid:
        time.sleep(0.01)
    assert asyncio.run(drawing.draw(look, "look.html"))


def test_signals_to_everybody_leave_it_alone(drawing):
    look = look_of("translation")
    asyncio.run(drawing.draw(look, "look.html"))
    pid = drawing.pid
    for one in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, one)
    assert asyncio.run(drawing.draw(look, "look.html"))
    assert drawing.pid == pid


@pytest.mark.parametrize(
    ("script", "error", "status"),
    [("import time; time.sleep(60)", LateError, 503), ("pass", DrawingError, 503)],
)
def test_one_that_dawdles_or_dies_is_told(monkeypatch, script, error, status):
    monkeypatch.setattr(drawing_module, "COMMAND", (sys.executable, "-c", script))
    made = Drawing(seconds=0.3)
    with pytest.raises(error) as caught:
        asyncio.run(made.draw(look_of("translation"), "look.html"))
    assert api_error(caught.value).status == status
    assert made.pid is None
    made.stop()


def test_what_cannot_be_drawn_is_told(drawing):
    with pytest.raises(UsageError):
        asyncio.run(drawing.draw(Look({}, {}), "look.png"))


def test_bounds():
    made = Drawing(most=10, places=1)
    with pytest.raises(UsageError, match="drawn are up to"):
        asyncio.run(made.draw(look_of("translation"), "look.html"))
    with made.place(), pytest.raises(BusyError), made.place():
        pass
    made.stop()
    with pytest.raises(StoppingError), made.place():
        pass
    assert made.pid is None
