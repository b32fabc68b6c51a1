"""A model that others trained as a run of ours: opened, checked, and written as `train` writes one."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from regard.checkpoints.opening import WITHOUT_PIECES, open_model
from regard.checkpoints.provenance import versions
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import Described, Pretrained, completed
from regard.checkpoints.weights import weights_of
from regard.data.text.tokenizer_files import save_tokenizers
from regard.errors import UsageError
from regard.models.flops import count_parameters
from regard.tasks.images.predictor import image_space
from regard.tasks.opening import label_space, recipe_of, tokenizer_of


def import_model(path: Path | str, out: Path) -> tuple[Described, int]:
    """Write the model at `path` to the run folder `out`; what it is, and how many parameters it has."""
    run = RunFolder(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: there is something already", hint="give another --out")
    if RunFolder(path).exists():
        raise UsageError(f"{path}: is a run already", hint="it can be used as it is")
    found = open_model(path)
    tokenizer = None if found.task in WITHOUT_PIECES else tokenizer_of(found)
    recipe, module = recipe_of(found), found.module()
    described = completed(Described(found.task, found.model, found.options, found.labels, found.decode))
    out.mkdir(parents=True, exist_ok=True)
    if tokenizer is not None:
        save_tokenizers(out, tokenizer, found.target_tokenizer)
    if found.task == "images":
        image_space(found).save(out)
    if found.task == "labels":
        label_space(found).save(out)
    run.write_model(described)
    run.write_weights(weights_of(module))
    run.write_facts(_facts(found, path, module))
    run.write_config(recipe.resolved())  # last: from here on it is a run
    return described, count_parameters(module)


def _facts(found: Pretrained, path: Path | str, module: nn.Module) -> dict[str, object]:
    return {
        "task": found.task,
        "origin": str(path),
        "parameters": count_parameters(module),
        "versions": versions(),
        "metrics": {},
    }
