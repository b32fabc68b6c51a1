"""`regard verify`: the promises that make a model's numbers trustworthy, measured on the model at hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import Data, DataRoot, Device, Json, Run, scored_on
from regard.cli.console import put, say
from regard.errors import RegardError, UsageError

if TYPE_CHECKING:
    from regard.inspection.invariants import Check


def verify(
    run: Run,
    n: Annotated[int, typer.Option("--n", help="How many texts to measure on.")] = 24,
    data: Data = None,
    data_root: DataRoot = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure whether batching, caching, fused kernels, saving and padding leave this model's results alone."""
    from regard.tasks.opening import load

    if n < 2:
        raise UsageError(f"--n {n}: a batch of one is compared with a batch of at least 2")
    predictor = load(run, device)
    predictor.say = say
    findings = []
    with scored_on(run, data or [], data_root) as scored:
        for finding in predictor.verify(scored, n=n):
            findings.append(finding)
            put(json.dumps(asdict(finding) | {"kept": finding.kept}) if as_json else _line(finding))
    broken = sum(not finding.kept for finding in findings)
    if broken:
        raise RegardError(
            f"{broken} of {len(findings)} promises are broken for {run}", hint="see the lines marked FAILS"
        )
    say(f"all {len(findings)} promises hold")


def _line(finding: Check) -> str:
    verdict = "holds" if finding.kept else "FAILS"
    different = f", {finding.n_different} texts differ" if finding.n_different else ""
    return f"{verdict}  {finding.promise}: largest difference {finding.difference:.1e}{different}"
