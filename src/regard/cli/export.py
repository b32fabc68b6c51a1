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
    "ctranslate2": "a folder that CTranslate2 opens",
    "gguf": "a file that llama.cpp opens",
    "word2vec": "word vectors as a text, or binary if the file is called .bin",
}


def export(
    run: Run,
    to: Annotated[str, typer.Option(help="The format: " + "; ".join(f"{k}, {v}" for k, v in TARGETS.items()) + ".")],
    out: Annotated[Path | None, typer.Option(help="The folder or file to make.", show_default=False)] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="What weights are stored in: fp32 (what it is otherwise), fp16, bf16; for ctranslate2 also int8 and "
            "int16, for gguf q8_0, q4_0 and q4_1.",
            show_default=False,
        ),
    ] = None,
    max_memory: MaxMemory = None,
    no_check: NoCheck = False,
) -> None:
    """Write a trained model so that others can open it."""
    if to not in TARGETS:
        raise UsageError(f"--to {to}: not a format that regard writes; there is {', '.join(TARGETS)}")
    if out is None:
        raise UsageError("an export needs a place", hint="say where: --out PATH")
    if precision is not None and to not in ("ctranslate2", "gguf"):
        raise UsageError(f"--precision {precision}: for ctranslate2 and gguf; {to} is written in single precision")
    if to == "word2vec":
        from regard.tasks.words.exchange import export_vectors

        say(f"{out}: {export_vectors(run, out, binary=out.suffix == '.bin', check=not no_check):,} word vectors")
        return
    from regard.tasks import exporting

    if to == "hf":
        kind = exporting.export_hub(run, out, check=not no_check)
    elif to == "ctranslate2":
        kind = exporting.export_ctranslate2(run, out, precision=precision or "fp32", check=not no_check)
    else:
        kind, remark = exporting.export_gguf(run, out, precision=precision or "fp32", check=not no_check)
        if remark is not None:
            say(f"note: {remark}")
    say(f"{out}: a {kind}, {TARGETS[to]}")
