"""How to decode: one frozen record, checked when it is made.

Lengths count what is generated. `min_length` counts tokens before the end mark; `max_length` counts the end mark too,
so it is the number of steps. `max_ratio` and `max_extra` tie the limit to the source: ⌈max_ratio · source⌉ +
max_extra, never above `max_length`. An option that the chosen strategy would ignore is refused rather than ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

from regard.config.settings import Settings, setting, settings_of

Strategy = Literal["greedy", "beam", "sample"]
LengthRule = Literal["power", "gnmt"]

ONLY_FOR: dict[str, Strategy] = {
    **dict.fromkeys(("beam", "n_best", "groups", "diversity", "patience", "coverage_penalty"), "beam"),
    **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "n_samples"), "sample"),
}


@dataclass(frozen=True, kw_only=True)
class DecodeOptions(Settings):
    """Everything that decides which tokens come out, apart from the model and its inputs."""

    section: ClassVar = "decode"

    strategy: Strategy = setting(
        "greedy", "the likeliest token; the best of several hypotheses; or tokens drawn at random"
    )
    beam: int = setting(1, "hypotheses of a beam", ge=1)
    n_best: int = setting(1, "how many of them are returned", ge=1)
    patience: float = setting(
        1.0, "a beam is over once patience · beam hypotheses have ended; inf: once none can win", ge=1, infinite=True
    )
    groups: int = setting(1, "groups of a beam that avoid each other's tokens", ge=1)
    diversity: float = setting(0.0, "how strongly they do (Hamming)", ge=0)
    length_penalty: float = setting(1.0, "α of the length rule: score = log-probability / penalty(length)")
    length_rule: LengthRule = setting("power", "length^α, for which 1 is the average; or ((5 + length) / 6)^α")
    coverage_penalty: float = setting(0.0, "β of the coverage penalty; needs a model that shows its attention", ge=0)
    temperature: float = setting(1.0, "what scores are divided by before one is drawn", gt=0)
    top_k: int = setting(0, "draw among so many of the likeliest; 0: all", ge=0)
    top_p: float = setting(1.0, "draw among the likeliest that make up this share", gt=0, le=1)
    min_p: float = setting(0.0, "draw among those at least this share as likely as the likeliest", ge=0, le=1)
    n_samples: int = setting(1, "how many are drawn for each input", ge=1)
    seed: int = setting(0, "what every draw follows from, with the input itself, the number of the sample and the step")
    min_length: int = setting(0, "least tokens before the end mark", ge=0)
    max_length: int = setting(256, "most tokens, the end mark included", ge=1)
    max_ratio: float = setting(0.0, "most tokens for each one of the source; 0: any", ge=0)
    max_extra: int = setting(0, "tokens beyond max_ratio", ge=0)
    no_repeat_ngram: int = setting(0, "n for which no n-gram may come twice; 0: none", ge=0)
    banned: tuple[int, ...] = setting((), "ids of tokens that may never come", ge=0)

    def contradictions(self) -> Iterator[str]:
        """What the strategy would ignore, and options that do not go together."""
        usual = settings_of(DecodeOptions)  # a task may have a default of its own
        for name, one in settings_of(type(self)).items():
            given, strategy = getattr(self, name), ONLY_FOR.get(name, self.strategy)
            if strategy != self.strategy and given not in (one.default, usual[name].default):
                yield f"decode.{name}={given!r} is for strategy {strategy!r}, and the strategy is {self.strategy!r}"
        if self.n_best > self.beam >= 1 and self.strategy == "beam":
            yield f"decode.n_best is {self.n_best} and beam is {self.beam}; allowed is n_best up to the beam's width"
        if self.beam % max(1, self.groups):
            yield f"decode.groups is {self.groups} and beam is {self.beam}; allowed are groups that divide the beam"
        if self.diversity > 0 and self.groups == 1:
            yield f"decode.diversity is {self.diversity} with one group; allowed with two groups or more"
        if self.min_length >= self.max_length > 0:
            yield f"decode.min_length is {self.min_length} and max_length {self.max_length}; allowed is a smaller one"
        if self.max_extra > 0 and self.max_ratio == 0:
            yield f"decode.max_extra is {self.max_extra} without max_ratio; allowed with max_ratio above 0"

    def varied(self, **changes: Any) -> Self:
        """The same but for some; remembered, because checking all of them takes longer than many a step."""
        varied: Self = _varied(self, tuple(sorted(changes.items())))
        return varied

    def limits(self, source_lengths: Sequence[int]) -> list[int]:
        """The most steps for each row, from the length of its source."""
        limits = [self.max_length] * len(source_lengths)
        if self.max_ratio > 0:
            relative = [math.ceil(length * self.max_ratio) + self.max_extra for length in source_lengths]
            limits = list(map(min, limits, relative))
        return [max(self.min_length + 1, limit) for limit in limits]


@lru_cache(1024)
def _varied(options: Any, changes: tuple[tuple[str, Any], ...]) -> Any:
    return replace(options, **dict(changes))
