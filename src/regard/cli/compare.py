"""`regard compare`: is one model better than another, or is it chance?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import Data, DataRoot, Device, Json, MaxMemory, NoCheck, Precision, Rest, split_settings
from regard.cli.console import put, say
from regard.errors import UsageError


def compare(
    run_a: Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)],
    run_b: Annotated[Path, typer.Argument(help="The run to compare with it.", show_default=False)],
    rest: Rest = None,
    data: Data = None,
    resamples: Annotated[int, typer.Option(help="How many test sets are drawn.")] = 1000,
    seed: Annotated[int, typer.Option(help="What decides the draws.")] = 1,
    data_root: DataRoot = None,
    device: Device = "auto",
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
    precision: Precision = "auto",
    as_json: Json = False,
) -> None:
    """Compare two trained models on the same data by paired bootstrap, and say whether the difference is chance."""
    from regard.cli.opening import open_predictor

    if resamples < 1:
        raise UsageError(f"--resamples {resamples}: at least 1 is drawn")
    files, options = split_settings(rest or [])
    first, second = (open_predictor(run, device, precision=precision, no_check=no_check) for run in (run_a, run_b))
    first.say = say
    files = [*(data or []), *files]
    for compared in first.compare(second, files, data_root=data_root, resamples=resamples, seed=seed, **options):
        if as_json:
            put(json.dumps(compared.record(), ensure_ascii=False))
            continue
        head = f"{compared.data}: {compared.n:,} {compared.unit}, {resamples:,} resamples, seed {seed}"
        put("\n".join([f"{head}; a = {run_a}, b = {run_b}", *compared.lines()]))
