"""`regard compare`: is one model better than another, or is it chance?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import Data, DataRoot, Device, Json, Precision, Rest, split_settings
from regard.cli.console import put

if TYPE_CHECKING:
    from regard.tasks.metrics import Comparison

LEVEL = 0.05


def compare(
    run_a: Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)],
    run_b: Annotated[Path, typer.Argument(help="The run to compare with it.", show_default=False)],
    rest: Rest = None,
    data: Data = None,
    resamples: Annotated[int, typer.Option(help="How many test sets are drawn.")] = 1000,
    seed: Annotated[int, typer.Option(help="What decides the draws.")] = 1,
    data_root: DataRoot = None,
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Compare two trained models on the same pairs by paired bootstrap, and say whether the difference is chance."""
    from regard.predictors import TestData, load
    from regard.tasks.metrics import METRICS, paired_bootstrap
    from regard.tasks.translation import usual_cut

    files, options = split_settings(rest or [])
    predictors = [load(run, device, precision=precision) for run in (run_a, run_b)]
    cut = usual_cut(predictors[0].languages)
    sets = predictors[0].test_pairs(TestData([*(data or []), *files], data_root, run_a / "data"))
    for name, pairs in sets.items():
        texts = [[p.text for p in predictor([pair.source for pair in pairs], **options)] for predictor in predictors]
        references = [pair.target for pair in pairs]
        found = [
            paired_bootstrap(references, texts[0], texts[1], metric=metric, n=resamples, seed=seed, **cut)
            for metric in METRICS
        ]
        if as_json:
            put(json.dumps({"data": name, "n": len(pairs), "comparisons": [_record(each) for each in found]}))
        else:
            put(f"{name}: {len(pairs):,} pairs, {resamples:,} resamples, seed {seed}; a = {run_a}, b = {run_b}")
            for each in found:
                put(_line(each))


def verdict(found: Comparison) -> str:
    """Which of a and b is better, in words."""
    if found.p_value >= LEVEL or found.difference == 0:
        return "no significant difference"
    better = "b" if (found.difference < 0) == (found.name == "TER") else "a"
    return f"{better} is significantly better"


def _line(found: Comparison) -> str:
    return (
        f"  {found.name:<5} a {found.score_a:6.2f}   b {found.score_b:6.2f}   b − a {found.difference:+6.2f}   "
        f"95 % [{found.low:+.2f}, {found.high:+.2f}]   p = {found.p_value:.3f}   {verdict(found)}"
    )


def _record(found: Comparison) -> dict[str, object]:
    return asdict(found) | {"verdict": verdict(found)}
