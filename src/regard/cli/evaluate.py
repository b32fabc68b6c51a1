"""`regard evaluate`: how good a model is, in figures that others can compute again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import (
    Data,
    DataRoot,
    Device,
    Json,
    MaxMemory,
    NoCheck,
    Precision,
    Rest,
    Run,
    refuse_strange,
    split_settings,
)
from regard.cli.console import put, say
from regard.cli.output import writing
from regard.errors import UsageError


def evaluate(
    run: Run,
    rest: Rest = None,
    data: Data = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Translation: BLEU by the length of the source, too.")
    ] = False,
    stride: Annotated[
        int | None,
        typer.Option(help="Language: by how many tokens the window moves; small is fair, large is quick."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the outputs here, a line each.", show_default=False)] = None,
    data_root: DataRoot = None,
    device: Device = "auto",
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Score a trained model by the figures of its task, each with how it was computed."""
    from regard.cli.opening import open_predictor

    files, options = split_settings(rest or [])
    options |= ({"by_length": True} if by_length else {}) | ({} if stride is None else {"stride": stride})
    predictor = open_predictor(run, device, precision=precision, no_check=no_check)
    refuse_strange(predictor.config.task, {"by_length": by_length, "stride": stride})
    predictor.say = say
    evaluations = predictor.evaluate([*(data or []), *files], data_root=data_root, **options)
    for evaluation in evaluations:
        if out is not None:
            named = out.with_name(f"{out.stem}.{evaluation.data}{out.suffix}")  # of several test sets each has its file
            _write(named if len(evaluations) > 1 else out, evaluation.outputs)
        put(json.dumps(evaluation.record(), ensure_ascii=False) if as_json else str(evaluation))


def _write(path: Path, outputs: Sequence[str]) -> None:
    if not outputs:
        raise UsageError(f"--out {path}: nothing was said that could be written", hint="this task only measures")
    with writing(path) as write:
        for text in outputs:
            write(" ".join(text.splitlines()))
