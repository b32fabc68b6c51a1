"""A model that others trained as a run of ours: opened, checked, and written as `train` writes one."""

from __future__ import annotations

from pathlib import Path

from regard.checkpoints.opening import open_model
from regard.checkpoints.provenance import versions
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec, with_defaults
from regard.checkpoints.weights import weights_of
from regard.data.text.tokenizers import save_tokenizers
from regard.errors import UsageError
from regard.models.flops import count_parameters
from regard.tasks.base import tokenizer_of
from regard.tasks.opening import predictor_of, recipe_of
from regard.tasks.registry import task_spec


def import_model(path: Path | str, out: Path) -> tuple[ModelSpec, int]:
    """Write the model at `path` to the run folder `out`; what it is, and how many parameters it has."""
    run = RunFolder(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: there is something already", hint="give another --out")
    if RunFolder(path).exists():
        raise UsageError(f"{path}: is a run already", hint="it can be used as it is")
    found = open_model(path)
    recipe, module = recipe_of(found), found.module()
    if task_spec(found.task).reads_text:
        tokenizer_of(found)  # says that there is none before anything is written
    described = with_defaults(ModelSpec(found.task, found.model, found.options, found.labels, found.decode))
    out.mkdir(parents=True, exist_ok=True)
    if found.tokenizer is not None:
        save_tokenizers(out, found.tokenizer, found.target_tokenizer)
    predictor_of(found.task).keep(found, out)
    run.write_model(described)
    run.write_weights(weights_of(module))
    facts = {"task": found.task, "origin": str(path), "parameters": count_parameters(module)}
    run.write_facts(facts | {"versions": versions(), "metrics": {}})
    run.write_config(recipe.resolved())  # last: from here on it is a run
    return described, count_parameters(module)
