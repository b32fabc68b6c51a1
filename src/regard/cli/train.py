"""`regard train`: from a recipe to a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.console import say
from regard.errors import UsageError


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe file, the name of a shipped recipe, or a task.", show_default=False)
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings section.key=value that win over the recipe.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make.", show_default=False)] = None,
    train_files: Annotated[
        list[str] | None,
        typer.Option("--train", help="Training data: a file or a folder; may be repeated, as for two parallel texts."),
    ] = None,
    valid_files: Annotated[list[str] | None, typer.Option("--valid", help="Validation data, likewise.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    data_root: Annotated[
        Path | None, typer.Option(help="Where recipes find their data.", envvar="REGARD_DATA", show_default=False)
    ] = None,
) -> None:
    """Train a model."""
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train as run_training
    from regard.training.signals import Interrupted

    settings = list(overrides or [])
    if recipe is not None and "=" in recipe and not recipe.endswith(".toml"):
        settings, recipe = [recipe, *settings], None  # `regard train --resume --out RUN train.steps=500`
    if out is None:
        raise UsageError("a run needs a folder", hint="say where: --out runs/NAME")
    table = _begun(out) if recipe is None and resume else find_recipe(recipe or "translation")
    for key, files in (("train", train_files), ("valid", valid_files)):
        if files:
            table = table | {"data": dict(table.get("data", {})) | {key: files}}
    checked = make_recipe(table, settings)
    try:
        run_training(checked, out, data_root=data_root, resume=resume, say=say)
    except Interrupted as stop:
        raise Interrupted(str(stop), hint=f"go on with: regard train --resume --out {out}") from None
    say(f"done: {out}")


def _begun(out: Path) -> dict[str, Any]:
    from regard.checkpoints.run import RunFolder

    return RunFolder(out).read_config()
