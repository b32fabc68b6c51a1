"""Packed batches: each example once, never over budget, every position owned, the same again, and resumable."""

from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.packing import PackedPlan, pack
from regard.data.batching.plan import Position
from regard.errors import UsageError

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80)
BUDGETS, SEEDS = st.integers(30, 200), st.integers(0, 2**32)


def make_plan(lengths: list[tuple[int, int]], budget: int, seed: int) -> PackedPlan:
    return PackedPlan(*zip(*lengths, strict=True), budget_tokens=budget, seed=seed)  # type: ignore[arg-type]


def listed(plan: PackedPlan, epoch: int) -> list[list[int]]:
    return [batch.tolist() for batch in plan.epoch(epoch)]


@settings(max_examples=150, deadline=None)
@given(lengths=LENGTHS, budget=BUDGETS, seed=SEEDS, epoch=st.integers(0, 3))
def test_each_example_once_and_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    plan = make_plan(lengths, budget, seed)
    batches = plan.epoch(epoch)
    assert sorted(index for batch in batches for index in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) >= 1
        for of_side in (plan.source_lengths, plan.target_lengths):
            assert of_side[batch].sum() <= budget
            ids, packed = pack([np.full(n, 7) for n in of_side[batch]], 0, budget_tokens=budget,
                               max_documents=plan.max_documents, longest=plan.longest)  # fmt: skip
            assert ids.shape == (budget,)
            assert packed.shape == (plan.max_documents,)
            assert int(packed.sum()) == budget  # every position belongs to a document
            assert int(packed.max()) <= plan.longest
            assert packed[: len(batch)].tolist() == of_side[batch].tolist()
            assert int((ids == 7).sum()) == of_side[batch].sum()
    assert 0 <= plan.padding(epoch) < 1


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS, budget=BUDGETS, seed=SEEDS, start=st.integers(0, 60))
def test_resumed_is_uninterrupted(lengths: list[tuple[int, int]], budget: int, seed: int, start: int) -> None:
    def walk(position: Position, n: int) -> list[tuple[Position, list[int]]]:
        return [
            (after, batch.tolist()) for after, batch in islice(make_plan(lengths, budget, seed).iterate(position), n)
        ]

    whole = walk(Position(), start + 20)
    assert walk(whole[start - 1][0] if start else Position(), 20) == whole[start:]


def test_a_batch_is_as_full_as_the_next_example_lets_it() -> None:
    random = np.random.default_rng(0)
    source = random.integers(5, 40, 2000)
    plan = PackedPlan(source, np.clip(source + random.integers(-3, 4, 2000), 1, None), budget_tokens=4096, seed=0)
    epoch = plan.epoch(0)
    for batch, after in pairwise(epoch):
        joined = np.append(batch, after[0])
        assert max(plan.source_lengths[joined].sum(), plan.target_lengths[joined].sum()) > 4096
    assert all(max(plan.source_lengths[b].sum(), plan.target_lengths[b].sum()) <= 4096 for b in epoch)
    assert plan.padding() < 0.1


def test_neither_side_is_ever_over_the_budget_by_one() -> None:
    lengths = np.random.default_rng(1).integers(1, 9, (2, 3000))
    for source, target in (lengths, lengths[::-1]):
        plan = PackedPlan(source, target, budget_tokens=40, seed=0)
        sums = [(int(source[b].sum()), int(target[b].sum())) for b in plan.epoch(0)]
        assert max(max(pair) for pair in sums) == 40


def test_many_short_examples_in_a_row_are_few_enough() -> None:
    lengths = np.array([1] * 400 + [50] * 20)
    plan = PackedPlan(lengths, lengths, budget_tokens=60, seed=0)
    sizes = [len(batch) for batch in plan.epoch(0)]
    assert max(sizes) == plan.max_documents - 2  # room for the filler of 60 positions, at most 50 each
    assert 60 > max(sizes) > 20


def test_orders_differ_by_epoch_and_seed_and_by_nothing_else() -> None:
    lengths = [(3 + i % 5, 4) for i in range(50)]
    plan = make_plan(lengths, 40, 1)
    assert listed(plan, 0) == listed(make_plan(lengths, 40, 1), 0)
    assert listed(plan, 0) != listed(plan, 1)
    assert listed(plan, 0) != listed(make_plan(lengths, 40, 2), 0)


def test_ids_lie_end_to_end_and_the_rest_is_padding() -> None:
    ids, lengths = pack([np.array([5, 6, 7]), np.array([8])], 9, budget_tokens=12, max_documents=6, longest=3)
    assert ids.tolist() == [5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9]
    assert lengths.tolist() == [3, 1, 3, 3, 2, 0]
    assert ids.dtype == lengths.dtype == torch.int64


def test_nothing_packs_to_padding() -> None:
    ids, lengths = pack([], 0, budget_tokens=5, max_documents=3, longest=4)
    assert ids.tolist() == [0] * 5
    assert lengths.tolist() == [4, 1, 0]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="13 tokens do not fit a budget of 12"):
        pack([np.arange(13)], 0, budget_tokens=12, max_documents=2, longest=13)
    with pytest.raises(UsageError, match="example 1 has 9 tokens on its longer side, the budget is 8") as problem:
        PackedPlan([3, 4], [2, 9], budget_tokens=8, seed=0)
    assert problem.value.hint
    with pytest.raises(UsageError, match="no examples"):
        PackedPlan([], [], budget_tokens=8, seed=0)


def test_a_position_of_another_plan_is_refused() -> None:
    with pytest.raises(UsageError, match="batch 99 of epoch 0 does not exist"):
        next(make_plan([(3, 3)] * 9, 30, 0).iterate(Position(0, 99)))
