"""`regard evaluate`: how good a model is, in figures that others can compute again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import (
    Data,
    DataRoot,
    Device,
    Json,
    Precision,
    Rest,
    Run,
    refuse_strange,
    scored_on,
    split_settings,
)
from regard.cli.console import put, say
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.metrics.scores import Metric
    from regard.tasks.base import Evaluation


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
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Score a trained model by the figures of its task, each with how it was computed."""
    from regard.tasks.opening import load

    files, options = split_settings(rest or [])
    options |= ({"by_length": True} if by_length else {}) | ({} if stride is None else {"stride": stride})
    predictor = load(run, device, precision=precision)
    refuse_strange(predictor.config.task, {"by_length": by_length, "stride": stride})
    predictor.say = say
    with scored_on(run, [*(data or []), *files], data_root) as scored:
        found = list(predictor.evaluate(scored, **options))
    for evaluation in found:
        if out is not None:
            _write(_path(out, evaluation.data if len(found) > 1 else None), evaluation.outputs)
        for line in [json.dumps(evaluation.record(), ensure_ascii=False)] if as_json else _table(evaluation):
            put(line)


def _table(found: Evaluation) -> list[str]:
    lines = [f"{found.data}: {found.n:,} {found.unit}"]
    lines += [_line(metric) for metric in found.metrics.values()]
    if found.by_length:
        lines.append("  words in the source    pairs     BLEU")
        for bucket in found.by_length:
            score = "–" if bucket.metric is None else f"{bucket.metric.value:.2f}"
            lines.append(f"  {bucket.label:<19}{bucket.n:>9,}{score:>9}")
    return lines


def _line(metric: Metric) -> str:
    interval = "" if metric.low is None else f"95 % [{metric.low:.{metric.digits}f}, {metric.high:.{metric.digits}f}]  "
    return f"  {metric.name:<20}{metric.value:>9.{metric.digits}f}   {interval}{metric.signature}"


def _path(out: Path, name: str | None) -> Path:
    """Where the outputs go; of several test sets, each gets its name into the file's."""
    return out if name is None else out.with_name(f"{out.stem}.{name}{out.suffix}")


def _write(path: Path, outputs: Sequence[str]) -> None:
    if not outputs:
        raise UsageError(f"--out {path}: nothing was said that could be written", hint="this task only measures")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(" ".join(text.splitlines()) + "\n" for text in outputs)
    say(f"outputs: {path}")
