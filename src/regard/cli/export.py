"""`regard export`: a trained model in the format of others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import MaxMemory, NoCheck, Run
from regard.cli.console import say
from regard.errors import UsageError

TARGETS = {
    "hf": "a folder that transformers opens",
    "word2vec": "word vectors as a text, or binary if the file is called .bin",
}


def export(
    run: Run,
    to: Annotated[str, typer.Option(help="The format: " + "; ".join(f"{k}, {v}" for k, v in TARGETS.items()) + ".")],
    out: Annotated[Path | None, typer.Option(help="The folder or file to make.", show_default=False)] = None,
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
) -> None:
    """Write a trained model so that others can open it."""
    if to not in TARGETS:
        raise UsageError(f"--to {to}: not a format that regard writes; there is {', '.join(TARGETS)}")
    if out is None:
        raise UsageError("an export needs a place", hint="say where: --out PATH")
    if to == "word2vec":
        from regard.tasks.words.exchange import export_vectors

        say(f"{out}: {export_vectors(run, out, binary=out.suffix == '.bin', check=not no_check):,} word vectors")
    else:
        from regard.tasks.exporting import export_hub

        say(f"{out}: a {export_hub(run, out, check=not no_check)}, {TARGETS[to]}")
