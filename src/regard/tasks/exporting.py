"""A trained model in the formats of others: for `transformers`, for CTranslate2, and as GGUF for llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from regard.checkpoints.foreign.hub import write_hub
from regard.checkpoints.opening import open_model
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import Pretrained
from regard.checkpoints.usage import Usage
from regard.config.bounded import read_json
from regard.data.io.atomic import whole_or_absent, whole_or_absent_file
from regard.errors import CheckpointError, UsageError
from regard.tasks.base import tokenizer_of
from regard.tasks.facts.card import keep_card, write_card
from regard.tasks.opening import predictor_of, read_recipe, recipe_of
from regard.tasks.registry import task_spec


def export_hub(path: Path | str, out: Path, *, check: bool = True) -> str:
    """Write the model at `path`, compared with its hashes if `check`, to the folder `out`; what others call it."""
    refuse_existing(out)
    pretrained = open_model(path, check=check)
    if pretrained.target_tokenizer is not None:
        raise CheckpointError(
            f"{path}: its two sides have tokenizers of their own, and a folder that regard writes holds one",
            hint="train it with tokenizer.joint=true",
        )
    described, tensors, files = predictor_of(pretrained.task).for_others(pretrained)
    tokenizer = tokenizer_of(pretrained) if task_spec(pretrained.task).reads_text else None
    with whole_or_absent(out, files=(), what="an export") as draft:
        write_hub(draft, described, tensors=tensors, tokenizer=tokenizer)
        for name, content in files.items():
            (draft / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        if RunFolder(path).exists():
            keep_card(draft, write_card(path, exported=out))
    config = read_json(out / "config.json")
    return str(config["architectures"][0])


def export_ctranslate2(path: Path | str, out: Path, *, precision: str = "fp32", check: bool = True) -> str:
    """Write the model at `path` to the folder `out` for CTranslate2; what that calls it."""
    from regard.checkpoints.foreign.ctranslate2.writing import PRECISIONS, write_ctranslate2

    check_precision(precision, PRECISIONS)
    refuse_existing(out)
    pretrained = open_model(path, check=check)
    with whole_or_absent(out, files=(), what="an export") as draft:
        kind = write_ctranslate2(draft, pretrained, precision=precision, usage=_usage(path, pretrained))
    return f"CTranslate2 {kind}"


def export_gguf(path: Path | str, out: Path, *, precision: str = "fp32", check: bool = True) -> tuple[str, str | None]:
    """Write the model at `path` to the file `out` for llama.cpp; what it is, and what that reads otherwise."""
    from regard.checkpoints.foreign.llama_cpp.writing import PRECISIONS, write_gguf

    check_precision(precision, PRECISIONS)
    refuse_existing(out)
    if out.suffix != ".gguf":
        raise UsageError(f"{out}: such a file is called .gguf", hint=f"--out {out}.gguf")
    pretrained = open_model(path, check=check)
    with whole_or_absent_file(out) as draft:
        architecture, remark = write_gguf(draft, pretrained, precision=precision, usage=_usage(path, pretrained))
    return f"GGUF file, {architecture}", remark


def refuse_existing(out: Path) -> None:
    """Refuse a place where something is; an empty folder is nothing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: there is something already", hint="give another --out")


def check_precision(precision: str, known: Iterable[str]) -> None:
    """Refuse a precision that the format does not have."""
    if precision not in known:
        raise UsageError(f"--precision {precision}: this format has {', '.join(known)}")


def _usage(path: Path | str, pretrained: Pretrained) -> Usage:
    """How the model is asked, by its recipe."""
    run = RunFolder(path)
    recipe = read_recipe(run) if run.exists() else recipe_of(pretrained)
    return predictor_of(pretrained.task).usage(pretrained, recipe)
