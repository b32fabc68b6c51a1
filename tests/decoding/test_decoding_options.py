"""Options are checked when they are made, and the messages say what was given and what is allowed."""

import dataclasses
import math
from typing import Any

import pytest

from regard.decoding import DecodeOptions
from regard.errors import ConfigError

BEAM: dict[str, Any] = {"strategy": "beam", "beam": 4}
SAMPLE: dict[str, Any] = {"strategy": "sample"}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"strategy": "viterbi"}, "decode.strategy is 'viterbi'; allowed: greedy, beam, sample"),
    ({"length_rule": "log"}, "decode.length_rule is 'log'; allowed: power, gnmt"),
    ({**BEAM, "beam": 0}, "decode.beam is 0, at least 1"),
    ({**BEAM, "beam": 2.5}, "decode.beam is 2.5; allowed: a whole number"),
    ({**BEAM, "beam": True}, "decode.beam is True; allowed: a whole number"),
    ({**BEAM, "n_best": 5}, "decode.n_best is 5 and beam is 4; allowed is n_best up to the beam's width"),
    ({**BEAM, "groups": 3}, "decode.groups is 3 and beam is 4; allowed are groups that divide the beam"),
    ({**BEAM, "diversity": 0.5}, "decode.diversity is 0.5 with one group; allowed with two groups or more"),
    ({**BEAM, "diversity": -1.0, "groups": 2}, "decode.diversity is -1.0, at least 0"),
    ({**BEAM, "patience": 0.5}, "decode.patience is 0.5, at least 1"),
    ({**BEAM, "coverage_penalty": -0.1}, "decode.coverage_penalty is -0.1, at least 0"),
    ({"length_penalty": math.nan}, "decode.length_penalty is nan; allowed: a finite number"),
    ({"length_penalty": math.inf}, "decode.length_penalty is inf; allowed: a finite number"),
    ({"length_penalty": "1"}, "decode.length_penalty is '1'; allowed: a number"),
    ({**SAMPLE, "temperature": 0.0}, "decode.temperature is 0.0, above 0"),
    ({**SAMPLE, "top_k": -1}, "decode.top_k is -1, at least 0"),
    ({**SAMPLE, "top_p": 0.0}, "decode.top_p is 0.0, above 0 and up to 1"),
    ({**SAMPLE, "top_p": 1.5}, "decode.top_p is 1.5, above 0 and up to 1"),
    ({**SAMPLE, "min_p": 2.0}, "decode.min_p is 2.0, from 0 to 1"),
    ({**SAMPLE, "n_samples": 0}, "decode.n_samples is 0, at least 1"),
    ({"seed": 1.5}, "decode.seed is 1.5; allowed: a whole number"),
    ({"min_length": -1}, "decode.min_length is -1, at least 0"),
    ({"max_length": 0}, "decode.max_length is 0, at least 1"),
    ({"min_length": 8, "max_length": 8}, "decode.min_length is 8 and max_length 8; allowed is a smaller one"),
    ({"max_extra": 3}, "decode.max_extra is 3 without max_ratio; allowed with max_ratio above 0"),
    ({"no_repeat_ngram": -2}, "decode.no_repeat_ngram is -2, at least 0"),
    ({"banned": (4, -1)}, "decode.banned holds -1, at least 0"),
    ({"beam": 4}, "decode.beam=4 is for strategy 'beam', and the strategy is 'greedy'"),
    ({**BEAM, "temperature": 0.7}, "decode.temperature=0.7 is for strategy 'sample', and the strategy is 'beam'"),
    ({**SAMPLE, "groups": 2}, "decode.groups=2 is for strategy 'beam', and the strategy is 'sample'"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[message.split(";")[0] for _, message in WRONG])
def test_wrong_options_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DecodeOptions(**given)
    assert message in str(caught.value)


def test_all_problems_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        DecodeOptions(strategy="sample", top_p=2.0, top_k=-3, max_length=0)
    assert all(name in str(caught.value) for name in ("top_p", "top_k", "max_length"))


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecodeOptions().beam = 3  # type: ignore[misc]


def test_whole_numbers_do_for_numbers() -> None:
    assert DecodeOptions(strategy="beam", beam=2, length_penalty=0, patience=math.inf).length_penalty == 0


def test_limits_follow_the_source() -> None:
    options = DecodeOptions(max_length=20, max_ratio=1.5, max_extra=2)
    assert options.limits([1, 3, 10, 50]) == [4, 7, 17, 20]
    assert DecodeOptions(max_length=20).limits([1, 50]) == [20, 20]


def test_limits_leave_room_for_the_least_length() -> None:
    options = DecodeOptions(max_length=20, max_ratio=0.5, min_length=6)
    assert options.limits([2, 30]) == [7, 15]
