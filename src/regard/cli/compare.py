"""`regard compare`: is one model better than another, or is it chance?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import Data, DataRoot, Device, Json, Precision, Rest, scored_on, split_settings
from regard.cli.console import put, say
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.metrics.comparing import Compared
    from regard.metrics.scores import Comparison

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
    """Compare two trained models on the same data by paired bootstrap, and say whether the difference is chance."""
    from regard.tasks.opening import load

    if resamples < 1:
        raise UsageError(f"--resamples {resamples}: at least 1 is drawn")
    files, options = split_settings(rest or [])
    first, second = (load(run, device, precision=precision) for run in (run_a, run_b))
    first.say = say
    with scored_on(run_a, [*(data or []), *files], data_root) as scored:
        for compared in first.compare(second, scored, resamples=resamples, seed=seed, **options):
            if as_json:
                put(json.dumps(_record(compared), ensure_ascii=False))
                continue
            head = f"{compared.data}: {compared.n:,} {compared.unit}, {resamples:,} resamples, seed {seed}"
            put(f"{head}; a = {run_a}, b = {run_b}")
            for each in compared.comparisons:
                put(_line(each, compared))


def verdict(found: Comparison) -> str:
    """Which of a and b is better, in words."""
    from regard.metrics.comparing import LESS_IS_BETTER

    if found.p_value >= LEVEL or found.difference == 0:
        return "no significant difference"
    better = "b" if (found.difference < 0) == (found.name in LESS_IS_BETTER) else "a"
    return f"{better} is significantly better"


def _line(found: Comparison, compared: Compared) -> str:
    width, digits = max(len(each.name) for each in compared.comparisons), compared.digits
    numbers = {"a": found.score_a, "b": found.score_b}
    scores = "   ".join(f"{name} {value:{digits + 4}.{digits}f}" for name, value in numbers.items())
    return (
        f"  {found.name:<{width}} {scores}   b − a {found.difference:+{digits + 4}.{digits}f}   "
        f"95 % [{found.low:+.{digits}f}, {found.high:+.{digits}f}]   p = {found.p_value:.3f}   {verdict(found)}"
    )


def _record(compared: Compared) -> dict[str, object]:
    comparisons = [asdict(each) | {"verdict": verdict(each)} for each in compared.comparisons]
    return {"data": compared.data, "n": compared.n, "unit": compared.unit, "comparisons": comparisons}
