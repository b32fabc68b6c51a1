"""`regard import`: a model that others trained becomes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import MaxMemory, NewRun
from regard.cli.console import say
from regard.errors import UsageError


def import_(
    path: Annotated[
        Path,
        typer.Argument(
            help="A Hugging Face folder, a llama2.c .bin or a .gguf file, or word vectors as word2vec or GloVe "
            "write them.",
            show_default=False,
        ),
    ],
    out: NewRun = None,
    max_memory: MaxMemory = None,
) -> None:
    """Turn a model of others into a run: nothing in it is executed, and every weight has to fit."""
    from regard.checkpoints.foreign.word2vec import holds_vectors

    if out is None:
        raise UsageError("a run needs a folder", hint="say where: --out runs/NAME")
    if holds_vectors(path):
        from regard.tasks.words.exchange import import_vectors

        say(f"{path}: {import_vectors(path, out):,} word vectors; the run is {out}")
        return
    from regard.tasks.importing import import_model

    model, n = import_model(path, out)
    say(f"{path}: a {model.model} for {model.task} with {n:,} parameters; the run is {out}")
