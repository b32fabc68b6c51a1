"""From a folder to a model that is ready for its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoints import RunFolder, load_weights, read_tensors
from regard.errors import CheckpointError, ConfigError, EnvironmentProblem
from regard.predictors.base import Predictor
from regard.predictors.translation import TranslationPredictor
from regard.tasks.pairs import Languages
from regard.training.devices import choose_device
from regard.training.jobs.translation import new_model as new_translator
from regard.training.recipe import Recipe, make_recipe

Open = Callable[[RunFolder, Recipe, torch.device, str], Predictor[Any]]


def load(
    folder: Path | str, device: str = "auto", *, precision: str = "auto"
) -> Any:  # the task decides which predictor it is
    """Open a run folder: the model it holds, ready for its task, on a device ("auto", "cpu", "cuda", "cuda:1").

    `precision` is what predictions are computed in: "fp32" (what "auto" means), "bf16", or on a CPU "int8". Looking
    inside and log-probabilities always use the weights as they were trained.
    """
    run = RunFolder(folder)
    if not run.path.is_dir():
        raise CheckpointError(f"{run.path}: there is no such folder", hint="give the folder that `regard train` made")
    recipe = _recipe(run)
    if not run.weights.exists():
        raise CheckpointError(
            f"{run.path}: the run has no weights yet (model.safetensors)",
            hint=f"train it to its first evaluation: regard train --resume --out {run.path}",
        )
    return OPEN[recipe.task](run, recipe, _device(device), precision)


def with_weights(run: RunFolder, make: Callable[[], nn.Module], device: torch.device) -> nn.Module:
    """The model that `make` builds, with the weights of a run, on a device."""
    with torch.random.fork_rng(devices=[]):  # the first weights are drawn, only to be replaced
        model = make()
    load_weights(model, read_tensors(run.weights), origin=str(run.weights))
    return model.to(device).eval()


def _translation(run: RunFolder, recipe: Recipe, device: torch.device, precision: str) -> TranslationPredictor:
    languages = Languages.load(run.path, moses=recipe.data.moses)
    model = with_weights(run, lambda: new_translator(recipe, languages), device)
    return TranslationPredictor([model], languages, recipe, precision=precision)


OPEN: Mapping[str, Open] = {"translation": _translation}


def _recipe(run: RunFolder) -> Recipe:
    table = run.read_config()
    if (run.path / "run.json").exists():
        run.read_facts()  # refuses what a newer version wrote
    try:
        return make_recipe(table)
    except ConfigError as problem:
        raise CheckpointError(
            f"{run.path / 'config.toml'}: {problem}", hint="it may have been written by another version of regard"
        ) from problem


def _device(name: str) -> torch.device:
    try:
        return choose_device(name)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(str(problem), hint="use the device cpu, or auto") from problem
