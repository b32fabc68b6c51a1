"""`regard train`: from a recipe to a run."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from regard.cli.arguments import DataRoot, MaxMemory, NewRun, NoCheck
from regard.cli.console import explain, put, say
from regard.errors import RegardError, UsageError

if TYPE_CHECKING:
    from regard.config.recipe import Recipe

_SETTING = re.compile(r"[A-Za-z_]\w*(\.[\w-]+)+=")


class TrainCommand(TyperCommand):
    """Knows what typer does not: the settings of a task that `--help` is about, and options that take several files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # typer brings a click of its own, or not
        """Show a task's settings, or read `--train A B` as `--train A --train B`."""
        words = several_files(args, ("--train", "--valid"))
        if "--help" in words and (text := _settings_asked_for(words)):
            put(text)
            raise typer.Exit
        return list(super().parse_args(ctx, words))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The tasks, and how to see what each can be told."""
        from regard.tasks.registry import task_names, task_spec

        formatter.write("\nTasks; `regard train TASK --help` lists all settings of one:\n")
        formatter.write_dl([(name, task_spec(name).help) for name in task_names()])


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe file, the name of a shipped recipe, or a task.", show_default=False)
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings section.key=value that win over the recipe.")
    ] = None,
    out: NewRun = None,
    train_files: Annotated[
        list[str] | None,
        typer.Option("--train", help="Training data: a file or a folder, or several, as two parallel texts."),
    ] = None,
    valid_files: Annotated[list[str] | None, typer.Option("--valid", help="Validation data, likewise.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    minutes: Annotated[
        float | None, typer.Option(help="How long it may take: as many steps as fit.", min=0.1, show_default=False)
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be trained, and how long.")] = False,
    changed_data: Annotated[
        bool, typer.Option("--changed-data", help="Go on although the data is another than the run was begun with.")
    ] = False,
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
    data_root: DataRoot = None,
) -> None:
    """Train a model."""
    from regard.checkpoints.run import RunFolder
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.registry import task_spec

    settings = list(overrides or [])
    if recipe is not None and "=" in recipe and not recipe.endswith(".toml"):
        settings, recipe = [recipe, *settings], None  # `regard train --resume --out RUN train.steps=500`
    if out is None and not plan:
        raise UsageError("a run needs a folder", hint="say where: --out runs/NAME")
    begun = out if recipe is None and resume else None
    if begun is not None:
        RunFolder(begun, check=not no_check).check_files()
    table = find_recipe(recipe or "translation") if begun is None else RunFolder(begun).read_config()
    for key, files in (("train", train_files), ("valid", valid_files)):
        if files:
            table = table | {"data": dict(table.get("data", {})) | {key: files}}
    checked = make_recipe(table, settings)
    if not (checked.plans and task_spec(checked.task).plan):  # else what is not set will fit the data
        for remark in checked.train.remarks():
            say(remark)
    how: dict[str, Any] = {"data_root": data_root, "resume": resume, "minutes": minutes, "only_plan": plan}
    train_run(checked, out or Path(), **how, check=not no_check, changed_data=changed_data)
    if not plan:
        say(f"done: {out}")


def train_run(
    recipe: Recipe,
    out: Path,
    *,
    data_root: Path | None = None,
    resume: bool = False,
    minutes: float | None = None,
    only_plan: bool = False,
    check: bool = True,
    changed_data: bool = False,
) -> dict[str, Any]:
    """Train by a recipe; what the run reached. A run that is stopped, however, says how to go on with it."""
    from regard.tasks.training import train
    from regard.training.distributed import Lost
    from regard.training.signals import Interrupted

    how: dict[str, Any] = {"minutes": minutes, "only_plan": only_plan, "check": check, "changed_data": changed_data}
    try:
        return train(recipe, out, data_root=data_root, resume=resume, say=say, on_lost=lambda: _end_lost(out), **how)
    except Interrupted as stop:
        raise Interrupted(str(stop), hint=f"go on with: {_go_on(out)}") from None
    except Lost as problem:
        raise _lost(out, str(problem)) from None
    except KeyboardInterrupt:  # the second Ctrl-C, or one before training began
        if only_plan or not out.exists():
            raise
        raise Interrupted(f"stopped at once; {_what_is_saved(out)}", hint=f"go on with: {_go_on(out)}") from None


def _lost(out: Path, problem: str) -> RegardError:
    from regard.training.distributed import Lost

    return Lost(f"{problem}; {_what_is_saved(out)}", hint=f"go on with: {_go_on(out)}")


def _end_lost(out: Path) -> None:
    """End this process, which waits for one that is gone and will not notice."""
    from regard.training.distributed import GONE

    code = explain(_lost(out, GONE))
    sys.stderr.flush()
    os._exit(code)


def _what_is_saved(out: Path) -> str:
    from regard.checkpoints.run import RunFolder

    steps = RunFolder(out).steps()
    return f"saved is step {steps[-1]}" if steps else "nothing is saved yet"


def _go_on(out: Path) -> str:
    """The command that goes on with a run, in as many processes as there were."""
    command = f"train --resume --out {shlex.quote(str(out))}"
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return f"torchrun --nproc-per-node {os.environ.get('LOCAL_WORLD_SIZE', '1')} -m regard {command}"
    together = int(os.environ.get("WORLD_SIZE", "1"))
    return f"regard {command}" + (f" (in all {together} processes)" if together > 1 else "")


def several_files(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The words with the option put before each further file of it: what follows, and is neither setting nor recipe."""
    from regard.tasks.recipes import is_recipe

    found: list[str] = []
    option, before, named = "", "", False
    for word in words:
        if word.startswith("--"):
            option = word if word in options else ""
        elif not before.startswith("--"):  # no value of an option, or one more
            if option and not _SETTING.match(word) and (named or not is_recipe(word)):
                found.append(option)
            else:
                named, option = True, ""
        found.append(word)
        before = word
    return found


def _settings_asked_for(words: Sequence[str]) -> str | None:
    """The help of the task that is named among the words, or whose recipe is; None without one."""
    from regard.tasks.recipes import DEFAULT_TASK, find_recipe, is_recipe
    from regard.tasks.registry import task_spec
    from regard.tasks.settings import help_of

    named = next((word for word in words if is_recipe(word)), None)
    if named is None:
        return None
    table = find_recipe(named)
    model = next((word.partition("=")[2] for word in words if word.startswith("model.name=")), None)
    return help_of(task_spec(table.get("task", DEFAULT_TASK)), model or table.get("model", {}).get("name"))
