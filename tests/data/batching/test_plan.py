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

from regard.data.batching.plan import BatchPlan, Indices, Position, pad
from regard.data.batching.shapes import choose_shapes
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import UsageError

LENGTHS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80)
OPTIONS = st.fixed_dictionaries(
    {
        "budget_tokens": st.integers(32, 200),
        "seed": st.integers(0, 2**32),
        "max_sentences": st.none() | st.integers(1, 9),
        "multiple_of": st.sampled_from([1, 4, 8]),
        "n_shapes": st.none() | st.integers(1, 5),
    }
)


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
        source, target = plan.padded_shape(batch)
        assert source >= plan.source_lengths[batch].max()
        assert target >= plan.target_lengths[batch].max()
        assert source % options["multiple_of"] == target % options["multiple_of"] == 0
        assert len(batch) * max(source, target) <= options["budget_tokens"]
        assert 1 <= len(batch) <= (options["max_sentences"] or len(lengths))
    assert 0 <= plan.padding(epoch) < 1 or not any(map(any, lengths))


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
    assert BatchPlan([2, 4], [3, 3], budget_tokens=8, seed=0, multiple_of=8).padding() == pytest.approx(1 - 12 / 32)


@pytest.mark.parametrize("n_shapes", [1, 4, 8])
def test_few_shapes(n_shapes: int) -> None:
    plan = sample_plan(3000, n_shapes=n_shapes)
    seen = {(len(batch), *plan.padded_shape(batch)) for epoch in range(3) for batch in plan.epoch(epoch)}
    assert len({shape[1:] for shape in seen}) <= n_shapes
    for epoch in range(3):
        in_epoch = {(len(batch), *plan.padded_shape(batch)) for batch in plan.epoch(epoch)}
        assert len(in_epoch) <= n_shapes + 1
    assert len(sample_plan(3000).epoch(0)) > 8


def test_more_shapes_pad_less() -> None:
    shares = [sample_plan(3000, n_shapes=n).padding() for n in (1, 2, 4, 8)]
    assert shares == sorted(shares, reverse=True)
    assert sample_plan(3000).padding() < shares[-1] < shares[0]


def test_shapes_are_the_cheapest() -> None:
    lengths = np.array([1, 1, 1, 1, 9, 10, 10, 30])
    shapes = choose_shapes(lengths, lengths, n=3, budget=60, multiple_of=1, max_sentences=100)
    assert shapes.source.tolist() == shapes.target.tolist() == [1, 10, 30]
    assert shapes.sentences.tolist() == [60, 6, 2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"budget_tokens": 9}, "example 1 has 10 tokens on its longer side, the budget is 9"),
        ({"budget_tokens": 11, "multiple_of": 4}, "example 1 has 12 tokens"),
        ({"budget_tokens": 0}, "budget_tokens is 0"),
        ({"max_sentences": 0}, "max_sentences is 0"),
        ({"n_shapes": 0}, "n_shapes is 0"),
        ({"source_lengths": [1]}, r"given \(1,\) and \(2,\)"),
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
    assert BatchPlan(*lengths, budget_tokens=4096, seed=1, n_shapes=8).padding() < 0.2
