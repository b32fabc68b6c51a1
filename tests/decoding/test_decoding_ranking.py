"""Length and coverage penalties against numbers worked by hand, and the bound that ends a search."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.ranking import Ranking, hypothesis
from regard.errors import RegardError


def test_power_with_alpha_one_is_the_average() -> None:
    assert Ranking("power", 1.0).score(-6.0, 4) == -1.5
    assert Ranking("power", 0.5).score(-6.0, 4) == -3.0
    assert Ranking("power", 0.0).score(-6.0, 4) == -6.0


def test_gnmt_penalty() -> None:
    assert Ranking("gnmt", 1.0).penalty(7) == 2.0
    assert Ranking("gnmt", 2.0).score(-6.0, 13) == pytest.approx(-6.0 / 9.0)
    assert Ranking("gnmt", 0.6).penalty(1) == 1.0


def test_nothing_is_left_unnormalised() -> None:
    assert Ranking("power", 1.0).score(0.0, 0) == 0.0


def test_coverage_worked_by_hand() -> None:
    # attended .5, 1.7 (counts as 1), .25 and one position of padding
    term = Ranking(beta=0.2).coverage(torch.tensor([[0.5, 1.7, 0.25, 0.0]]))
    assert term.item() == pytest.approx(0.2 * (math.log(0.5) + math.log(0.25)))


@given(
    total=st.floats(-50, 0),
    more=st.floats(-20, 0),
    now=st.integers(1, 30),
    ahead=st.integers(0, 30),
    room=st.integers(0, 30),
    alpha=st.floats(-2, 2),
    rule=st.sampled_from(["power", "gnmt"]),
)
def test_no_score_beats_the_bound(
    total: float, more: float, now: int, ahead: int, room: int, alpha: float, rule: str
) -> None:
    ranking = Ranking(rule, alpha)  # type: ignore[arg-type]
    at_limit = ranking.penalties(torch.tensor([now + ahead + room]))
    bound = ranking.bound(torch.tensor([total]), now=now, at_limit=at_limit).item()
    score = ranking.score(total + more, now + ahead)
    assert score <= bound + 1e-5 * abs(bound) + 1e-6


def test_the_bound_is_reached() -> None:
    ranking = Ranking("power", 1.0)
    bound = ranking.bound(torch.tensor([-3.0]), now=2, at_limit=ranking.penalties(torch.tensor([6])))
    assert bound.item() == pytest.approx(ranking.score(-3.0, 6))
    short = Ranking("power", -1.0)
    bound = short.bound(torch.tensor([-3.0]), now=2, at_limit=short.penalties(torch.tensor([6])))
    assert bound.item() == pytest.approx(short.score(-3.0, 2))


def test_logits_that_are_not_numbers_are_reported() -> None:
    with pytest.raises(RegardError, match="NaN within the first 2 steps; allowed are numbers and -inf") as caught:
        hypothesis([3, 4], [-1.0, math.nan], score=0.0, finished=False)
    assert "float32" in str(caught.value.hint)
