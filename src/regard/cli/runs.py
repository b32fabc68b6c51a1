"""`regard runs`: the runs below a folder, a line each."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import Json
from regard.cli.console import put, say
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.cli.text.layout import Column
    from regard.tasks.facts.summary import RunSummary

USUAL = Path("runs")
_DAY = 86400  # seconds
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def runs(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder to look in; else runs.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the runs below a folder, newest first: what each is, how far it came, and its figure that counts."""
    from regard.cli.text.layout import table, terminal_width
    from regard.tasks.facts.run_list import list_runs

    where = folder or USUAL
    if folder is not None and not folder.is_dir():
        what = "not a folder" if folder.exists() else "there is no such folder"
        raise UsageError(f"{folder}: {what}", hint="give the folder that your runs are in, such as runs")
    found = list_runs(where)
    for problem in found.problems:
        say(f"left out: {problem}")
    if not found.runs:
        say(f"{where}: there is no run in it; make one: regard train translation/dates --out {where / 'dates'}")
    elif as_json:
        for run in found.runs:
            put(json.dumps(run.record(), ensure_ascii=False))
    else:
        for line in table(_columns(found.runs, where), width=terminal_width()):
            put(line)


def _columns(found: Sequence[RunSummary], where: Path) -> list[Column]:
    """What a run is called, its figure and its state stay; the rest goes where there is no room."""
    from regard.cli.text.layout import Column
    from regard.config.wording import duration, short_count

    counts = [run.model.parameters for run in found]
    seconds = [run.training.seconds for run in found]
    return [
        Column("run", [_name(run, where) for run in found], least=20),
        Column("task", [run.task for run in found], rank=1),
        Column("model", [_model(run) for run in found], rank=3),
        Column("size", ["–" if n is None else short_count(n) for n in counts], rank=2, right=True),
        Column("steps", [_steps(run) for run in found], right=True),
        Column("figure", [_figure(run) for run in found], least=15),
        Column("on", [run.best.data if run.best else "–" for run in found], rank=5),
        Column("time", [duration(each) if each else "–" for each in seconds], rank=6, right=True),
        Column("when", [_when(run.moment) for run in found]),
        Column("state", [_state(run) for run in found]),
        Column("device", [run.training.hardware or "–" for run in found], rank=7),
    ]


def _name(run: RunSummary, where: Path) -> str:
    return run.name if run.path == where else run.path.relative_to(where).as_posix()


def _model(run: RunSummary) -> str:
    return f"{run.model.name}/{run.model.size}" if run.model.size else run.model.name


def _steps(run: RunSummary) -> str:
    from regard.config.wording import short_count

    done, in_all = run.training.step, run.training.steps
    if done is None:
        return "–"
    unfinished = run.state.name in ("stopped", "begun") and in_all
    return f"{short_count(done)}/{short_count(in_all)}" if unfinished and in_all else short_count(done)


def _figure(run: RunSummary) -> str:
    from regard.config.wording import score
    from regard.metrics.figure_names import figure

    return "–" if run.best is None else f"{figure(run.best.name).label} {score(run.best.value)}"


def _state(run: RunSummary) -> str:
    return f"{run.state.name}?" if run.state.may_be_running else run.state.name


def _when(moment: float) -> str:
    """The time of today, else the day, else the month."""
    age, then = time.time() - moment, time.localtime(moment)
    if age < _DAY:
        return time.strftime("%H:%M", then)
    return f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]}" if age < 300 * _DAY else time.strftime("%Y-%m", then)
