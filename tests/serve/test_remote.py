"""Models in a process of their own: they answer as those of this process do, and nobody waits for one that is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from openai import APIStatusError, OpenAI

import regard
from http_server import RUNS, serving
from regard.errors import CheckpointError, UsageError
from regard.serve.limits import Limits
from regard.serve.remote.engine import EngineProcess
from regard.serve.remote.protocol import How
from regard.serve.remote.wire import Wire, socket_pair
from regard.serve.served import open_served
from regard.serve.tickets import Ask, BusyError, CancelledError, StoppingError

NAMES = ("language", "translation", "labels", "masked")


@pytest.fixture(scope="module")
def server():
    with serving(*NAMES, apart=True) as (url, served):
        yield url, served


@pytest.fixture(scope="module")
def engines(server):
    return {name: model.engine for name, model in server[1].models.items()}


def record(output):
    return json.dumps(output.record(), ensure_ascii=False)


def test_everybody_is_answered_as_alone(engines):
    asked = [("translation", "one two", {"beam": 3}), ("language", "the cat", {"max_length": 9}),
             ("language", "a dog", {"strategy": "sample", "seed": 5}), ("labels", "the cat sees", {})]  # fmt: skip
    alone = {name: regard.load(RUNS / name, "cpu") for name in NAMES}
    right = [record(alone[name](text, **options)) for name, text, options in asked]
    tickets = [engines[name].submit([Ask(text, options, finish=record)])[0] for name, text, options in asked * 5]
    assert [ticket.result(60) for ticket in tickets] == right * 5
    vector = engines["masked"].submit([Ask("the cat", {}, "embed", finish=lambda given: given.tolist())])[0].result(60)
    assert vector == alone["masked"].embed(["the cat"])[0].tolist()


def test_a_stream_says_what_the_predictor_says_and_stops_where_it_does(server):
    client = OpenAI(base_url=f"{server[0]}/v1", api_key="none")
    alone = regard.load(RUNS / "language", "cpu")
    for stop in (None, ["dog"]):
        events = client.completions.create(
            model="language", prompt="the cat", max_tokens=20, stop=stop, stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        parts, usage = [], None
        for event in events:
            parts += [choice.text for choice in event.choices]
            usage = event.usage or usage
        said = alone("the cat", max_length=20, **({"stop": stop} if stop else {}))
        assert "".join(parts) == said.text
        assert usage is not None
        assert usage.completion_tokens == len(list(alone.stream_ids("the cat", max_length=20, stop=stop or ())))


def test_what_is_wrong_is_refused_as_ever(server, engines):
    client = OpenAI(base_url=f"{server[0]}/v1", api_key="none", max_retries=0)
    with pytest.raises(APIStatusError, match="banned"):
        client.completions.create(model="language", prompt="a", extra_body={"decode": {"banned": "x"}})
    with pytest.raises(UsageError, match="hypotheses"):
        engines["translation"].submit([Ask("one", {"beam": 1000})])
    assert engines["language"].n_waiting == 0
    with pytest.raises(UsageError):  # found out by the other process
        engines["language"].submit([Ask("a", {"stop": [""]})])[0].result(60)


def test_who_leaves_is_no_longer_worked_for(engines):
    ticket = engines["language"].submit([Ask("the cat", {"max_length": 4000, "min_length": 3999})])[0]
    ticket.cancel()
    with pytest.raises(CancelledError):
        ticket.result(60)


def test_figures_of_the_other_process_are_counted_here(server):
    metrics = server[1].exposition().decode()
    answered = next(line for line in metrics.splitlines() if 'model="language",outcome="answered"' in line)
    assert float(answered.split()[-1]) > 0
    assert 'regard_decoded_tokens_total{model="language"}' in metrics


def test_a_full_queue_and_an_end_within_the_grace():
    served = open_served({"language": RUNS / "language"}, limits=Limits(rows=1, queue=2), device="cpu", apart=True)
    engine = served.models["language"].engine
    long = Ask("the cat", {"max_length": 4000, "min_length": 3999})
    tickets = [ticket for _ in range(3) for ticket in engine.submit([long])]  # one row, and two that wait
    with pytest.raises(BusyError):
        engine.submit([long])
    begin = time.monotonic()
    served.stop(0.2)
    assert time.monotonic() - begin < 6
    outcomes = [ticket.future.exception(10) for ticket in tickets]
    assert outcomes
    assert all(isinstance(one, StoppingError | BusyError) for one in outcomes)
    with pytest.raises(StoppingError):
        engine.submit([long])


def test_a_process_that_dies_is_told_of_and_nobody_waits_for_it():
    lost = []
    process = EngineProcess(on_end=lambda: lost.append(True))
    process.begin("language", RUNS / "language", How(Limits(), "cpu", "auto", check=True, exact=None))
    engine = process.opened("language", regard.load(RUNS / "language", "meta"))
    ticket = engine.submit([Ask("the cat", {"max_length": 4000, "min_length": 3999})])[0]
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(StoppingError):
        ticket.result(10)
    with pytest.raises(StoppingError):
        engine.submit([Ask("the cat")])
    assert lost == [True]
    process.stop(0.0)


def test_a_model_that_cannot_be_opened_is_an_error_here(tmp_path):
    (tmp_path / "config.toml").write_text("task = 'nothing'")
    with pytest.raises(CheckpointError):
        open_served({"broken": tmp_path}, limits=Limits(), device="cpu", apart=True)


def test_a_server_whose_models_are_lost_ends_with_an_error():
    code = (
        "import os, signal, threading\n"
        "from pathlib import Path\n"
        "from regard.serve.limits import Limits\n"
        "from regard.serve.keys import Keys\n"
        "from regard.serve.served import open_served\n"
        "from regard.serve.server import Address, run\n"
        f"served = open_served({{'a': Path({str(RUNS / 'labels')!r})}}, limits=Limits(), device='cpu', apart=True)\n"
        "pid = served.models['a'].engine.process.pid\n"
        "threading.Timer(1.0, os.kill, (pid, signal.SIGKILL)).start()\n"
        "with Address('127.0.0.1', 0) as address: run(served, address, keys=Keys([]))\n"
    )
    source = str(Path(regard.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": source},
    )
    assert done.returncode == 1
    assert "the process with the models has ended" in done.stderr


def test_messages_keep_their_order_and_what_cannot_be_sent_is_said_in_words():
    here, theirs = socket_pair()
    from multiprocessing.connection import Connection

    one, other = Wire(here), Wire(Connection(theirs.detach()), besides=lambda: [("besides",)])
    numbers = range(1000)
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(lambda: list(one.messages()))
        for number in numbers:
            other.put(("number", number))
        other.put(("odd", lambda: None))
        other.close()
        messages = got.result(20)
    assert [message[1] for message in messages if message[0] == "number"] == list(numbers)
    (odd,) = [message for message in messages if message[0] == "odd"]
    assert isinstance(odd[1], RuntimeError)
    assert ("besides",) in messages
    one.close()
