"""`regard info`: what a run, a model of others, or a model by name is."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import MaxMemory
from regard.cli.console import put
from regard.errors import CheckpointError

if TYPE_CHECKING:
    from regard.checkpoints.foreign.header import Header
    from regard.tasks.facts.model_facts import NamedModel
    from regard.tasks.facts.summary import RunSummary


def info(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|MODEL",
            help="A run, a model of others (a folder or a file), or the name of a model, such as gpt or "
            "transformer/base.",
            show_default=False,
        ),
    ],
    max_memory: MaxMemory = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what a run or a model is: its size, its data, how it was trained, its figures, how to go on with it."""
    found = _find(what)
    if as_json:
        put(json.dumps(_record(found), ensure_ascii=False))
        return
    from regard.cli.text.info import lines
    from regard.cli.text.layout import terminal_width

    for line in list(lines(found, terminal_width())):  # all or nothing: a file may turn out to be broken
        put(line)


def _find(what: str) -> RunSummary | Header | NamedModel:
    from regard.checkpoints.run import RunFolder
    from regard.tasks.facts.model_facts import describe_model, is_model
    from regard.tasks.facts.summary import summarise

    path = Path(what)
    if RunFolder(path).exists():
        return summarise(path)
    if path.is_file() or (path / "config.json").exists():
        from regard.checkpoints.foreign.header import read_header

        return read_header(path)
    if path.is_dir():
        raise CheckpointError(
            f"{path}: neither a run (it has no config.toml) nor a model of others (no config.json)",
            hint=f"`regard runs {shlex.quote(what)}` lists the runs in it",
        )
    if is_model(what):
        return describe_model(what)
    raise CheckpointError(f"{what}: there is no such run, file or model", hint=_nearest(what))


def _nearest(what: str) -> str:
    from regard.config.schema import nearest
    from regard.models.registry import names
    from regard.tasks.registry import task_names, task_spec

    if what in task_names():
        return f"{what} is a task; its models are {', '.join(task_spec(what).models)}"
    near = nearest(what.partition("/")[0], names())
    return f"did you mean {near}?" if near else f"`regard runs` lists the runs; models are {', '.join(names())}"


def _record(found: RunSummary | Header | NamedModel) -> dict[str, Any]:
    from regard.checkpoints.foreign.header import Header
    from regard.tasks.facts.model_facts import NamedModel

    if isinstance(found, NamedModel):
        return {"kind": "model"} | found.record()
    if isinstance(found, Header):
        return {"kind": "foreign"} | found.record()
    return {"kind": "run"} | found.record()
