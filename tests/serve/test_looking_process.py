"""Looks that are computed and drawn in another process: the same files, for every task, and it may die."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
import time

import pytest

import regard
from http_server import RUNS
from regard.errors import UsageError
from regard.serve import looking as looking_module
from regard.serve import looking_worker
from regard.serve.errors import api_error
from regard.serve.looking import Asked, Looking, LookingError
from regard.serve.looking_worker import Looker, as_file, serve
from regard.serve.tickets import BusyError, LateError, StoppingError

DATA = RUNS.parent / "data"
INPUTS = {
    "translation": "one two three",
    "language": "the cat sees",
    "masked": "the <mask> sees a dog .",
    "images": "images/*.png",
    "captions-transformer": "captions/*.png",
    "speech": "speech/*.wav",
    "series": "series/hours.csv",
}


@pytest.fixture(scope="module")
def looking():
    made = Looking()
    yield made
    made.stop()


def asked(name, target=None):
    given = INPUTS[name]
    if "/" in given:
        folder, pattern = given.split("/")
        given = str(sorted((DATA / folder).rglob(pattern))[0])
    return Asked(RUNS / name, "fp32", given, target)


def looked(looking, what, name="look.html"):
    return asyncio.run(looking.look(what, name))


@pytest.mark.parametrize("name", INPUTS)
def test_every_tasks_page_is_the_one_drawn_here(looking, name):
    what = asked(name)
    own = next(iter(regard.load(what.place, "cpu", precision="fp32").looks(what.input)))
    assert looked(looking, what) == as_file(own, "look.html")


@pytest.mark.parametrize(("file", "begins"), [("look.json", b"{"), ("look.png", b"\x89PNG")])
def test_records_and_pictures(looking, file, begins):
    assert looked(looking, asked("images"), file).startswith(begins)


def test_a_target_is_what_the_model_is_made_to_say(looking):
    record = json.loads(looked(looking, asked("translation", "vier vier"), "look.json"))
    assert record["axes"]["target"]["labels"][:2] == ["▁vier", "▁vier"]


def test_a_process_that_died_is_started_anew(looking):
    assert looked(looking, asked("translation"))
    os.kill(looking.pid, signal.SIGKILL)
    while looking.pid:
        time.sleep(0.01)
    assert looked(looking, asked("translation"))


def test_signals_to_everybody_leave_it_alone_and_it_steps_back(looking):
    looked(looking, asked("translation"))
    pid = looking.pid
    for one in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, one)
    assert looked(looking, asked("translation"))
    assert looking.pid == pid
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, os.getpid())


@pytest.mark.parametrize(
    ("script", "error"),
    [("import time; time.sleep(60)", LateError), ("pass", LookingError), ("print('{\"kind\": 1')", LookingError)],
)
def test_one_that_dawdles_or_dies_is_told(monkeypatch, script, error):
    monkeypatch.setattr(looking_module, "COMMAND", (sys.executable, "-c", script))
    made = Looking(seconds=0.5)
    with pytest.raises(error) as caught:
        looked(made, asked("translation"))
    told = api_error(caught.value)
    assert (told.status, told.retry) == (503, 1.0)
    assert made.pid is None
    made.stop()


def test_what_cannot_be_looked_at_is_told(looking):
    with pytest.raises(UsageError, match="writes nothing"):
        looked(looking, asked("masked", "a target"))
    with pytest.raises(UsageError, match="look at nothing"):
        looked(looking, Asked(RUNS / "words", "fp32", "cat", None))


def test_bounds(monkeypatch):
    made = Looking(places=1)
    with made.place(), pytest.raises(BusyError), made.place():
        pass
    made.stop()
    for _ in range(2):
        with pytest.raises(StoppingError), made.place():
            pass
    monkeypatch.setattr(looking_worker, "MOST_WEIGHTS", 10)
    request = {"place": str(RUNS / "translation"), "precision": "fp32", "input": "one", "target": None, "name": "a.png"}
    head, data = Looker().answer(request)
    assert (head["kind"], data) == ("refused", b"")
    assert "drawn are up to 10 B" in head["problem"]


def test_few_models_are_kept(monkeypatch):
    opened = []
    monkeypatch.setattr(regard, "load", lambda place, device, **rest: opened.append(place) or place)
    looker = Looker()
    for place in ("a", "b", "a", "c", "a", "b"):
        assert looker._model(place, "fp32") == place
    assert opened == ["a", "b", "c", "b"]


def test_requests_are_answered_one_after_another():
    lines = [{"place": "nowhere", "precision": "fp32", "input": "x", "target": None, "name": "a.png"}] * 2
    answers = io.BytesIO()
    serve(io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in lines)), answers)
    told = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [one["kind"] for one in told] == ["refused", "refused"]


def test_a_look_that_would_take_too_much_memory_fails_and_the_next_does_not(monkeypatch):
    script = "from regard.serve import looking_worker as w; w.free_memory = lambda: 2_400_000_000; w.main()"
    monkeypatch.setattr(looking_module, "COMMAND", (sys.executable, "-c", script))
    made = Looking()
    with pytest.raises(LookingError, match="failed"):
        looked(made, Asked(RUNS / "translation", "fp32", "one " * 16_000, None))
    assert looked(made, asked("translation"))
    made.stop()
