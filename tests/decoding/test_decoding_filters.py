"""Each filter alone, against numbers worked by hand; then the chain."""

import math

import torch
from torch import Tensor

from regard.decoding.filters import (
    Banned,
    Filters,
    ForcedPrefix,
    MinLength,
    MinP,
    Moment,
    NoRepeat,
    Temperature,
    TopK,
    TopP,
)
from regard.decoding.options import DecodeOptions
from stub_steppers import EOS

CPU = torch.device("cpu")
NO = -math.inf
# probabilities .5 .25 .15 .1, not in order
LOGITS = torch.tensor([[0.15, 0.5, 0.1, 0.25]]).log()


def at(step: int = 0, *, inputs: list[int] | None = None, history: list[list[int]] | None = None) -> Moment:
    rows = torch.tensor(history or [[]], dtype=torch.int64)
    return Moment(step, torch.tensor(inputs or [0]), rows)


def kept(logits: Tensor) -> list[list[int]]:
    return [[token for token, value in enumerate(row) if value > NO] for row in logits.tolist()]


def test_temperature_divides() -> None:
    cooled = Temperature(0.5)(torch.tensor([[1.0, -2.0, 0.0]]), at())
    assert cooled.tolist() == [[2.0, -4.0, 0.0]]


def test_top_k_keeps_the_likeliest_and_their_values() -> None:
    filtered = TopK(2)(LOGITS, at())
    assert kept(filtered) == [[1, 3]]
    assert filtered[0, 1] == LOGITS[0, 1]


def test_top_k_keeps_ties_and_takes_any_k() -> None:
    assert kept(TopK(2)(torch.tensor([[3.0, 1.0, 2.0, 2.0]]), at())) == [[0, 2, 3]]
    assert kept(TopK(9)(LOGITS, at())) == [[0, 1, 2, 3]]


def test_top_p_keeps_the_fewest_that_reach_p() -> None:
    assert kept(TopP(0.4)(LOGITS, at())) == [[1]]
    assert kept(TopP(0.6)(LOGITS, at())) == [[1, 3]]
    assert kept(TopP(0.8)(LOGITS, at())) == [[0, 1, 3]]
    assert kept(TopP(0.95)(LOGITS, at())) == [[0, 1, 2, 3]]


def test_top_p_stops_where_p_is_just_reached() -> None:
    halves = torch.tensor([[1.0, 4.0, 1.0, 2.0]]).log()  # 1/8 1/2 1/8 1/4, which binary numbers hold exactly
    assert kept(TopP(0.5)(halves, at())) == [[1]]
    assert kept(TopP(0.75)(halves, at())) == [[1, 3]]
    assert kept(TopP(0.5 + 1e-4)(halves, at())) == [[1, 3]]


def test_top_p_keeps_ties_with_the_last() -> None:
    tied = torch.tensor([[0.2, 0.4, 0.2, 0.2]]).log()
    assert kept(TopP(0.3)(tied, at())) == [[1]]
    assert kept(TopP(0.5)(tied, at())) == [[0, 1, 2, 3]]
    many = torch.full((1, 5000), -20.0)  # a vocabulary for which the short way is tried
    many[0, [7, 4000]] = 2.0
    many[0, 4999] = 3.0
    assert kept(TopP(0.7)(many, at())) == [[7, 4000, 4999]]


def test_top_p_sees_only_what_is_still_allowed() -> None:
    # without the .5, the others are .5 .3 .2 of what is left
    banned = LOGITS.masked_fill(torch.tensor([[False, True, False, False]]), NO)
    assert kept(TopP(0.45)(banned, at())) == [[3]]
    assert kept(TopP(0.75)(banned, at())) == [[0, 3]]


def test_top_p_is_the_same_by_the_short_way() -> None:
    """Peaked rows find their nucleus among the first thousand; one flat row sends all of them the long way."""
    generator = torch.Generator().manual_seed(0)
    peaked = 4 * torch.randn(6, 6000, generator=generator)
    flat = 0.01 * torch.randn(1, 6000, generator=generator)
    rows = Moment(0, torch.zeros(7, dtype=torch.int64), torch.zeros(7, 0, dtype=torch.int64))
    short, long = TopP(0.9)(peaked, rows), TopP(0.9)(torch.cat([peaked, flat]), rows)
    assert torch.equal(short, long[:6])
    assert 5000 < len(kept(long)[6]) < 6000
    for row, tokens in enumerate(kept(short)):
        probs = peaked[row].double().softmax(-1)
        mass, least = probs[tokens].sum().item(), probs[tokens].min().item()
        assert mass - least < 0.9 + 1e-5
        assert mass > 0.9 - 1e-5


def test_min_p_is_relative_to_the_likeliest() -> None:
    assert kept(MinP(0.49)(LOGITS, at())) == [[1, 3]]
    assert kept(MinP(0.29)(LOGITS, at())) == [[0, 1, 3]]
    assert kept(MinP(0.51)(LOGITS, at())) == [[1]]


def test_min_length_forbids_the_end_until_then() -> None:
    ban = MinLength(2, EOS)
    assert kept(ban(LOGITS, at(1))) == [[0, 2, 3]]
    assert ban(LOGITS, at(2)) is LOGITS


def test_banned_ids_never_come() -> None:
    assert kept(Banned([0, 3], CPU)(LOGITS, at())) == [[1, 2]]


def test_no_bigram_twice() -> None:
    history = [[3, 2, 0, 3], [3, 2, 0, 2]]
    filtered = NoRepeat(2)(LOGITS.expand(2, 4), at(4, inputs=[0, 1], history=history))
    assert kept(filtered) == [[0, 1, 3], [1, 2, 3]]  # after 3 came 2; after 2 came 0


def test_no_trigram_twice() -> None:
    history = [[0, 2, 3, 0, 2], [0, 2, 3, 2, 0]]
    filtered = NoRepeat(3)(LOGITS.expand(2, 4), at(5, inputs=[0, 1], history=history))
    assert kept(filtered) == [[0, 1, 2], [0, 1, 2, 3]]


def test_no_token_twice() -> None:
    assert kept(NoRepeat(1)(LOGITS, at(2, history=[[2, 0]]))) == [[1, 3]]


def test_no_repeat_waits_for_a_whole_gram() -> None:
    assert NoRepeat(3)(LOGITS, at(2, history=[[2, 2]])) is LOGITS


def test_forced_prefix_leaves_one_token_with_its_logit() -> None:
    prefix = ForcedPrefix([[3, 2], []], CPU)
    rows = LOGITS.expand(3, 4)
    filtered = prefix(rows, at(1, inputs=[1, 0, 0]))
    assert kept(filtered) == [[0, 1, 2, 3], [2], [2]]
    assert filtered[1, 2] == LOGITS[0, 2]
    assert prefix(rows, at(2, inputs=[1, 0, 0])) is rows


def test_forced_prefix_comes_even_if_the_model_rules_it_out() -> None:
    assert kept(ForcedPrefix([[0]], CPU)(torch.tensor([[NO, 1.0, 2.0]]), at())) == [[0]]


def chain(options: DecodeOptions, prefixes: list[list[int]] | None = None) -> Filters:
    return Filters(options, eos_id=EOS, device=CPU, prefixes=prefixes)


def test_nothing_to_filter_hands_the_logits_on() -> None:
    assert chain(DecodeOptions())(LOGITS, at()) is LOGITS


def test_the_chain_bans_then_shapes() -> None:
    options = DecodeOptions(strategy="sample", top_k=2, temperature=0.5, min_length=1)
    filtered = chain(options)(LOGITS, at())
    assert kept(filtered) == [[0, 3]]  # the end is banned first, so two others remain
    assert torch.allclose(filtered[0, 3], 2 * LOGITS[0, 3])


def test_no_ban_touches_the_prefix() -> None:
    filters = chain(DecodeOptions(banned=(2,)), [[2], []])
    filtered = filters(LOGITS.expand(2, 4), at(0, inputs=[0, 1]))
    assert kept(filtered) == [[2], [0, 1, 3]]
    assert filtered[0, 2] == LOGITS[0, 2]


def test_a_row_with_nothing_left_may_end() -> None:
    filters = chain(DecodeOptions(banned=(0, 2, 3), min_length=5))
    filtered = filters(LOGITS, at())
    assert kept(filtered) == [[EOS]]
    assert filtered[0, EOS] == LOGITS[0, EOS]


def test_filters_leave_their_input_alone() -> None:
    options = DecodeOptions(
        strategy="sample", top_k=3, top_p=0.9, min_p=0.01, temperature=2.0, min_length=9, banned=(0,), no_repeat_ngram=1
    )
    logits = LOGITS.clone()
    chain(options, [[3, 3, 3]])(logits, at(2, history=[[2, 3]]))
    assert torch.equal(logits, LOGITS)
