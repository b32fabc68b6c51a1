"""`regard recipes`: the recipes that come with regard, to read, to copy, and to check one's own against."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.console import put, say
from regard.errors import UsageError

app = typer.Typer(
    name="recipes", help="List the recipes; show, copy or check one.", add_completion=False, rich_markup_mode=None
)
Name = Annotated[str, typer.Argument(help="Its name, such as translation/dates.", show_default=False)]


@app.callback(invoke_without_command=True)
def recipes(
    context: typer.Context,
    task: Annotated[str | None, typer.Option(help="Those of one task.", show_default=False)] = None,
) -> None:
    """List the recipes that come with regard, task by task."""
    from regard.tasks.recipes import shipped
    from regard.tasks.registry import task_names

    tasks = task_names()

    if task is not None and task not in tasks:
        raise UsageError(f"--task {task}: there are {', '.join(tasks)}")
    if context.invoked_subcommand is None:
        known = {name: path for name, path in shipped().items() if task in (None, name.split("/")[0])}
        width = max(map(len, known), default=0)
        for name in sorted(known, key=lambda name: (tasks.index(name.split("/")[0]), name)):
            put(f"{name:<{width}}  {_first_comment(known[name])}".rstrip())


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Its name, such as translation/dates; or a task.", show_default=False)],
) -> None:
    """Print a recipe; of a task, one with every setting and what it means."""
    from regard.tasks.recipes import find_shipped
    from regard.tasks.registry import task_names, task_spec
    from regard.tasks.settings import recipe_of

    known = name in task_names()
    put((recipe_of(task_spec(name)) if known else find_shipped(name).read_text(encoding="utf-8")).rstrip())


@app.command()
def copy(
    name: Name,
    to: Annotated[
        Path | None, typer.Argument(help="A file or a folder; else the folder here.", show_default=False)
    ] = None,
) -> None:
    """Copy a recipe, to change it."""
    from regard.tasks.recipes import find_shipped

    source = find_shipped(name)
    path = to or Path()
    path = path / source.name if path.is_dir() else path
    if path.exists():
        raise UsageError(f"{path}: there is a file already", hint="give another name, or remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source.read_bytes())
    say(f"copied to {path}; train with it: regard train {path} --out runs/NAME")


@app.command()
def check(name: Annotated[str, typer.Argument(help="A file, or the name of a recipe.", show_default=False)]) -> None:
    """Check a recipe, and list everything that is wrong with it."""
    from regard.tasks.recipes import find_recipe, make_recipe

    made = make_recipe(find_recipe(name))
    put(f"{name}: a recipe for {made.task} with the model {made.model['name']}")


def _first_comment(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ") if first.startswith("#") else ""
