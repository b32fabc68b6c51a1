"""Too many users, of whom some leave, some dawdle and some send garbage: no wrong answer, none lost, and an end."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter

import pytest
import torch

import regard
from http_server import RUNS, serving
from regard.serve.limits import Limits

SECONDS, USERS = 5.0, 24
ROOT = RUNS.parents[2]


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    """The users, the soak and the comparison are those of the benchmarks, with smaller numbers.

    A server has as many threads as we have: PyTorch's own products, unlike ours, round otherwise with others.
    """
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    yield
    for name in ("record", "serving", "serving_users", "soak"):
        sys.modules.pop(name, None)


def test_a_storm_leaves_no_wrong_answer_and_nobody_behind():
    from serving_users import User, exchanges

    alone = {name: regard.load(RUNS / name, "cpu") for name in ("translation", "language")}
    asked = exchanges(alone, seed=1, n=150, longest=40)
    with serving("translation", "language", limits=Limits(queue=4, rows=8)) as (url, served):
        users = [User(url, asked, seed) for seed in range(USERS)]
        until = time.monotonic() + SECONDS
        threads = [threading.Thread(target=user.run, args=(until,)) for user in users]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 30)
        assert not [problem for user in users for problem in user.problems]
        counts = sum((user.counts for user in users), Counter())
        assert counts[200] > 20
        assert counts[429] > 0
        until = time.monotonic() + 10
        engines = [model.engine for model in served.models.values()]
        while any(engine.n_running or engine.n_waiting for engine in engines):
            assert time.monotonic() < until
            time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "n"), [("fp32", 170), ("bf16", 165), ("int8", 165)])
def test_500_mixed_requests_are_answered_as_alone(precision, n):
    from serving import same

    runs = {"translator": RUNS / "translation", "gpt": RUNS / "language"}
    assert same(runs, precision, n=n, longest=60) == []


@pytest.mark.slow
def test_a_soak_loses_nothing_and_ends_within_its_grace():
    from soak import soak

    outcome = soak(60.0, users=64)
    assert outcome.failures() == []
    assert outcome.offered > outcome.capacity
