"""Beam search against brute force, against a search written plainly, and against numbers worked by hand."""

import math
from typing import Any

import pytest
import torch

from regard.decoding import DecodeOptions, Hypothesis, decode, force_decode
from regard.decoding.ranking import Ranking
from regard.errors import RegardError, UsageError
from stub_steppers import (
    BOS,
    EOS,
    PAD,
    HistoryStepper,
    MarkovStepper,
    every_sequence,
    next_log_probs,
    penalty,
    plain_beam_search,
)

IDS: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
RULES = [("power", 0.0), ("power", 1.0), ("power", 1.7), ("power", -0.5), ("gnmt", 0.6), ("gnmt", 2.0)]


def run(sources: list[int], options: DecodeOptions, *, n_tokens: int = 12, **more: Any) -> list[list[Hypothesis]]:
    stepper = HistoryStepper(sources, n_tokens=n_tokens)
    return decode(stepper, n_rows=len(sources), options=options, **{**IDS, **more})


def beam(width: int, **more: Any) -> DecodeOptions:
    return DecodeOptions(**{"strategy": "beam", "beam": width, "max_length": 20, **more})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("rule", "alpha"), RULES)
def test_a_wide_beam_is_brute_force(rule: Any, alpha: float, seed: int) -> None:
    tables = 2 * torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(seed))
    options = beam(110, n_best=5, patience=math.inf, max_length=4, length_rule=rule, length_penalty=alpha)
    found = decode(MarkovStepper(tables), n_rows=2, options=options, **IDS)
    for row in range(2):
        given = next_log_probs(lambda row=row: MarkovStepper(tables[row : row + 1]))  # type: ignore[misc]
        ended = [
            (tokens, total / penalty(len(tokens) + 1, rule, alpha))
            for tokens, total, end in every_sequence(given, 4)
            if end
        ]
        best = sorted(ended, key=lambda one: -one[1])[:5]
        assert [tuple(one.tokens) for one in found[row]] == [tokens for tokens, _ in best]
        assert [one.score for one in found[row]] == pytest.approx([score for _, score in best], abs=1e-5)


def test_the_beam_returns_everything_there_is() -> None:
    tables = torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(0))
    found = decode(
        MarkovStepper(tables), n_rows=1, options=beam(30, n_best=30, max_length=3, length_penalty=0.0), **IDS
    )
    everything = list(every_sequence(next_log_probs(lambda: MarkovStepper(tables)), 3))
    assert len(found[0]) == len(everything) == 15
    assert {(tuple(one.tokens), one.finished) for one in found[0]} == {(tokens, end) for tokens, _, end in everything}
    assert sum(math.exp(one.log_prob) for one in found[0]) == pytest.approx(1.0, abs=1e-5)
    assert [one.finished for one in found[0]] == [True] * 7 + [False] * 8


@pytest.mark.parametrize("patience", [1.0, 2.0, math.inf])
@pytest.mark.parametrize(("rule", "alpha"), RULES)
def test_a_narrow_beam_agrees_with_a_plain_search(rule: Any, alpha: float, patience: float) -> None:
    for width in (1, 2, 3, 5):
        options = beam(width, n_best=width, patience=patience, max_length=9, length_rule=rule, length_penalty=alpha)
        found = run(list(range(5)), options)
        for row in range(5):
            plain = plain_beam_search(
                next_log_probs(lambda row=row: HistoryStepper([row])),  # type: ignore[misc]
                width=width,
                n_best=width,
                max_length=9,
                rule=rule,
                alpha=alpha,
                patience=patience,
            )
            assert [(tuple(one.tokens), one.finished) for one in found[row]] == [
                (tokens, end) for tokens, _, end in plain
            ]
            assert [one.score for one in found[row]] == pytest.approx([score for _, score, _ in plain], abs=1e-5)


@pytest.mark.parametrize(("rule", "alpha"), RULES)
def test_beam_one_is_greedy(rule: Any, alpha: float) -> None:
    sources = list(range(12))
    narrow = run(sources, beam(1, length_rule=rule, length_penalty=alpha))
    greedy = run(sources, DecodeOptions(max_length=20, length_rule=rule, length_penalty=alpha))
    for [one], [other] in zip(narrow, greedy, strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize(
    "more", [{}, {"groups": 2, "diversity": 0.8}, {"min_length": 3, "no_repeat_ngram": 2}, {"banned": (5,)}]
)
def test_reported_log_probabilities_are_the_models(more: dict[str, Any]) -> None:
    found = run([0, 1, 2, 3], beam(4, n_best=4, **more))
    for row, hypotheses in enumerate(found):
        assert len(hypotheses) == 4
        for one in hypotheses:
            eos = EOS if one.finished else None
            [terms] = force_decode(HistoryStepper([row]), [one.tokens], bos_id=BOS, eos_id=eos, pad_id=PAD)
            assert one.token_log_probs == pytest.approx(terms, abs=1e-5)
            assert one.log_prob == pytest.approx(sum(terms), abs=1e-4)
            assert one.score == pytest.approx(one.log_prob / len(terms), abs=1e-5)


def test_a_beam_sees_past_the_first_word() -> None:
    """Greedy takes 3 (.5); 4 (.4) leads to a sure end, and is better as a whole."""
    table = torch.full((1, 6, 6), -30.0)
    table[0, BOS, 3], table[0, BOS, 4], table[0, BOS, 5] = math.log(0.5), math.log(0.4), math.log(0.1)
    table[0, 3, 3], table[0, 3, 4], table[0, 3, EOS] = math.log(0.3), math.log(0.3), math.log(0.4)
    table[0, 4, EOS] = 0.0
    [[greedy]] = decode(MarkovStepper(table), n_rows=1, options=DecodeOptions(), **IDS)
    [[best, second]] = decode(MarkovStepper(table), n_rows=1, options=beam(2, n_best=2), **IDS)
    assert (greedy.tokens, best.tokens, second.tokens) == ([3], [4], [3])
    assert best.log_prob == pytest.approx(math.log(0.4), abs=1e-4)
    assert second.log_prob == pytest.approx(math.log(0.2), abs=1e-4)


def test_filters_hold_for_every_hypothesis() -> None:
    found = run(list(range(6)), beam(3, n_best=3, min_length=5, no_repeat_ngram=1, banned=(3, 4)))
    for one in (one for row in found for one in row):
        assert len(one.tokens) >= 5
        assert len(set(one.tokens)) == len(one.tokens)
        assert not {3, 4} & set(one.tokens)


def test_prefixes_begin_every_hypothesis() -> None:
    prefixes = [[5, 6], [], [7, 8, 9]]
    found = run([0, 1, 2], beam(3, n_best=3), prefixes=prefixes)
    for row, prefix in zip(found, prefixes, strict=True):
        assert len(row) == 3
        assert len({tuple(one.tokens) for one in row}) == 3
        assert all(one.tokens[: len(prefix)] == prefix for one in row)
    assert found[1] == run([0, 1, 2], beam(3, n_best=3))[1]


def test_the_limit_cuts_each_row_at_its_own() -> None:
    options = beam(3, n_best=3, min_length=3)
    found = run([0, 1, 2], options, max_lengths=[4, 8, 20])
    for row, limit in enumerate((4, 8, 20)):
        assert max(len(one.token_log_probs) for one in found[row]) <= limit
        assert found[row] == run([row], beam(3, n_best=3, min_length=3, max_length=limit))[0]


def test_ended_hypotheses_come_before_cut_ones() -> None:
    found = run(list(range(20)), beam(4, n_best=4, max_length=3))
    flags = [[one.finished for one in row] for row in found]
    assert any(True in row and False in row for row in flags)
    assert all(row == sorted(row, reverse=True) for row in flags)
    for row in found:
        for kind in (True, False):
            scores = [one.score for one in row if one.finished is kind]
            assert scores == sorted(scores, reverse=True)


def test_patience_searches_on() -> None:
    sources = list(range(30))
    hasty, patient = (run(sources, beam(3, patience=patience)) for patience in (1.0, math.inf))
    gains = [after[0].score - before[0].score for before, after in zip(hasty, patient, strict=True)]
    assert min(gains) >= -1e-6
    assert max(gains) > 0.01


def test_the_bound_ends_a_search_that_is_decided() -> None:
    """A sure end at once, and no length to gain: nothing can catch up, however patient the search."""
    table = torch.full((1, 5, 5), -5.0)
    table[0, BOS, EOS] = 5.0
    stepper = MarkovStepper(table)
    decode(stepper, n_rows=1, options=beam(2, patience=math.inf, length_penalty=0.0), **IDS)
    assert len(stepper.steps) == 1


def test_groups_without_diversity_repeat_the_first() -> None:
    together = run([0, 1, 2], beam(4, n_best=4, groups=2))
    single = run([0, 1, 2], beam(2, n_best=2))
    for both, one in zip(together, single, strict=True):
        assert sorted(tuple(each.tokens) for each in both) == sorted(tuple(each.tokens) for each in one * 2)


def test_diversity_worked_by_hand() -> None:
    """Group 1 takes 3 (.6). Group 2 takes 3 again unless that costs more than log .6 − log .3 = .69."""
    table = torch.full((1, 6, 6), -30.0)
    table[0, BOS, 3], table[0, BOS, 4], table[0, BOS, 5] = math.log(0.6), math.log(0.3), math.log(0.1)
    table[0, :, EOS] = torch.where(torch.arange(6) == BOS, -30.0, 0.0)
    for diversity, expected in ((0.6, [[3], [3]]), (0.8, [[3], [4]])):
        options = beam(2, n_best=2, groups=2, diversity=diversity, length_penalty=0.0)
        [found] = decode(MarkovStepper(table), n_rows=1, options=options, **IDS)
        assert [one.tokens for one in found] == expected
        assert found[1].log_prob == pytest.approx(math.log(0.6 if diversity < 0.69 else 0.3), abs=1e-4)


def test_the_cost_adds_up_over_groups() -> None:
    """3 costs the second group .5 (−.51 − .5 > −1.20) and the third 1 (−.51 − 1 < −1.20)."""
    table = torch.full((1, 6, 6), -30.0)
    table[0, BOS, 3], table[0, BOS, 4], table[0, BOS, 5] = math.log(0.6), math.log(0.3), math.log(0.1)
    table[0, :, EOS] = torch.where(torch.arange(6) == BOS, -30.0, 0.0)
    options = beam(3, n_best=3, groups=3, diversity=0.5, length_penalty=0.0)
    [found] = decode(MarkovStepper(table), n_rows=1, options=options, **IDS)
    assert [one.tokens for one in found] == [[3], [3], [4]]


@pytest.mark.parametrize("patience", [1.0, 1.5, math.inf])
@pytest.mark.parametrize(("width", "groups"), [(1, 3), (2, 2), (3, 2), (2, 4)])
def test_diverse_beams_agree_with_a_plain_search(width: int, groups: int, patience: float) -> None:
    n = width * groups
    options = beam(n, n_best=n, groups=groups, diversity=0.9, patience=patience, max_length=8)
    for row, found in enumerate(run(list(range(8)), options)):
        plain = plain_beam_search(
            next_log_probs(lambda row=row: HistoryStepper([row])),  # type: ignore[misc]
            width=width,
            n_best=n,
            max_length=8,
            patience=patience,
            groups=groups,
            diversity=0.9,
        )
        assert [one.score for one in found] == pytest.approx([score for _, score, _ in plain], abs=1e-5)
        assert sorted(tuple(one.tokens) for one in found) == sorted(tokens for tokens, _, _ in plain)


def attention_of(source: int, tokens: list[int], finished: bool) -> torch.Tensor:
    stepper = HistoryStepper([source])
    fed = [BOS, *tokens] if finished else [BOS, *tokens[:-1]]
    total = torch.zeros(5)
    for token in fed:
        stepper.step(torch.tensor([token]))
        total += stepper.attention()[0]
    return total


def test_coverage_enters_the_score() -> None:
    options = beam(4, n_best=4, coverage_penalty=0.7, max_length=6)
    for row, hypotheses in enumerate(run(list(range(6)), options)):
        assert [one.score for one in hypotheses if one.finished] == sorted(
            (one.score for one in hypotheses if one.finished), reverse=True
        )
        for one in hypotheses:
            term = Ranking(beta=0.7).coverage(attention_of(row, one.tokens, one.finished)).item()
            assert term < 0
            assert one.score == pytest.approx(one.log_prob / len(one.token_log_probs) + term, abs=1e-4)


def test_coverage_needs_attention() -> None:
    with pytest.raises(
        UsageError, match="coverage_penalty needs the attention of each step, and MarkovStepper offers none"
    ) as caught:
        decode(MarkovStepper(torch.zeros(1, 4, 4)), n_rows=1, options=beam(2, coverage_penalty=0.1), **IDS)
    assert "set coverage_penalty to 0" in str(caught.value.hint)


def test_impossible_tokens_never_come() -> None:
    table = torch.full((1, 5, 5), -math.inf)
    table[0, BOS, 3], table[0, BOS, 4] = 0.0, 1.0
    table[0, 3:, EOS] = 0.0
    [found] = decode(MarkovStepper(table), n_rows=1, options=beam(4, n_best=4), **IDS)
    assert [one.tokens for one in found] == [[4], [3]]  # two sequences are all there are


def test_a_vocabulary_smaller_than_the_beam() -> None:
    [found] = run([3], beam(8, n_best=8, max_length=4), n_tokens=3)
    assert len({tuple(one.tokens) for one in found}) == 8


def test_logits_that_are_not_numbers_are_reported() -> None:
    table = torch.zeros(2, 5, 5)
    table[1, 3] = math.nan
    with pytest.raises(RegardError, match="NaN"):
        decode(MarkovStepper(table), n_rows=2, options=beam(3, n_best=2, min_length=4), **IDS)
