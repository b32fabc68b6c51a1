"""From a folder to a model that is ready for its task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch

from regard.checkpoints.opening import open_model
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import Pretrained
from regard.config.bounded import at_most, read_size
from regard.config.devices import choose_device
from regard.config.recipe import Recipe
from regard.config.twins import twin
from regard.data.io.hashes import check_hashes
from regard.errors import CheckpointError, ConfigError, EnvironmentProblem
from regard.tasks.base import Predictor
from regard.tasks.recipes import make_recipe
from regard.tasks.registry import resolve, task_spec


def load(
    folder: Path | str,
    device: str = "auto",
    *,
    precision: str = "auto",
    check: bool = True,
    max_memory: str | int | None = None,
) -> Any:
    """Open a trained model, ready for its task, on a device ("auto", "cpu", "cuda", "cuda:1").

    On "meta" it has no weights: settings and tokenizers, for who has another process predict.

    `folder` is a run, a Hugging Face folder, a llama2.c `.bin` or a `.gguf` file. `precision` is what predictions are
    computed in: "fp32" (what "auto" means, except that a CPU multiplies the weights of a GGUF file in their blocks),
    "bf16", or on a CPU "int8". Looking inside and log-probabilities always
    use the weights as they were trained. With `check`, the files of a run are compared with the hashes that they were
    written with, which takes about a third of a second a GiB. `max_memory` bounds what opening may take: bytes, or a
    size such as "8GB"; None: what is free, or what a block of `at_most` allows.
    """  # what it is, the task decides
    if max_memory is not None:
        with at_most(read_size(max_memory) if isinstance(max_memory, str) else max_memory):
            return load(folder, device, precision=precision, check=check)
    run = RunFolder(folder, check=check)
    if not run.path.exists():
        raise CheckpointError(f"{run.path}: there is no such folder", hint="give the folder that `regard train` made")
    if check:
        check_hashes(run.path, ["config.toml", "run.json"])
    recipe = read_recipe(run) if run.exists() else None
    pretrained = open_model(run.path, check=check, blocks=_keeps_blocks(run.path, device, precision))
    chosen_device = _device(device)
    with torch.random.fork_rng(devices=[]):  # the first weights are drawn, only to be replaced
        module = pretrained.outline() if chosen_device.type == "meta" else pretrained.module().to(chosen_device)
    chosen = recipe or recipe_of(pretrained)
    predictor = predictor_of(pretrained.task).open(pretrained, chosen, module, precision=precision)
    predictor.folder = None if recipe is None else run.path
    return predictor


def predictor_of(task: str) -> type[Predictor[Any, Any]]:
    """The class of a task's predictors."""
    return cast(type[Predictor[Any, Any]], resolve(task_spec(task).predictor))


def recipe_of(pretrained: Pretrained) -> Recipe:
    """A recipe for a model that others trained: its task, what it is, how it reads, and how it is to be decoded."""
    model = {"name": pretrained.model, **given_options(pretrained.options)}
    data = predictor_of(pretrained.task).reading(pretrained)
    return make_recipe({"task": pretrained.task, "model": model, "data": data, "decode": dict(pretrained.decode)})


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a recipe can hold them: what is not set is left out, also of a backbone."""
    return {
        name: given_options(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if value is not None
    }


def read_recipe(run: RunFolder) -> Recipe:
    """The recipe of a run."""
    table = run.read_config()
    if (run.path / "run.json").exists():
        run.read_facts()  # refuses what a newer version wrote
    try:
        return make_recipe(table)
    except ConfigError as problem:
        raise CheckpointError(
            f"{run.path / 'config.toml'}: {problem}", hint="it may have been written by another version of regard"
        ) from problem


def _keeps_blocks(path: Path, device: str, precision: str) -> bool:
    """Whether weights in blocks stay in them: where something multiplies them as they are, unless fp32 is asked for."""
    if path.suffix != ".gguf" or precision != "auto" or _device(device).type != "cpu":
        return False
    fast = twin("keeps_blocks")
    return fast is not None and bool(fast())


def _device(name: str) -> torch.device:
    try:
        return choose_device(name)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(str(problem), hint="use the device cpu, or auto") from problem
