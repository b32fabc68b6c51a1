"""`regard export`: a trained model in the format of others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import Run
from regard.cli.console import say
from regard.errors import UsageError

TARGETS = {"hf": "a folder that transformers opens"}


def export(
    run: Run,
    to: Annotated[str, typer.Option(help="The format: " + "; ".join(f"{k}, {v}" for k, v in TARGETS.items()) + ".")],
    out: Annotated[Path | None, typer.Option(help="The folder to make.", show_default=False)] = None,
) -> None:
    """Write a trained model so that others can open it."""
    from regard.predictors.exporting import export_hub

    if to not in TARGETS:
        raise UsageError(f"--to {to}: not a format that regard writes; there is {', '.join(TARGETS)}")
    if out is None:
        raise UsageError("an export needs a folder", hint="say where: --out FOLDER")
    architecture = export_hub(run, out)
    say(f"{out}: a {architecture}, {TARGETS[to]}")
