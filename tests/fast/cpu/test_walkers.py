"""Greedy decodings that go on by themselves come to what each comes to alone, whoever joins, leaves or calls back."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest
import torch

from fast_only import needs_fast
from packed_translators import IDS, plan_of
from packed_translators import packed_translator as model
from packed_translators import sentences as sources
from regard.decoding import DecodeOptions, decode
from regard.decoding.joint import step_together
from regard.decoding.walks import Walk
from regard.fast.cpu.walkers import Walkers

LATER = 3600.0
pytestmark = [needs_fast, pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")]


def walk_of(module, source, limit=20, eos_id=59):
    return Walk.of(module.start(source, capacity=4), plan_of(limit, eos_id=eos_id))


def alone(module, source, limit=20, eos_id=59):
    ids = IDS | {"eos_id": eos_id}
    ((hypothesis,),) = decode(module.start(source), n_rows=1, **ids, options=DecodeOptions(max_length=limit))
    return hypothesis


def join_all(walkers, walks):
    for walk in walks:
        assert walkers.takes(walk)
        walkers.join(walk, time.monotonic() + LATER)


@contextmanager
def called_back(walkers):
    """A thread that steps as long as the block lasts."""
    thread = threading.Thread(target=walkers.run)
    thread.start()
    yield
    walkers.call_back()
    thread.join(20)


@contextmanager
def running(walkers):
    """A thread that steps, and one that keeps what is over."""
    over = []

    def collect():
        while walkers.wait():
            over.extend(walkers.collect().walks)

    threads = [threading.Thread(target=walkers.run), threading.Thread(target=collect)]
    for thread in threads:
        thread.start()
    try:
        yield over
    finally:
        walkers.call_back(for_good=True)
        for thread in threads:
            thread.join(20)
        walkers.free()


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nobody came to an end"
        time.sleep(0.001)


@torch.inference_mode()
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("options", [{}, {"output_bias": True, "positions": "learned", "n_positions": 64}])
def test_those_who_join_come_to_what_they_come_to_alone(precision, options):
    module = model(precision, **options)
    eos_id = alone(module, sources()[3], 30).tokens[8]  # a token that does come
    asked = [(one, *end) for one in sources() for end in ((12, eos_id), (1, 59), (30, 59))]
    first = walk_of(module, sources()[0])
    walkers = Walkers.of(first, threads=2, few=1, many=4)
    with running(walkers) as over:
        walks = []
        for source, limit, end in asked:
            walks.append(walk_of(module, source, limit, end))
            before = time.monotonic()
            assert walkers.takes(walks[-1])
            walkers.join(walks[-1], before + LATER)
        wait_for(lambda: len(over) == len(walks))
    assert {walk for walk, _ in over} == set(walks)
    assert all(before - 60 < first_token <= time.monotonic() for _, first_token in over)
    for walk, (source, limit, end) in zip(walks, asked, strict=True):
        assert walk.hypothesis() == alone(module, source, limit, end)
    assert {walk.hypothesis().finished for walk in walks} == {True, False}


@torch.inference_mode()
def test_tables_of_positions_may_grow_meanwhile():
    module = model()
    table = module.positions.table
    short, long = (walk_of(module, sources()[1], limit) for limit in (3, 3 * len(table)))
    walkers = Walkers.of(short, threads=1, few=1, many=4)
    with running(walkers) as over:
        join_all(walkers, (short, long))
        wait_for(lambda: len(over) == 2)
    assert len(module.positions.table) > len(table)
    for walk in (short, long):
        assert walk.hypothesis() == alone(module, sources()[1], walk.limit)


@torch.inference_mode()
def test_who_leaves_or_is_late_is_given_back_with_what_it_has():
    module = model()
    late, leaving, other = (walk_of(module, one, 50) for one in sources()[1:4])
    walkers = Walkers.of(late, threads=1, few=1, many=4)
    rows = {}
    for walk, deadline in ((late, -1.0), (leaving, LATER), (other, LATER)):
        assert walkers.takes(walk)
        rows[walk] = walkers.join(walk, time.monotonic() + deadline)
    rows[leaving].leaves = 1
    with running(walkers) as over:
        wait_for(lambda: len(over) == 3)
    assert dict(over)[late] is None, "it had no first token"
    assert (late.over, late.tokens, leaving.over, leaving.tokens) == (False, [], False, [])
    assert other.hypothesis() == alone(module, sources()[3], 50)


@torch.inference_mode()
def test_who_is_called_back_goes_on_otherwise_and_by_itself_again():
    module = model("int8")
    walks = [walk_of(module, one, 2000) for one in sources()[:3]]
    walkers = Walkers.of(walks[0], threads=1, few=1, many=4)
    join_all(walkers, walks)
    with called_back(walkers):
        time.sleep(0.005)
    ended = {walk for walk, _ in walkers.collect().walks}
    back = {walk for walk, _ in walkers.take_back()}
    assert ended == {walk for walk in walks if walk.over}
    assert back == {walk for walk in walks if not walk.over}
    beam = module.start(sources()[3])
    step_together([beam], [torch.tensor([5])], walks=[walk for walk in walks if walk in back])
    with running(walkers) as over:
        join_all(walkers, [walk for walk in walks if not walk.over])
        wait_for(lambda: all(walk.over for walk in walks) or len(over) == 3)
    for walk, one in zip(walks, sources(), strict=False):
        assert walk.hypothesis() == alone(module, one, 2000)


@torch.inference_mode()
def test_who_joins_when_all_are_being_called_back_is_forgotten():
    module = model()
    first, late = (walk_of(module, one, 30) for one in sources()[:2])
    walkers = Walkers.of(first, threads=1, few=1, many=4)
    walkers.call_back()
    walkers.run()
    assert walkers.takes(late)
    row = walkers.join(late, time.monotonic() + LATER)
    assert [walk for walk, _ in walkers.take_back()] == [late]
    with running(walkers) as over:
        assert walkers.takes(first)
        walkers.join(first, time.monotonic() + LATER)
        wait_for(lambda: over)
        assert row.n_written == 0, "its memory is nobody's but the caller's"
    assert [walk for walk, _ in over] == [first]
    while not late.over:
        step_together([], [], walks=[late])
    assert late.hypothesis() == alone(module, sources()[1], 30)


@torch.inference_mode()
def test_many_that_are_over_are_collected_at_once():
    module = model()
    walks = [walk_of(module, sources()[i % 3], 1) for i in range(150)]
    walkers = Walkers.of(walks[0], threads=1, few=1, many=4)
    join_all(walkers, walks)
    with called_back(walkers):
        assert walkers.wait()
        time.sleep(0.1)
    ended = walkers.collect()
    assert (len(ended.walks), ended.n_tokens, walkers.take_back()) == (150, 150, [])
    walkers.free()


@torch.inference_mode()
def test_walks_of_another_model_are_not_taken():
    ours, others = model(), model("int8")
    walkers = Walkers.of(walk_of(ours, sources()[0]), threads=1, few=1, many=4)
    assert walkers.takes(walk_of(ours, sources()[1]))
    assert not walkers.takes(walk_of(others, sources()[1]))
    wrong = walk_of(ours, sources()[1], eos_id=60)
    assert not walkers.takes(wrong), "its end mark is none"
    assert wrong.over
    assert wrong.problem is not None
    walkers.free()
