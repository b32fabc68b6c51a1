"""`regard plot`: how runs were trained, as curves in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.console import say
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.tasks.facts.summary import RunSummary


def plot(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="The folder of a run; there may be several.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="The picture to write: .png, .svg or .pdf.", show_default=False)
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="On dark paper.")] = False,
) -> None:
    """Draw loss, figures of the validation data and learning rate over the steps of one run, or of several."""
    from regard.inspection.plots.curves import MOST_RUNS, PICTURES, draw_curves
    from regard.tasks.facts.curves import curves_of
    from regard.tasks.facts.summary import summarise

    if out is None:
        raise UsageError("a picture needs a name", hint="say where: --out curves.png")
    if out.suffix.lower() not in PICTURES:
        raise UsageError(f"--out {out}: allowed are names that end in {', '.join(PICTURES)}")
    given = list(dict.fromkeys(runs))
    if len(given) > MOST_RUNS:
        raise UsageError(f"{len(given)} runs in one picture cannot be told apart; at most {MOST_RUNS} can")
    summaries = [summarise(run) for run in given]
    found = curves_of(summaries)
    for run in found.silent:
        say(f"left out: {run.path} has reported nothing (there is no metrics.jsonl with figures in it)")
    if not found.panels:
        raise DataError("there is nothing to draw: no run has reported anything", hint="train one for some steps first")
    if found.left_out:
        say(f"left out for want of room: {', '.join(found.left_out)}")
    title = _title(summaries[0]) if len(given) == 1 else ""
    say(f"picture: {draw_curves(found.panels, out, title=title, dark=dark)}")


def _title(run: RunSummary) -> str:
    from regard.config.wording import short_count

    size = "" if run.model.parameters is None else f", {short_count(run.model.parameters)} parameters"
    return f"{run.path.resolve().name}: {run.task}, {run.model.name}{size}"
