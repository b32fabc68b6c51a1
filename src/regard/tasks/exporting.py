"""A trained model in Hugging Face's layout, as `transformers` opens it."""

from __future__ import annotations

import json
from pathlib import Path

from regard.checkpoints.foreign.hub import write_hub
from regard.checkpoints.opening import open_model
from regard.checkpoints.run import RunFolder
from regard.config.bounded import read_json
from regard.errors import CheckpointError, UsageError
from regard.tasks.base import tokenizer_of
from regard.tasks.facts.card import keep_card, write_card
from regard.tasks.opening import predictor_of
from regard.tasks.registry import task_spec


def export_hub(path: Path | str, out: Path, *, check: bool = True) -> str:
    """Write the model at `path`, compared with its hashes if `check`, to the folder `out`; what others call it."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: there is something already", hint="give another --out")
    pretrained = open_model(path, check=check)
    if pretrained.target_tokenizer is not None:
        raise CheckpointError(
            f"{path}: its two sides have tokenizers of their own, and a folder that regard writes holds one",
            hint="train it with tokenizer.joint=true",
        )
    described, tensors, files = predictor_of(pretrained.task).for_others(pretrained)
    tokenizer = tokenizer_of(pretrained) if task_spec(pretrained.task).reads_text else None
    write_hub(out, described, tensors=tensors, tokenizer=tokenizer)
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if RunFolder(path).exists():
        keep_card(out, write_card(path, exported=out))
    config = read_json(out / "config.json")
    return str(config["architectures"][0])
