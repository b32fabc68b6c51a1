"""How good a model is on a test set, by one function a task: training writes it down, `evaluate` and `compare` ask it.

scores = score_labels(labeller, examples)       in the task's metrics.py
scores.metrics()                                all figures, each with how it was computed
scores.figures(drawn)                           those that models are compared by, of examples drawn
measure(sets, score, say=say)                   what run.json says about every test set
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from regard.metrics.comparing import Compared, Figures, paired
from regard.metrics.scores import Metric
from regard.metrics.verdict import BASELINE, Baseline, Once, figures_of, verdict

Examples = TypeVar("Examples")
Metrics = Mapping[str, Metric]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Scores:
    """What a model made of `n` of what `unit` names. Intervals are drawn when `metrics` is asked.

    `outputs` is what the model said, a line each, if it says something. `signatures` of figures are those that
    are not the draws'; `block` neighbours are drawn together; `digits` are shown after the point. Of the `n`
    only `n_drawn` may have figures, where some could not be asked.
    """

    n: int
    unit: str
    metrics: Callable[[], dict[str, Metric]]
    figures: Figures
    outputs: list[str] = field(default_factory=list)
    signatures: Callable[[], Mapping[str, str]] = dict
    block: int = 1
    digits: int = 4
    n_drawn: int | None = None


def compared(name: str, a: Scores, b: Scores, *, resamples: int, seed: int) -> Compared:
    """Model b against model a on the same test set, by paired bootstrap."""
    systems, n = (a.figures, b.figures), a.n if a.n_drawn is None else a.n_drawn
    comparisons = paired(systems, n, resamples=resamples, seed=seed, block=a.block, signatures=a.signatures())
    return Compared(name, n, a.unit, comparisons, digits=a.digits)


@dataclass(frozen=True)
class Beside(Generic[Examples]):
    """What costs next to nothing, to stand beside a model: the baselines of a test set, and the figure to judge by.

    `hints` are what to try where the model is no better, as one would type it.
    """

    figure: str
    baselines: Callable[[str, Examples], Sequence[Baseline]]
    hints: Sequence[str] = ()


def measure(
    sets: Mapping[str, Examples],
    score: Callable[[Examples], Scores],
    *,
    say: Say,
    lines: Callable[[Metrics], Iterable[str]] | None = None,
    beside: Beside[Examples] | None = None,
) -> dict[str, dict[str, Any]]:
    """Figures of a trained model: test set → metric → its value and how it was computed; `lines` are what is said."""
    measured, once = {}, Once(say)
    for name, examples in sets.items():
        metrics = score(examples).metrics()
        for line in [one_line(metrics)] if lines is None else lines(metrics):
            say(f"{name}: {line}")
        measured[name] = {key: metric.record() for key, metric in metrics.items()}
        if beside is not None and (found := beside.baselines(name, examples)):
            simple = figures_of(found, beside.figure)
            told = verdict(metrics[beside.figure], simple, hints=beside.hints, notes=[one.note for one in found])
            for line in filter(None, (told.beside, told.advice)):
                say(f"{name}: {line}")
            for note in told.notes:
                once(note)
            measured[name] |= {
                f"{label} {beside.figure}": {"value": value, "signature": BASELINE} for label, value in simple.items()
            }
    return measured


def one_line(metrics: Metrics, only: Sequence[str] | None = None) -> str:
    """All metrics, or some of them, as one line for people."""
    shown = metrics.values() if only is None else [metrics[key] for key in only]
    return "  ".join(f"{metric.name} {metric.value:.{metric.digits}f}" for metric in shown)
