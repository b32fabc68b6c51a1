"""`regard evaluate`: how good a model is, in figures that others can compute again."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import Data, DataRoot, Device, Json, Precision, Rest, Run, pairs_to_score, split_settings
from regard.cli.console import put, say

if TYPE_CHECKING:
    from regard.data import Pair
    from regard.predictor import Predictor
    from regard.tasks.metrics import LengthBucket, Metric


@dataclass(frozen=True)
class Evaluation:
    """All that is said about one test set. `loss` is the mean negative log-likelihood of a reference token, in nats."""

    data: str
    n: int
    metrics: dict[str, Metric]
    loss: float
    n_tokens: int
    by_length: list[LengthBucket]
    hypotheses: list[str]


def evaluate(
    run: Run,
    rest: Rest = None,
    data: Data = None,
    by_length: Annotated[bool, typer.Option("--by-length", help="BLEU by the length of the source, too.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the outputs here, a line each.", show_default=False)] = None,
    data_root: DataRoot = None,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Score a trained model: BLEU, chrF and TER with their sacreBLEU signatures, exact match and loss."""
    from regard.predictor import load

    files, options = split_settings(rest or [])
    predictor = load(run, device, precision=precision)
    sets = pairs_to_score(predictor, run, files=[*(data or []), *files], data_root=data_root)
    for name, pairs in sets.items():
        found = _evaluate(predictor, name, pairs, options=options, by_length=by_length)
        if out is not None:
            _write(_path(out, name if len(sets) > 1 else None), found.hypotheses)
        for line in [_record(found)] if as_json else _table(found):
            put(line)


def _evaluate(
    predictor: Predictor, name: str, pairs: Sequence[Pair], *, options: dict[str, Any], by_length: bool
) -> Evaluation:
    from regard.tasks.metrics import bleu_by_length
    from regard.tasks.translation import usual_cut
    from regard.training.train import scores

    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    hypotheses = [prediction.text for prediction in predictor(sources, **options)]
    terms = [term for row in predictor.log_probs(sources, references) for term in row]
    cut = usual_cut(predictor.languages)
    return Evaluation(
        data=name,
        n=len(pairs),
        metrics=scores(predictor.languages, hypotheses, references),
        loss=-math.fsum(terms) / len(terms),
        n_tokens=len(terms),
        by_length=bleu_by_length(sources, hypotheses, references, **cut) if by_length else [],
        hypotheses=hypotheses,
    )


def _record(found: Evaluation) -> str:
    metrics = {name: {"value": each.value, "signature": each.signature} for name, each in found.metrics.items()}
    record = {"data": found.data, "n": found.n, "metrics": metrics, "loss": found.loss, "n_tokens": found.n_tokens}
    if found.by_length:
        record["by_length"] = [asdict(bucket) | {"label": bucket.label} for bucket in found.by_length]
    return json.dumps(record, ensure_ascii=False)


def _table(found: Evaluation) -> list[str]:
    lines = [f"{found.data}: {found.n:,} pairs"]
    for metric in found.metrics.values():
        digits = 4 if metric.name == "exact match" else 2
        lines.append(f"  {metric.name:<12}{metric.value:>9.{digits}f}   {metric.signature}")
    lines.append(f"  {'loss':<12}{found.loss:>9.4f}   nats a token, over {found.n_tokens:,} tokens")
    if found.by_length:
        lines.append("  words in the source    pairs     BLEU")
        for bucket in found.by_length:
            score = "–" if bucket.metric is None else f"{bucket.metric.value:.2f}"
            lines.append(f"  {bucket.label:<19}{bucket.n:>9,}{score:>9}")
    return lines


def _path(out: Path, name: str | None) -> Path:
    """Where the outputs go; of several test sets, each gets its name into the file's."""
    return out if name is None else out.with_name(f"{out.stem}.{name}{out.suffix}")


def _write(path: Path, hypotheses: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(" ".join(text.splitlines()) + "\n" for text in hypotheses)
    say(f"outputs: {path}")
