"""Plain greedy paths that are followed for many at once come to what each would come to alone."""

from __future__ import annotations

import pytest
import torch

from fast_only import needs_fast
from packed_translators import IDS, plan_of
from packed_translators import packed_translator as model
from packed_translators import sentences as sources
from regard.attention import Rows
from regard.decoding import DecodeOptions, decode
from regard.decoding.joint import step_together
from regard.decoding.walks import Walk
from regard.errors import ShapeError, UsageError
from regard.fast.cpu.walking import leave_walks, suits_walks


@needs_fast
@torch.inference_mode()
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_walks_come_to_what_decode_comes_to(precision):
    module = model(precision)
    ((first,),) = decode(module.start(sources()[3]), n_rows=1, **IDS, options=DecodeOptions(max_length=30))
    ids = IDS | {"eos_id": first.tokens[8]}  # a token that does come
    waiting = [
        (Walk.of(module.start(one, capacity=4), plan_of(limit, eos_id=ids["eos_id"])), one, limit)
        for limit, one in zip((12, 1, 7, 30, 12, 3, 20, 12), sources(), strict=True)
    ]
    under_way, over = [], []
    while waiting or under_way:
        under_way += [waiting.pop(0)] if waiting else []  # they join one after another
        step_together([], [], walks=[walk for walk, _, _ in under_way])
        over += [one for one in under_way if one[0].over]
        under_way = [one for one in under_way if not one[0].over]
    for walk, one, limit in over:
        ((alone,),) = decode(module.start(one), n_rows=1, **ids, options=DecodeOptions(max_length=limit))
        assert walk.hypothesis() == alone
    assert {walk.hypothesis().finished for walk, _, _ in over} == {True, False}


@needs_fast
@torch.inference_mode()
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize(
    ("options", "native"),
    [
        ({}, True),
        ({"tied": "none"}, True),
        ({"output_bias": True, "positions": "learned", "n_positions": 64}, True),
        ({"order": "pre"}, False),  # its last norm is PyTorch's
    ],
)
def test_from_token_to_token_in_one_call_or_with_others_in_between(precision, options, native):
    module = model(precision, **options)
    walks = [Walk.of(module.start(one, capacity=4), plan_of(20, eos_id=59)) for one in sources()]
    beam = module.start(sources()[3])
    assert suits_walks(walks) is native
    leave_walks(walks)
    for turn in range(20):
        with_beam = turn in (0, 4, 5, 13)
        step_together([beam] * with_beam, [torch.tensor([5])] * with_beam, walks=[one for one in walks if not one.over])
    for walk, one in zip(walks, sources(), strict=True):
        ((alone,),) = decode(module.start(one), n_rows=1, **IDS | {"eos_id": 59}, options=DecodeOptions(max_length=20))
        assert walk.hypothesis() == alone


@needs_fast
@torch.inference_mode()
def test_what_is_hidden_of_a_source_stays_hidden():
    module, ids = model(), sources()[3]
    hidden = [module.start(Rows(ids, torch.tensor([n])), capacity=30) for n in (7, 30)]
    walks = [Walk.of(one, plan_of(9, eos_id=59)) for one in hidden]
    assert suits_walks(walks)
    for _ in range(9):
        step_together([], [], walks=walks)
    for walk, n in zip(walks, (7, 30), strict=True):
        ((alone,),) = decode(
            module.start(Rows(ids, torch.tensor([n]))),
            n_rows=1, **IDS | {"eos_id": 59}, options=DecodeOptions(max_length=9),
        )  # fmt: skip
        assert walk.hypothesis() == alone
    assert walks[0].log_probs != walks[1].log_probs


@needs_fast
@torch.inference_mode()
def test_who_walks_and_who_steps_share_a_step():
    module = model("int8")
    walk = Walk.of(module.start(sources()[1]), plan_of())
    beam = module.start(sources()[3])
    beam.select(torch.zeros(3, dtype=torch.int64), same_source=False)
    own = module.start(sources()[3])
    own.select(torch.zeros(3, dtype=torch.int64), same_source=False)
    tokens = torch.tensor([5, 6, 7])
    (logits,) = step_together([beam], [tokens], walks=[walk])
    assert torch.equal(logits, own.step(tokens))
    alone = module.start(sources()[1]).step(torch.tensor([2]))
    assert walk.tokens == [int(alone.argmax())]


@needs_fast
@torch.inference_mode()
def test_one_that_has_no_place_left_leaves_the_others_alone():
    module = model(positions="learned", n_positions=12)
    late, early = (Walk.of(module.start(one), plan_of(40, eos_id=59)) for one in sources()[1:3])
    for _ in range(12):
        step_together([], [], walks=[late])
    step_together([], [], walks=[late, early])
    assert isinstance(late.problem, ShapeError)
    assert late.over
    assert (early.over, len(early.tokens)) == (False, 1)


@needs_fast
@torch.inference_mode()
def test_an_end_mark_that_the_model_does_not_know_is_refused():
    walk = Walk.of(model().start(sources()[0]), plan_of(eos_id=60))
    step_together([], [], walks=[walk])
    assert isinstance(walk.problem, UsageError)
    assert "eos_id" in str(walk.problem)


@pytest.mark.parametrize(
    "asked",
    [
        {"strategy": "sample"},
        {"strategy": "beam", "beam": 2},
        {"min_length": 2},
        {"no_repeat_ngram": 2},
        {"banned": (7,)},
        {"prefixes": [[5]]},
        {"n_rows": 2},
    ],
)
def test_what_is_not_plain_does_not_walk(asked):
    stepper = object()
    assert Walk.of(stepper, plan_of()) is not None
    assert Walk.of(stepper, plan_of(**asked)) is None
