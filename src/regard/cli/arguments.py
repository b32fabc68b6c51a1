"""What several verbs take: the run, `decode.key=value` settings, the device, JSON, and the data to score on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.config.bounded import at_most, read_size
from regard.errors import UsageError


def _limit_memory(context: typer.Context, size: str | None) -> str | None:
    """Bound what the command opens, until it is over."""
    if size is not None:
        context.with_resource(at_most(read_size(size)))
    return size


Run = Annotated[Path, typer.Argument(help="A run, or a model of others: a folder or a file.", show_default=False)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Precision = Annotated[str, typer.Option(help="What predictions are computed in: auto, fp32, bf16, or int8 on a CPU.")]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        help="How much memory opening files may take, such as 8GB; without it, what is free.",
        callback=_limit_memory,
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
NoCheck = Annotated[
    bool, typer.Option("--no-check", help="Do not compare files with the hashes that they were written with.")
]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="What to score on: a file, or two parallel texts; else the recipe's test sets."),
]
DataRoot = Annotated[
    Path | None, typer.Option(help="Where recipes find their data.", envvar="REGARD_DATA", show_default=False)
]
NewRun = Annotated[Path | None, typer.Option(help="The run folder to make.", show_default=False)]
Rest = Annotated[
    list[str] | None,
    typer.Argument(help="Settings decode.key=value; after --data, its second file.", metavar="SETTING"),
]

_SETTING = re.compile(r"[A-Za-z_]\w*(\.\w+)+=\S*")


def split_settings(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The words that are no settings, and the decoding options that the others set."""
    from regard.config.recipe import override

    settings = [word for word in words if _SETTING.fullmatch(word)]
    table = override({}, settings)
    if wrong := [name for name in table if name != "decode"]:
        raise UsageError(
            f"{wrong[0]} cannot be set for a model that is trained", hint="what can be set is decode.key=value"
        )
    return [word for word in words if word not in settings], dict(table.get("decode", {}))


def refuse_strange(task: str, given: Mapping[str, Any]) -> None:
    """Refuse options that were given and mean nothing to the task: `given` holds them by the names of its flags."""
    from regard.tasks.registry import task_names, task_spec

    for name, value in given.items():
        if value not in (None, False, []) and name not in task_spec(task).flags:
            theirs = [other for other in task_names() if name in task_spec(other).flags]
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} means nothing to a model for {task}", hint=f"it is for {' and '.join(theirs)}")
