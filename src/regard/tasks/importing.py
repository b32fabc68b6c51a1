"""A model that others trained as a run of ours: opened, checked, and written as `train` writes one."""

from __future__ import annotations

from pathlib import Path

from regard.checkpoints.opening import open_model
from regard.checkpoints.provenance import date, versions
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
    pretrained = open_model(path)
    recipe, module = recipe_of(pretrained), pretrained.module()
    if task_spec(pretrained.task).reads_text:
        tokenizer_of(pretrained)  # says that there is none before anything is written
    described = with_defaults(
        ModelSpec(pretrained.task, pretrained.model, pretrained.options, pretrained.labels, pretrained.decode)
    )
    out.mkdir(parents=True, exist_ok=True)
    if pretrained.tokenizer is not None:
        save_tokenizers(out, pretrained.tokenizer, pretrained.target_tokenizer)
    predictor_of(pretrained.task).keep(pretrained, out)
    run.write_model(described)
    run.write_weights(weights_of(module))
    facts = {"task": pretrained.task, "origin": str(path), "parameters": count_parameters(module)}
    run.write_facts(facts | {"date": date(), "versions": versions(), "metrics": {}})
    run.write_config(recipe.resolved())  # last: from here on it is a run
    return described, count_parameters(module)
