"""From a recipe to a run: prepare the data, build the model, train it, and measure what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard.checkpoints.provenance import commit, hardware, versions
from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import load_weights, read_tensors, weights_of
from regard.config.recipe import Recipe
from regard.errors import ConfigError, UsageError
from regard.models.flops import count_parameters
from regard.training.averaging import averaged
from regard.training.setup import Begin, RunContext, Say, TaskSetup
from regard.training.trainer import Trainer

Facts = Mapping[str, Any]
Loop = Callable[[Recipe, RunContext, bool], dict[str, Any]]


def train(recipe: Recipe, out: Path, *, loop: Loop, data_root: Path | None, resume: bool, say: Say) -> dict[str, Any]:
    """Train a recipe in the folder `out`, or go on with the run that is there; what run.json says in the end."""
    run = RunFolder(out)
    _check_folder(run, recipe, resume=resume)
    return loop(recipe, RunContext.join(run, device=recipe.train.device, data_root=data_root, say=say), resume)


def fit(recipe: Recipe, context: RunContext, resume: bool, *, begin: Begin) -> dict[str, Any]:
    """The loop of every task that trains by the trainer: `begin` makes what is trained."""
    setup = begin(recipe, context)
    first = context.group.first
    if first:
        context.run.write_config(recipe.resolved())
        context.run.write_model(setup.spec)
        context.say(setup.introduction())
    trainer = Trainer(setup.task, setup.model, recipe.train.for_epochs(setup.task.batches_an_epoch), context)
    if resume and trainer.restore() and first:
        context.say(f"going on after step {trainer.progress.step}")
    trainer.fit()
    return _finish(recipe, setup, trainer, context) if first else {}


def _finish(recipe: Recipe, setup: TaskSetup, trainer: Trainer, context: RunContext) -> dict[str, Any]:
    """Take the weights that are kept, measure them, and write down what this run was."""
    run, model, progress = context.run, setup.model, trainer.progress
    if not progress.best:  # never evaluated: keep what there is
        if trainer.averager and progress.step % trainer.config.eval_every:
            trainer.averager.snapshot(model)
        with averaged(model, trainer.averager):
            run.write_weights(weights_of(model))
    load_weights(model, read_tensors(run.weights), origin=str(run.weights))
    model.eval()
    return write_facts(recipe, model, context, setup.facts(), progress.facts(), setup.measure(context.say))


def write_facts(
    recipe: Recipe, model: nn.Module, context: RunContext, data: Facts, training: Facts, metrics: Facts
) -> dict[str, Any]:
    """Write run.json: what this run was, on what data, how training went, and what it reached."""
    about = {"task": recipe.task, "seed": recipe.train.seed, "parameters": count_parameters(model)}
    made = {"versions": versions(), "hardware": hardware(context.device), "commit": commit()}
    facts = {**about, **data, **made, "training": training, "metrics": metrics}
    context.run.write_facts(facts)
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
