"""Which curves tell how runs were trained: loss, the figures of their evaluations, and the learning rate.

    picture = curves_of([summarise("runs/a"), summarise("runs/b")])     panels for `draw_curves`, and what is left out

Figures that say the same twice (a loss with its sign turned) are not drawn. The one that counts comes first; a run's
best point is the evaluation whose weights it kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from regard.inspection.plots.curves import Curve, CurvePanel
from regard.metrics.figure_names import figure, is_mirrored
from regard.tasks.facts.summary import RunSummary
from regard.tasks.facts.uses import main_figure, use_of

_LOSSES = ("valid_nll", "valid_loss")
_MOST = 3  # figures of evaluations


class Curves(NamedTuple):
    """Panels to draw, figures that had no room, and runs that have reported nothing."""

    panels: list[CurvePanel]
    left_out: list[str]
    silent: list[RunSummary]


def curves_of(runs: Sequence[RunSummary]) -> Curves:
    """The panels of one run, or of several in one picture."""
    named = {name: run for name, run in zip(_names(runs), runs, strict=True) if run.history}
    figures = _figures(named.values())
    panels = [*_losses(named), *(_panel(named, name) for name in figures[:_MOST])]
    panels.append(CurvePanel("learning rate", list(_courses(named, "lr"))))
    silent = [run for run in runs if not run.history]
    return Curves([panel for panel in panels if panel.curves], figures[_MOST:], silent)


def _losses(named: Mapping[str, RunSummary]) -> Iterator[CurvePanel]:
    """Training and validation in one panel where there is one run, else in one each."""
    unit = _unit(named.values())
    training, validation = list(_training_loss(named)), list(_validation_loss(named))
    if len(named) == 1 and validation:
        labelled = [replace(curve, label="training") for curve in training]
        labelled += [replace(curve, label="validation") for curve in validation]
        yield CurvePanel(f"loss{unit}", labelled, loss=True)
    else:
        yield CurvePanel(f"training loss{unit}", training, loss=True)
        yield CurvePanel(f"validation loss{unit}", validation, loss=True)


def _training_loss(named: Mapping[str, RunSummary]) -> Iterator[Curve]:
    """The loss without smoothing and other extras, which is what the validation's can be compared with."""
    for name, run in named.items():
        course = run.history.training.get("nll") or run.history.training.get("loss")
        if course:
            yield Curve(name, list(course), list(course.values()), noisy=True)


def _validation_loss(named: Mapping[str, RunSummary]) -> Iterator[Curve]:
    for name, run in named.items():
        course = next((run.history.validation[loss] for loss in _LOSSES if loss in run.history.validation), None)
        if course:
            yield Curve(name, list(course), list(course.values()), dots=True)


def _panel(named: Mapping[str, RunSummary], name: str) -> CurvePanel:
    curves = []
    for run_name, run in named.items():
        course = run.history.validation.get(name)
        if course:
            best = _best(run, name, course)
            curves.append(Curve(run_name, list(course), list(course.values()), best, dots=True))
    return CurvePanel(figure(name).axis, curves, loss=figure(name).less_is_better)


def _courses(named: Mapping[str, RunSummary], name: str) -> Iterator[Curve]:
    for run_name, run in named.items():
        if course := run.history.training.get(name):
            yield Curve(run_name, list(course), list(course.values()))


def _best(run: RunSummary, name: str, course: Mapping[int, float]) -> int | None:
    """The step to mark in the panel of the figure that counts: the one whose weights were kept."""
    if name != _main(run):
        return None
    choose = min if figure(name).less_is_better else max
    return run.training.best if run.training.best in course else choose(course, key=course.__getitem__)


def _main(run: RunSummary) -> str | None:
    """The figure that decided which weights were kept, where its values tell; else the one that counts."""
    shown = {name: course for name, course in run.history.validation.items() if _is_shown(name)}
    counts = main_figure(run.task, shown, objective=run.objective)
    step, score = run.training.best, run.training.best_score
    if step is None or score is None:
        return counts
    deciding = [
        name
        for name, course in shown.items()
        if math.isclose(abs(course.get(step, math.inf)), abs(score), rel_tol=1e-6)
    ]
    return counts if counts in deciding or not deciding else deciding[0]


def _figures(runs: Iterable[RunSummary]) -> list[str]:
    """Figures of evaluations: those that count first."""
    runs = list(runs)
    first = [name for run in runs if (name := _main(run)) is not None]
    rest = [name for run in runs for name in run.history.validation if _is_shown(name)]
    return list(dict.fromkeys([*first, *rest]))


def _is_shown(name: str) -> bool:
    return name not in _LOSSES and not is_mirrored(name)


def _unit(runs: Iterable[RunSummary]) -> str:
    """What the losses are measured in, if it is the same for all."""
    units = {use_of(run.task).loss for run in runs}
    return f" ({units.pop()})" if len(units) == 1 and "" not in units else ""


def _names(runs: Sequence[RunSummary]) -> list[str]:
    """What each run is called: as much of the end of its path as no other run shares."""
    parts = [Path(run.path).resolve().parts for run in runs]
    length = 1
    while len({part[-length:] for part in parts}) < len({*parts}) and length < max(map(len, parts)):
        length += 1
    return ["/".join(part[-length:]) for part in parts]
