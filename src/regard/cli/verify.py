"""`regard verify`: the promises that make a model's numbers trustworthy, measured on the model at hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import Data, DataRoot, Device, Json, MaxMemory, NoCheck, Run
from regard.cli.console import put, say
from regard.errors import RegardError, UsageError

if TYPE_CHECKING:
    from torch import nn

    from regard.inspection.invariants import Check


def verify(
    run: Run,
    n: Annotated[int, typer.Option("--n", help="How many texts to measure on.")] = 24,
    data: Data = None,
    data_root: DataRoot = None,
    device: Device = "auto",
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
    as_json: Json = False,
) -> None:
    """Measure whether batching, caching, fused kernels, saving and padding leave this model's results alone."""
    from regard.cli.opening import open_predictor

    if n < 2:
        raise UsageError(f"--n {n}: a batch of one is compared with a batch of at least 2")
    predictor = open_predictor(run, device, no_check=no_check)
    predictor.say = say
    checks = []
    for check in predictor.checks(predictor.score_data(data, data_root), n=n):
        checks.append(check)
        put(json.dumps({"kind": "promise"} | asdict(check) | {"kept": check.kept}) if as_json else _line(check))
    _say_what_runs(predictor.module, as_json=as_json)
    broken = sum(not check.kept for check in checks)
    if broken:
        raise RegardError(f"{broken} of {len(checks)} promises are broken for {run}", hint="see the lines marked FAILS")
    say(f"all {len(checks)} promises hold")


def _line(check: Check) -> str:
    verdict = "holds" if check.kept else "FAILS"
    different = f", {check.n_different} texts differ" if check.n_different else ""
    return f"{verdict}  {check.promise}: largest difference {check.difference:.1e}{different}"


def _say_what_runs(module: nn.Module, *, as_json: bool) -> None:
    """Which implementation stands at each place where there are several; the promises above were measured on them."""
    from regard.config.twins import SWITCH, enabled

    if not enabled():
        say(f"what ran: the textbook, everywhere; {SWITCH} switches the fast paths off")
        return
    from regard.fast import explain

    say("what ran:")
    for choice in explain(module):
        if as_json:
            put(json.dumps({"kind": "runs"} | choice._asdict(), ensure_ascii=False))
        else:
            say(f"  {choice}")
