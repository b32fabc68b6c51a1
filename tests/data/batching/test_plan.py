"""Batches: each example once, under budget, little padding, the same again, and resumable anywhere."""

import gzip
import os
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.plan import BatchPlan, Indices, Position, example_plan, pad
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import UsageError

LENGTHS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80)
OPTIONS = st.fixed_dictionaries({"budget_tokens": st.integers(32, 200), "seed": st.integers(0, 2**32)})


def make_plan(lengths: list[tuple[int, int]], options: dict[str, int]) -> BatchPlan:
    return BatchPlan(*zip(*lengths, strict=True), **options)  # type: ignore[arg-type]


def sample_plan(n: int = 500, **options: int) -> BatchPlan:
    random = np.random.default_rng(0)
    source = random.integers(1, 60, n)
    target = np.clip(source + random.integers(-5, 10, n), 1, None)
    return BatchPlan(source, target, **{"budget_tokens": 400, "seed": 3, **options})


def same(one: list[Indices], other: list[Indices]) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@settings(max_examples=150, deadline=None)
@given(lengths=LENGTHS, options=OPTIONS, epoch=st.integers(0, 3))
def test_each_example_once_and_within_the_budget(
    lengths: list[tuple[int, int]], options: dict[str, int], epoch: int
) -> None:
    plan = make_plan(lengths, options)
    batches = plan.epoch(epoch)
    assert sorted(index for batch in batches for index in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        longest = max(int(side[batch].max()) for side in (plan.source_lengths, plan.target_lengths))
        assert len(batch) * longest <= options["budget_tokens"]


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS, options=OPTIONS, start=st.integers(0, 60))
def test_resumed_is_uninterrupted(lengths: list[tuple[int, int]], options: dict[str, int], start: int) -> None:
    whole = list(islice(make_plan(lengths, options).iterate(), start + 20))
    position = whole[start - 1][0] if start else Position()
    resumed = list(islice(make_plan(lengths, options).iterate(position), 20))
    assert [after for after, _ in resumed] == [after for after, _ in whole[start:]]
    assert same([batch for _, batch in resumed], [batch for _, batch in whole[start:]])


def test_seed_and_epoch_decide_everything() -> None:
    plan = sample_plan()
    assert same(plan.epoch(1), sample_plan().epoch(1))
    assert not same(plan.epoch(0), plan.epoch(1))
    assert not same(plan.epoch(0), sample_plan(seed=4).epoch(0))
    members = [{frozenset(batch.tolist()) for batch in plan.epoch(epoch)} for epoch in (0, 1)]
    assert members[0] != members[1], "batches must not only change places, but hold other examples"


def test_batches_are_not_in_order_of_length() -> None:
    longest = [
        int(batch_length) for batch_length in (sample_plan().source_lengths[b].max() for b in sample_plan().epoch(0))
    ]
    assert longest != sorted(longest)
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.5


def test_positions_count_batches_and_turn_the_epoch() -> None:
    plan = BatchPlan([4, 4, 4], [4, 4, 4], budget_tokens=4, seed=0)
    assert [after for after, _ in islice(plan.iterate(), 4)] == [
        Position(0, 1),
        Position(0, 2),
        Position(1, 0),
        Position(1, 1),
    ]
    assert next(plan.iterate(Position(0, 3)))[0] == Position(1, 1)
    with pytest.raises(UsageError, match="batch 4 of epoch 0 does not exist, the epoch has 3"):
        next(plan.iterate(Position(0, 4)))


def test_padding_is_counted_by_hand() -> None:
    plan = BatchPlan([2, 4], [3, 3], budget_tokens=8, seed=0)
    assert plan.padding() == pytest.approx(1 - 12 / (2 * 4 + 2 * 3))
    assert BatchPlan([2, 4], [3, 3], budget_tokens=4, seed=0).padding() == 0


def test_random_batches_have_one_size_but_for_the_rest() -> None:
    plan = example_plan(np.ones(23, np.int64), budget_tokens=0, batch_examples=5, seed=1)
    for epoch in range(3):
        batches = plan.epoch(epoch)
        assert sorted(map(len, batches)) == [3, 5, 5, 5, 5]
        assert sorted(np.concatenate(batches).tolist()) == list(range(23))
        assert same(batches, plan.epoch(epoch))
    assert not same(plan.epoch(0), plan.epoch(1))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"budget_tokens": 9}, "example 1 has 10 tokens on its longer side, the budget is 9"),
        ({"budget_tokens": 0}, "the budget is 0"),
        ({"source_lengths": [], "target_lengths": []}, "no examples"),
    ],
)
def test_what_is_refused(options: dict[str, object], says: str) -> None:
    defaults = {"source_lengths": [1, 10], "target_lengths": [2, 3], "budget_tokens": 20, "seed": 0}
    with pytest.raises(UsageError, match=says):
        BatchPlan(**{**defaults, **options})  # type: ignore[arg-type]


def test_pad() -> None:
    ids, lengths = pad([np.array([5, 6, 7], np.uint16), [8], []], 0)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0], [0, 0, 0]]
    assert lengths.tolist() == [3, 1, 0]
    assert ids.dtype == lengths.dtype == torch.int64
    assert pad([[1, 2, 3]], 9, multiple_of=4)[0].tolist() == [[1, 2, 3, 9]]
    assert pad([[1]], 9, length=3)[0].tolist() == [[1, 9, 9]]
    with pytest.raises(UsageError, match="sequences of 3 ids cannot be padded to 2"):
        pad([[1, 2, 3]], 0, length=2)


def test_two_million_pairs_are_planned_in_seconds() -> None:
    random = np.random.default_rng(0)
    source = np.clip(random.lognormal(3, 0.5, 2_000_000).astype(int), 1, 250)
    start = time.perf_counter()
    plan = BatchPlan(source, source, budget_tokens=4096, seed=0)
    batches = plan.epoch(0)
    assert time.perf_counter() - start < 10
    assert sum(map(len, batches)) == 2_000_000


def multi30k(side: str) -> list[str]:
    path = Path(os.environ.get("REGARD_DATA", "no-data-root")) / "multi30k" / f"train.{side}.gz"
    if not path.is_file():
        pytest.skip(f"Multi30k is not here: set REGARD_DATA to a folder with multi30k/train.{side}.gz")
    return gzip.decompress(path.read_bytes()).decode().splitlines()


@pytest.mark.slow
def test_padding_on_multi30k() -> None:
    english, german = multi30k("en"), multi30k("de")
    tokenizer = learn_tokenizer(english + german, size=8000)
    lengths = [[len(ids) + 1 for ids in tokenizer.encode_batch(side)] for side in (english, german)]
    plan = BatchPlan(*lengths, budget_tokens=4096, seed=1)
    assert max(plan.padding(epoch) for epoch in range(2)) < 0.05
