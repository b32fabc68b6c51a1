"""Open any trained model: a run of ours, or what others left."""

from __future__ import annotations

from pathlib import Path

from regard.checkpoints.headers import stored_weights
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import Pretrained, check_weights
from regard.checkpoints.weights import read_tensors
from regard.data.text.tokenizers import read_tokenizers
from regard.errors import CheckpointError


def open_model(path: Path | str, *, check: bool = True, blocks: bool = False) -> Pretrained:
    """A run folder, a Hugging Face folder, a llama2.c `.bin` or a `.gguf` file, in our terms.

    With `check`, the files of a run are compared with the hashes that they were written with. With `blocks`, weights
    that are written in blocks stay in them, where regard knows their format.
    """
    run = RunFolder(path, check=check)
    if run.exists():
        return _with_room(open_run(run))
    if run.path.is_dir() and not (run.path / "config.json").exists():
        raise CheckpointError(
            f"{run.path}: neither a run (it has no config.toml) nor a model of others (no config.json)",
            hint="give the folder that `regard train` made, or one in Hugging Face's layout",
        )
    from regard.checkpoints.foreign.hub import open_foreign

    return _with_room(open_foreign(path, blocks=blocks))


def open_run(run: RunFolder) -> Pretrained:
    """The model of a run."""
    run.check_files()
    spec = run.read_model()
    if not run.weights.exists():
        raise CheckpointError(
            f"{run.path}: the run has no weights yet (model.safetensors)",
            hint=f"train it to its first evaluation: regard train --resume --out {run.path}",
        )
    tokenizer, target = read_tokenizers(run.path)
    origin = str(run.weights)
    run.check_weights()
    check_weights(spec.model, spec.options, stored_weights(run.weights), origin=origin)
    tensors = read_tensors(run.weights)
    return Pretrained(**vars(spec), tensors=tensors, tokenizer=tokenizer, target_tokenizer=target, origin=origin)


def _with_room(pretrained: Pretrained) -> Pretrained:
    """The same, if every id of its tokenizers has an embedding; more embeddings than ids do no harm."""
    options = pretrained.options.get("backbone", pretrained.options)
    sides = ((pretrained.tokenizer, ("n_tokens", "n_source")), (pretrained.target_tokenizer, ("n_target",)))
    for tokenizer, names in sides:
        room = next((int(options[name]) for name in names if name in options), None)
        if tokenizer is not None and room is not None and len(tokenizer) > room:
            raise CheckpointError(
                f"{pretrained.origin}: its tokenizer has {len(tokenizer):,} pieces, and the weights are for {room:,}",
                hint="they do not belong together: look for the tokenizer that the weights were trained with",
            )
    return pretrained
