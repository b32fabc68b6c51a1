"""What several verbs take: the run, `decode.key=value` settings, the device, JSON, and the pairs to score."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.data import Pair
    from regard.predictor import Predictor

Run = Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Precision = Annotated[str, typer.Option(help="What predictions are computed in: auto, fp32, bf16, or int8 on a CPU.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="Pairs to score on: one table, or two parallel texts; else the recipe's test sets."),
]
DataRoot = Annotated[
    Path | None, typer.Option(help="Where recipes find their data.", envvar="REGARD_DATA", show_default=False)
]
Rest = Annotated[
    list[str] | None,
    typer.Argument(help="Settings decode.key=value; after --data, its second file.", metavar="SETTING"),
]

_SETTING = re.compile(r"[A-Za-z_]\w*(\.\w+)+=\S*")


def split_settings(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The words that are no settings, and the decoding options that the others set."""
    from regard.training.recipe import override

    settings = [word for word in words if _SETTING.fullmatch(word)]
    table = override({}, settings)
    if wrong := [name for name in table if name != "decode"]:
        raise UsageError(
            f"{wrong[0]} cannot be set for a model that is trained", hint="what can be set is decode.key=value"
        )
    return [word for word in words if word not in settings], dict(table.get("decode", {}))


def pairs_to_score(
    predictor: Predictor, run: Path, *, files: Sequence[str], data_root: Path | None
) -> Mapping[str, list[Pair]]:
    """The pairs to score on, by name: those of the files given, else of every test set of the run's recipe."""
    from regard.tasks.pairs import PairFiles

    data = predictor.config.data
    if len(files) != len(data.train):  # a table instead of parallel texts, or the other way round
        data = replace(data, columns=None, format=None)
    found = PairFiles(data, data_root, run / "data")
    if files:
        return {files[0]: list(found.source(files, what="data").pairs())}
    if not found.tests:
        raise UsageError(f"the recipe of {run} names no test set", hint="say what to score on: --data FILE [FILE]")
    return {name: list(source.pairs()) for name, source in found.tests.items()}
