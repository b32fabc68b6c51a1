"""`regard verify`: the promises that make a model's numbers trustworthy, measured on the model at hand."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import DataRoot, Device, Json, Run
from regard.cli.console import put, say
from regard.errors import DataError, RegardError, UsageError

if TYPE_CHECKING:
    from regard.inspection.exactness import Finding
    from regard.predictors import TranslationPredictor

SEED = 1


def verify(
    run: Run,
    n: Annotated[int, typer.Option("--n", help="How many sentences to measure on.")] = 24,
    data_root: DataRoot = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure whether batching, caching, fused kernels, saving and padding leave this model's results alone."""
    from regard.inspection.exactness import measure_promises
    from regard.predictors import load

    if n < 2:
        raise UsageError(f"--n {n}: a batch of one is compared with a batch of at least 2")
    predictor = load(run, device)
    sources, targets = _sentences(predictor, run, n=n, data_root=data_root)
    findings = []
    for finding in measure_promises(predictor.module, predictor.languages, sources=sources, targets=targets):
        findings.append(finding)
        put(json.dumps(asdict(finding) | {"kept": finding.kept}) if as_json else _line(finding))
    broken = sum(not finding.kept for finding in findings)
    if broken:
        raise RegardError(
            f"{broken} of {len(findings)} promises are broken for {run}", hint="see the lines marked FAILS"
        )
    say(f"all {len(findings)} promises hold")


def _sentences(
    predictor: TranslationPredictor, run: Path, *, n: int, data_root: Path | None
) -> tuple[list[str], list[str]]:
    """Pairs of the recipe's first test set where it can be found, else sentences of random pieces."""
    from regard.predictors import TestData

    try:
        sets = predictor.test_pairs(TestData([], data_root, run / "data"))
    except (DataError, UsageError):
        sets = {}
    if sets:
        name, pairs = next(iter(sets.items()))
        usable = [pair for pair in pairs if pair.source.strip() and pair.target.strip()][:n]
        if len(usable) > 1:
            say(f"on {len(usable)} pairs of {name}")
            return [pair.source for pair in usable], [pair.target for pair in usable]
    say(f"on {n} sentences of random pieces: the recipe's test set is not here")
    chance = random.Random(SEED)
    sides = (predictor.languages.source, predictor.languages.target)
    drawn = [[_random_text(side.tokenizer.size, chance) for _ in range(n)] for side in sides]
    return [sides[0].decode(ids) for ids in drawn[0]], [sides[1].decode(ids) for ids in drawn[1]]


def _random_text(size: int, chance: random.Random) -> list[int]:
    """Between 3 and 20 ids, no special ones."""
    return [chance.randrange(4, size) for _ in range(chance.randint(3, 20))]


def _line(finding: Finding) -> str:
    verdict = "holds" if finding.kept else "FAILS"
    different = f", {finding.n_different} sentences differ" if finding.n_different else ""
    return f"{verdict}  {finding.promise}: largest difference {finding.difference:.1e}{different}"
