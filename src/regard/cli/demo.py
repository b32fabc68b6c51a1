"""`regard demo`: train a small model on this machine, try it on dates it has never seen, and see what it looks at."""

from __future__ import annotations

import json
import shutil
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.console import put, say
from regard.cli.train import train_run
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.tasks.translation.predictor import TranslationPredictor

RECIPE = "translation/dates"
MARK = "made-by-demo"
N_SHOWN = 5


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run, the picture and the page.")] = Path("demo"),
    steps: Annotated[int | None, typer.Option(help="Train for so many steps.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on stdout.")] = False,
) -> None:
    """Learn to read dates in four languages, on the CPU, and draw which characters the model looked at."""
    from regard.tasks.opening import load

    run = out / "run"
    _make_room(run)
    begin = time.monotonic()
    facts = _train(run, steps)
    seconds = time.monotonic() - begin
    test = facts["metrics"]["test"]
    exact = test["exact match"]["value"]
    say(f"trained in {seconds:.0f} s; {exact:.1%} of the dates it has never seen are right to the last digit")
    predictor = load(run, "cpu")
    examples = _unseen(run)
    for text, prediction in zip(examples, predictor(examples), strict=True):
        say(f"  {text} → {prediction.text}")
    seen = predictor.look(max(examples, key=lambda text: sum(map(str.isalpha, text))), queries=True)
    picture, page = seen.plot(out / "alignment.png"), seen.page(out / "page.html")
    say(f"what it looked at: {picture}, and {page} to open in a browser")
    if as_json:
        figures = {"exact_match": exact, "train_seconds": round(seconds, 1)}
        put(json.dumps(figures | {"picture": str(picture), "page": str(page)}))
    elif sys.stdin.isatty():
        _converse(predictor)


def _train(run: Path, steps: int | None) -> dict[str, Any]:
    from regard.tasks.recipes import find_recipe, make_recipe

    settings = ["train.device=cpu", *([] if steps is None else [f"train.steps={steps}"])]
    return train_run(make_recipe(find_recipe(RECIPE), settings), run)


def _make_room(run: Path) -> None:
    """Remove the run of an earlier demo, and nothing else."""
    if run.exists() and any(run.iterdir()):
        if not (run / MARK).exists():
            raise UsageError(f"{run}: there is something that no demo made", hint="give another folder: --out FOLDER")
        shutil.rmtree(run)
    run.mkdir(parents=True, exist_ok=True)
    (run / MARK).touch()


def _unseen(run: Path) -> list[str]:
    """The first written dates of the test set: their days are in no training pair."""
    from regard.data.text.pairs import PairSource

    return [pair.source for pair in islice(PairSource(run / "data" / "test.tsv").pairs(), N_SHOWN)]


def _converse(predictor: TranslationPredictor) -> None:
    """Translate what the user types, until an empty line."""
    say("type a date in English, German, French or Spanish; an empty line ends")
    while text := sys.stdin.readline().strip():
        put(predictor(text).text)
