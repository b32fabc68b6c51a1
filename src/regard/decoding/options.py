"""How to decode: one frozen record, checked when it is made.

Lengths count what is generated. `min_length` counts tokens before the end mark; `max_length` counts the end mark too,
so it is the number of steps. `max_ratio` and `max_extra` tie the limit to the source: ⌈max_ratio · source⌉ +
max_extra, never above `max_length`.

A value of 0 switches `top_k`, `min_p`, `no_repeat_ngram`, `max_ratio` and the penalties off; 1 switches `top_p` and
`temperature` off. An option that the chosen strategy would ignore is refused rather than ignored.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal, get_args

import torch
from torch import Tensor

from regard.errors import ConfigError

Strategy = Literal["greedy", "beam", "sample"]
LengthRule = Literal["power", "gnmt"]

ONLY_FOR: dict[str, Strategy] = {
    "beam": "beam",
    "n_best": "beam",
    "groups": "beam",
    "diversity": "beam",
    "patience": "beam",
    "coverage_penalty": "beam",
    "temperature": "sample",
    "top_k": "sample",
    "top_p": "sample",
    "min_p": "sample",
    "n_samples": "sample",
}

# name → (lowest, highest, lowest itself allowed)
RANGES: dict[str, tuple[float, float, bool]] = {
    "beam": (1, math.inf, True),
    "n_best": (1, math.inf, True),
    "groups": (1, math.inf, True),
    "diversity": (0, math.inf, True),
    "patience": (1, math.inf, True),
    "length_penalty": (-math.inf, math.inf, False),
    "coverage_penalty": (0, math.inf, True),
    "temperature": (0, math.inf, False),
    "top_k": (0, math.inf, True),
    "top_p": (0, 1, False),
    "min_p": (0, 1, True),
    "n_samples": (1, math.inf, True),
    "min_length": (0, math.inf, True),
    "max_length": (1, math.inf, True),
    "max_ratio": (0, math.inf, True),
    "max_extra": (0, math.inf, True),
    "no_repeat_ngram": (0, math.inf, True),
}


@dataclass(frozen=True, kw_only=True)
class DecodeOptions:
    """Everything that decides which tokens come out, apart from the model and its inputs.

    strategy          greedy: the likeliest token; beam: the best of `beam` hypotheses; sample: drawn at random
    beam, n_best      width of the beam, and how many hypotheses to return of it
    patience          a search is over once patience · beam hypotheses have ended; inf: when no live one can win
    groups, diversity the beam split into groups that avoid each other's tokens (Hamming), and how strongly
    length_penalty    α of the length rule: score = log-probability / penalty(length), see `ranking`
    length_rule       power: length^α (α = 1 is the average log-probability); gnmt: ((5 + length) / 6)^α
    coverage_penalty  β of the coverage penalty; needs a stepper that offers attention
    temperature … n_samples   how to sample; `seed` with a row's key and the step decides every draw
    min_length … max_extra    see the module's docstring
    no_repeat_ngram   n for which no n-gram may come twice
    banned            token ids that may never come
    """

    strategy: Strategy = "greedy"
    beam: int = 1
    n_best: int = 1
    patience: float = 1.0
    groups: int = 1
    diversity: float = 0.0
    length_penalty: float = 1.0
    length_rule: LengthRule = "power"
    coverage_penalty: float = 0.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    n_samples: int = 1
    seed: int = 0
    min_length: int = 0
    max_length: int = 256
    max_ratio: float = 0.0
    max_extra: int = 0
    no_repeat_ngram: int = 0
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        problems = [*self._wrong_names(), *self._wrong_values()]
        problems = problems or [*self._ignored(), *self._contradictions()]
        if problems:
            raise ConfigError("; ".join(problems), hint="these are decoding options: strategy, beam, max_length …")

    def limits(self, source_lengths: Tensor) -> Tensor:
        """The most steps for each row, from the length of its source: (B,) → (B,) int64."""
        lengths = torch.full_like(source_lengths, self.max_length, dtype=torch.int64)
        if self.max_ratio > 0:
            relative = torch.ceil(source_lengths.double() * self.max_ratio).long() + self.max_extra
            lengths = torch.minimum(lengths, relative)
        return lengths.clamp(min=self.min_length + 1)

    def _wrong_names(self) -> Iterator[str]:
        for name, given, allowed in (
            ("strategy", self.strategy, get_args(Strategy)),
            ("length_rule", self.length_rule, get_args(LengthRule)),
        ):
            if given not in allowed:
                yield f"{name} is {given!r}; allowed are {', '.join(map(repr, allowed))}"

    def _wrong_values(self) -> Iterator[str]:
        whole = {field.name for field in fields(self) if field.type is int}
        for name, (low, high, closed) in RANGES.items():
            given = getattr(self, name)
            if not isinstance(given, int if name in whole else int | float) or isinstance(given, bool):
                yield f"{name} is {given!r}; allowed is {'a whole number' if name in whole else 'a number'}"
            elif not (low <= given <= high if closed else low < given <= high):
                yield f"{name} is {given!r}; allowed is a number {_range_in_words(low, high, closed)}"
            elif math.isinf(given) and name != "patience":
                yield f"{name} is {given!r}; allowed is a number that is finite"
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            yield f"seed is {self.seed!r}; allowed is a whole number"
        wrong = [token for token in self.banned if not isinstance(token, int) or token < 0]
        if wrong:
            yield f"banned holds {wrong[0]!r}; allowed are token ids, whole numbers from 0"

    def _ignored(self) -> Iterator[str]:
        usual = {field.name: field.default for field in fields(DecodeOptions)}  # where a task has a default of its own
        for field in fields(self):
            given, strategy = getattr(self, field.name), ONLY_FOR.get(field.name, self.strategy)
            if strategy != self.strategy and given not in (field.default, usual.get(field.name)):
                yield f"{field.name}={given!r} is for strategy {strategy!r}, and the strategy is {self.strategy!r}"

    def _contradictions(self) -> Iterator[str]:
        if self.n_best > self.beam:
            yield f"n_best is {self.n_best} and beam is {self.beam}; allowed is n_best up to the beam's width"
        if self.beam % self.groups:
            yield f"groups is {self.groups} and beam is {self.beam}; allowed are groups that divide the beam"
        if self.diversity > 0 and self.groups == 1:
            yield f"diversity is {self.diversity} with one group; allowed with two groups or more"
        if self.min_length >= self.max_length:
            yield f"min_length is {self.min_length} and max_length {self.max_length}; allowed is a smaller min_length"
        if self.max_extra > 0 and self.max_ratio == 0:
            yield f"max_extra is {self.max_extra} without max_ratio; allowed with max_ratio above 0"


def _range_in_words(low: float, high: float, closed: bool) -> str:
    if low == -math.inf:
        return "that is finite"
    start = f"from {low:g}" if closed else f"above {low:g}"
    return start if high == math.inf else f"{start} to {high:g}"
