"""From a recipe to a run: prepare the data, build the model, train it, and measure what came out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.checkpoints.provenance import commit, hardware, versions
from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import load_weights, read_tensors, weights_of
from regard.config.devices import choose_device
from regard.config.recipe import Recipe
from regard.errors import ConfigError, UsageError
from regard.models.flops import count_parameters
from regard.training.averaging import averaged
from regard.training.distributed import World
from regard.training.setup import Begin, Job, Place, Say
from regard.training.trainer import Trainer

Loop = Callable[[Recipe, Place, bool], dict[str, Any]]


def train(recipe: Recipe, out: Path, *, loop: Loop, data_root: Path | None, resume: bool, say: Say) -> dict[str, Any]:
    """Train a recipe in the folder `out`, or go on with the run that is there; what run.json says in the end."""
    run = RunFolder(out)
    _check_folder(run, recipe, resume=resume)
    device = choose_device(recipe.train.device)
    return loop(recipe, Place(run, data_root, device, World.join(device), say), resume)


def fit(recipe: Recipe, place: Place, resume: bool, *, begin: Begin) -> dict[str, Any]:
    """The loop of every task that trains by the trainer: `begin` makes what is trained."""
    job = begin(recipe, place)
    first = place.world.first
    if first:
        place.run.write_config(recipe.resolved())
        place.run.write_model(job.described)
        place.say(job.introduction())
    trainer = Trainer(job.task, job.model, recipe.train.for_epochs(job.task.batches_an_epoch), place.run)
    if resume and trainer.restore() and first:
        place.say(f"going on after step {trainer.progress.step}")
    trainer.fit()
    return _finish(recipe, job, trainer, place) if first else {}


def _finish(recipe: Recipe, job: Job, trainer: Trainer, place: Place) -> dict[str, Any]:
    """Take the weights that are kept, measure them, and write down what this run was."""
    run, model, progress = place.run, job.model, trainer.progress
    if not progress.best:  # never evaluated: keep what there is
        if trainer.averager and progress.step % trainer.config.eval_every:
            trainer.averager.snapshot(model)
        with averaged(model, trainer.averager):
            run.write_weights(weights_of(model))
    load_weights(model, read_tensors(run.weights), origin=str(run.weights))
    model.eval()
    facts = {
        "task": recipe.task,
        "seed": recipe.train.seed,
        "parameters": count_parameters(model),
        **job.facts(),
        "versions": versions(),
        "hardware": hardware(place.device),
        "commit": commit(),
        "training": progress.facts(),
        "metrics": job.measure(place.say),
    }
    run.write_facts(facts)
    return facts


def _check_folder(run: RunFolder, recipe: Recipe, *, resume: bool) -> None:
    if not run.exists():
        return
    if not resume:
        raise UsageError(
            f"{run.path}: there is a run already", hint="give another --out, or go on with this one: --resume"
        )
    before, now = run.read_config(), recipe.resolved()
    changed = [name for name in ("task", "model", "data", "tokenizer") if before.get(name) != now.get(name)]
    if changed:
        raise ConfigError(
            f"{run.path} was begun with another [{'], ['.join(changed)}]; it cannot go on with these",
            hint="resume with the recipe of the run, or begin a new one",
        )
