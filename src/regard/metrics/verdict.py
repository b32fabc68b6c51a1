"""What stands beside a score: what costs next to nothing, and whether the model was worth its training.

    verdict(metric, figures_of(baselines, "accuracy"), hints=["regard train … train.steps=4000"]).lines()

    accuracy 0.912 beside 0.894 of TF-IDF with logistic regression, 0.188 of always saying HUM
    not clearly better than TF-IDF with logistic regression, which takes seconds: …; try …

A model is better than a baseline only if its whole 95 % interval is; without an interval, if its value is. Below are
checks of a run, each a function from plain numbers to one line for people, or None where all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from regard.errors import UsageError
from regard.metrics.comparing import LESS_IS_BETTER
from regard.metrics.scores import Metric

Judge = Callable[[Sequence[str]], Mapping[str, float]]  # texts, one an example → figures by name
_LESS = LESS_IS_BETTER | {"WER", "CER", "perplexity", "word perplexity", "bits per byte"}
BASELINE = "baseline"  # the signature of a figure that stands beside a model's
_FEWEST_AFTER = 3  # evaluations after the best one before validation is said to get worse
_NOTICEABLE = 0.01  # of the best value: less may be chance
_NAMED = 5


@dataclass(frozen=True)
class Baseline:
    """What a model has to beat: its name as a sentence would say it, its figures, and what was left out to be quick."""

    name: str
    figures: Mapping[str, float]
    note: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A score in its company. `better` says that the model beats every baseline; `advice` is there if it does not."""

    beside: str
    better: bool
    advice: str | None = None
    notes: tuple[str, ...] = field(default=())

    def lines(self) -> list[str]:
        """All of it for people, a line each."""
        return [self.beside, *([] if self.advice is None else [self.advice]), *self.notes]


def figures_of(baselines: Iterable[Baseline], key: str) -> dict[str, float]:
    """One figure of all baselines that have it, by the baseline's name."""
    return {baseline.name: baseline.figures[key] for baseline in baselines if key in baseline.figures}


def verdict(
    model: Metric,
    baselines: Mapping[str, float],
    *,
    less_is_better: bool | None = None,
    hints: Sequence[str] = (),
    notes: Iterable[str | None] = (),
) -> Verdict:
    """Set a model's figure beside the baselines' values of the same figure, the hardest to beat first.

    `hints` are commands or settings to try, as they would be typed; `notes` are said once each, below.
    """
    less = model.name in _LESS if less_is_better is None else less_is_better
    told = tuple(dict.fromkeys(note for note in notes if note))
    if not baselines:
        return Verdict(f"{model.name} {model.value:.{_digits(model, ())}f}", better=True, notes=told)
    ranked = sorted(baselines.items(), key=lambda item: item[1], reverse=not less)
    digits = _digits(model, baselines.values())
    shown = ", ".join(f"{value:.{digits}f} of {name}" for name, value in ranked)
    beside = f"{model.name} {model.value:.{digits}f} beside {shown}"
    name, value = ranked[0]
    advice = _advice(model, name, value, less=less, digits=digits, hints=hints)
    return Verdict(beside, better=advice is None, advice=advice, notes=told)


def _advice(model: Metric, name: str, value: float, *, less: bool, digits: int, hints: Sequence[str]) -> str | None:
    """What to say of the hardest baseline; nothing if the model is better by more than its interval."""
    sign = -1 if less else 1
    ends = [end for end in (model.low, model.high) if end is not None] or [model.value]
    if min(sign * end for end in (*ends, model.value)) > sign * value:
        return None
    how = "not clearly better than" if sign * model.value > sign * value else "no better than"
    where = ""
    if model.low is not None and model.high is not None:
        inside = model.low <= value <= model.high
        relation = "is inside" if inside else "is beyond"
        where = (
            f" ({value:.{digits}f} {relation} the model's interval, {model.low:.{digits}f} to {model.high:.{digits}f})"
        )
    tried = f"; try {', or '.join(hints)}" if hints else ""
    return f"{how} {name}, which takes seconds{where}{tried}"


def _digits(model: Metric, others: Iterable[float]) -> int:
    """One digit less than the figure has, unless two different values would then read the same."""
    few = max(1, model.digits - 1)
    alike = any(f"{model.value:.{few}f}" == f"{value:.{few}f}" and model.value != value for value in others)
    return model.digits if alike else few


class Once:
    """Says each line once, and nothing for None: `once = Once(say); once(check_warmup(…))`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    def __call__(self, line: str | None) -> None:
        """Say a line, unless it was said."""
        if line is not None and line not in self._said:
            self._said.add(line)
            self._say(line)


def check_warmup(steps: int, warmup: int) -> str | None:
    """Whether training ends before the learning rate has reached its peak."""
    if steps >= warmup:
        return None
    return (
        f"training ends at step {steps:,}, and the learning rate reaches its peak at step {warmup:,} only; "
        f"try train.warmup={max(1, steps // 10)}, or train.steps={10 * warmup}"
    )


def check_class_counts(counts: Mapping[str, int], *, least: int = 3) -> str | None:
    """Whether a class has too few examples to be learnt; names the rarest."""
    rare = sorted((count, name) for name, count in counts.items() if count < least)
    if not rare:
        return None
    named = ", ".join(f"{name} ({count})" for count, name in rare[:_NAMED])
    more = f" and {len(rare) - _NAMED:,} more" if len(rare) > _NAMED else ""
    which = "one class has" if len(rare) == 1 else f"{len(rare):,} classes have"
    return f"{which} fewer than {least} training examples: {named}{more}; add some, or leave the class out"


def check_overfitting(
    train: Sequence[float], valid: Sequence[float], *, less_is_better: bool = True, hints: Sequence[str] = ()
) -> str | None:
    """Whether validation got worse while training got better; one figure of each an evaluation, in order."""
    if len(train) != len(valid):
        raise UsageError(f"{len(train)} training figures and {len(valid)} validation figures do not pair up")
    if not valid:
        return None
    sign = 1 if less_is_better else -1
    best = min(range(len(valid)), key=lambda i: sign * valid[i])
    lost, gained = sign * (valid[-1] - valid[best]), sign * (train[best] - train[-1])
    falling = sign * valid[-1] < median(sign * value for value in valid[best:])  # it is getting better again
    if len(valid) - 1 - best < _FEWEST_AFTER or falling or lost <= _NOTICEABLE * abs(valid[best]) or gained <= 0:
        return None
    tried = f"; try {', or '.join(hints)}" if hints else ""
    return (
        f"validation was best at evaluation {best + 1} of {len(valid)} ({valid[best]:.4g}) and has got worse since "
        f"({valid[-1]:.4g}), while training got better ({train[best]:.4g} to {train[-1]:.4g}): "
        f"the model learns its examples by heart{tried}"
    )
