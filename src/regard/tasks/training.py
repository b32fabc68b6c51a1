"""Train a recipe, whatever its task."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from regard.checkpoints.run import RunFolder
from regard.config.recipe import Recipe
from regard.tasks.opening import read_recipe
from regard.tasks.registry import resolve, task_spec
from regard.training.run import fit
from regard.training.run import train as train_in
from regard.training.setup import Say


def train(recipe: Recipe, out: Path, *, data_root: Path | None, resume: bool, say: Say) -> dict[str, Any]:
    """Train a recipe in the folder `out`, or go on with the run that is there; what run.json says in the end."""
    spec = task_spec(recipe.task)
    loop = resolve(spec.loop) if spec.loop else partial(fit, begin=resolve(spec.setup))
    run = RunFolder(out)
    begun = read_recipe(run) if run.exists() else None
    return train_in(recipe, out, loop=loop, begun=begun, data_root=data_root, resume=resume, say=say)
