"""The options that a call of a model takes, by name and type, for editors and type checkers.

    model("…", beam=5, n_best=3)         the fields of the task's `[decode]` section, each of them optional

At run time the section itself checks them: see `Predictor.options`. A test keeps both equal. What only one task has is
declared beside its predictor.
"""

from __future__ import annotations

from typing import TypedDict

from regard.decoding.options import LengthRule, Strategy


class DecodeSettings(TypedDict, total=False):
    """Of models that write: the fields of `DecodeOptions`."""

    strategy: Strategy
    beam: int
    n_best: int
    patience: float
    groups: int
    diversity: float
    length_penalty: float
    length_rule: LengthRule
    coverage_penalty: float
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    n_samples: int
    seed: int
    min_length: int
    max_length: int
    max_ratio: float
    max_extra: int
    no_repeat_ngram: int
    banned: tuple[int, ...]


class GuessSettings(TypedDict, total=False):
    """Of models that guess: how many of the best guesses are shown."""

    k: int


class NoSettings(TypedDict):
    """Of models that leave no choice."""
