"""Open any trained model: a run of ours, or what others left."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from regard.checkpoints.described import Described, Pretrained
from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import read_tensors
from regard.data.tokenizer_files import read_tokenizers
from regard.errors import CheckpointError


def open_model(path: Path | str) -> Pretrained:
    """A run folder, a Hugging Face folder, a llama2.c `.bin` or a `.gguf` file, in our terms."""
    run = RunFolder(path)
    if run.exists():
        return open_run(run)
    if run.path.is_dir() and not (run.path / "config.json").exists():
        raise CheckpointError(
            f"{run.path}: neither a run (it has no config.toml) nor a model of others (no config.json)",
            hint="give the folder that `regard train` made, or one in Hugging Face's layout",
        )
    from regard.checkpoints.foreign.hub import open_foreign

    return open_foreign(path)


def open_run(run: RunFolder) -> Pretrained:
    """The model of a run."""
    described = run.read_model()
    if not run.weights.exists():
        raise CheckpointError(
            f"{run.path}: the run has no weights yet (model.safetensors)",
            hint=f"train it to its first evaluation: regard train --resume --out {run.path}",
        )
    said = {field.name: getattr(described, field.name) for field in fields(Described)}
    tokenizer, target = read_tokenizers(run.path)
    tensors = read_tensors(run.weights)
    return Pretrained(**said, tensors=tensors, tokenizer=tokenizer, target_tokenizer=target, origin=str(run.weights))
