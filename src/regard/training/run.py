"""From a recipe to a run: prepare the data, build the model, train it, and measure what came out."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from regard.checkpoints.history import read_history
from regard.checkpoints.provenance import commit, date, hardware, versions
from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import load_weights
from regard.config.recipe import Recipe
from regard.config.training import TrainConfig
from regard.config.wording import roughly, short_count
from regard.errors import ConfigError, UsageError
from regard.metrics.figure_names import figure
from regard.metrics.verdict import BASELINE, check_overfitting, check_warmup
from regard.models.flops import count_parameters
from regard.training.plan import Pace, Plan, measure_pace, shortened
from regard.training.setup import Begin, RunContext, TaskSetup
from regard.training.trainer import Trainer

Facts = Mapping[str, Any]
_READING = ("tokenizer.json", "source.json", "target.json")  # how texts become ids: the weights know no other way
WANTED = "; if other data is what you want: --changed-data"
_AFTERWARDS = 5.0  # seconds that baselines take


@dataclass(frozen=True)
class Course:
    """How a training is gone through: afresh or from where it stopped, by which plan, in how many minutes at most.

    With `only_plan` nothing is trained: what would be is said. `changed_data` is data that is another than it was, by
    the user's wish.
    """

    resume: bool = False
    plan: Plan | None = None
    minutes: float | None = None
    only_plan: bool = False
    changed_data: bool = False


Loop = Callable[[Recipe, RunContext, Course], dict[str, Any]]


def fit(recipe: Recipe, context: RunContext, course: Course, *, begin: Begin) -> dict[str, Any]:
    """The loop of every task that trains by the trainer: `begin` makes what is trained."""
    began, first = time.monotonic(), context.group.first
    with _reading_as_before(context.run, resume=course.resume and first):
        setup = begin(recipe, context)
    config = recipe.train.for_epochs(setup.task.batches_an_epoch)
    seconds = math.inf if course.minutes is None else 60 * course.minutes - (time.monotonic() - began)
    if course.plan is not None or course.minutes is not None:
        passes = config.steps
        config = _foreseen(recipe, setup, config, context, course.plan, seconds)
        if recipe.train.epochs == 0 or config.steps < passes:  # a budget counts in steps, also when it goes on
            recipe = replace(recipe, train=replace(config, epochs=0.0))
    if course.only_plan:
        return {}
    if first:
        if course.plan is None:
            context.say(setup.introduction())
        for remark in filter(None, (check_warmup(config.steps, config.warmup), *setup.remarks())):
            context.say(remark)
    trainer = Trainer(setup.task, setup.model, config, context, deadline=time.monotonic() + seconds)
    if course.resume and trainer.restore() and first:
        context.say(f"going on after step {trainer.progress.step}")
    if first:  # only now: what cannot go on has changed nothing
        context.run.write_config(recipe.resolved())
        context.run.write_model(setup.spec)
        context.run.seal()
    trainer.fit()
    return _finish(recipe, setup, trainer, context) if first else {}


def _foreseen(
    recipe: Recipe, setup: TaskSetup, config: TrainConfig, context: RunContext, plan: Plan | None, seconds: float
) -> TrainConfig:
    """Say what is going to happen, and how long it takes; as many steps as fit into the seconds there are."""
    known = plan or Plan(data=setup.about(), steps=config.steps)
    first, given = context.group.first, recipe.given.get("train", {})
    pace = measure_pace(setup.task, setup.model, config, context, cost=known.cost) if first else Pace(1.0)
    steps = config.steps
    if seconds < math.inf:
        known = replace(known, evaluations=pace.evaluations_in(seconds, most=known.evaluations))
        steps = min(steps, pace.steps_in(seconds, evaluations=known.evaluations))
    steps = int(context.group.total(steps if first else 0))
    config = config if steps == config.steps else shortened(config, known, steps, given)
    name, seconds = figure(setup.task.objective), pace.duration(config) + _AFTERWARDS
    until = f"; stops when {name.label} no longer {'falls' if name.less_is_better else 'rises'}"
    if first:
        context.say(
            f"{known.data} → {setup.title}, {short_count(count_parameters(setup.model))} parameters, "
            f"{'up to ' if config.patience else ''}{steps:,} steps, about {roughly(seconds)} on this "
            f"{'GPU' if context.device.type == 'cuda' else 'CPU'}{until if config.patience else ''}"
        )
    return config


def _finish(recipe: Recipe, setup: TaskSetup, trainer: Trainer, context: RunContext) -> dict[str, Any]:
    """Take the weights that are kept, measure them, and write down what this run was."""
    run, model, progress = context.run, setup.model, trainer.progress
    load_weights(model, run.read_weights(), origin=str(run.weights))
    model.eval()
    if (remark := _by_heart(run)) is not None:
        context.say(remark)
    return write_facts(recipe, model, context, setup.facts(), progress.facts(), setup.measure(context.say))


def _by_heart(run: RunFolder) -> str | None:
    """What to say where validation got worse while training got better."""
    history = read_history(run.metrics)
    valid = next((course for name, course in history.validation.items() if name.startswith("valid_")), {})
    train = history.training.get("nll", {})
    both = {step: [nll for at, nll in train.items() if at <= step] for step in valid}
    steps = [step for step in valid if both[step]]
    return check_overfitting([both[step][-1] for step in steps], [valid[step] for step in steps], hints=["more data"])


def write_facts(
    recipe: Recipe, model: nn.Module, context: RunContext, data: Facts, training: Facts, metrics: Facts
) -> dict[str, Any]:
    """Write run.json: what this run was, on what data, how training went, and what it reached."""
    about = {"task": recipe.task, "seed": recipe.train.seed, "parameters": count_parameters(model)}
    made = {"date": date(), "versions": versions(), "hardware": hardware(context.device), "commit": commit()}
    simple, own = _parted(metrics)
    facts = {**about, **data, **made, "training": training, "metrics": own} | ({"baselines": simple} if simple else {})
    context.run.write_facts(facts)
    return facts


def _parted(metrics: Facts) -> tuple[dict[str, Any], dict[str, Any]]:
    """What stands beside a model's figures, by test set and name, and those figures without it."""
    marked = {name: {key for key, m in part.items() if m["signature"] == BASELINE} for name, part in metrics.items()}
    simple = {name: {key: metrics[name][key]["value"] for key in sorted(keys)} for name, keys in marked.items() if keys}
    own = {name: {key: m for key, m in part.items() if key not in marked[name]} for name, part in metrics.items()}
    return simple, own


@contextmanager
def _reading_as_before(run: RunFolder, *, resume: bool) -> Iterator[None]:
    """Refuse tokenizers that came out otherwise than those that a run was begun with, and leave those there."""
    paths = [run.path / name for name in _READING] if resume and run.steps() else []
    before = {path: path.read_bytes() for path in paths if path.exists()}
    yield
    if changed := [path for path, content in before.items() if path.read_bytes() != content]:
        for path in changed:
            run.write_text(path.name, before[path].decode())
        raise ConfigError(
            f"{run.path}: its data gives another {changed[0].name} now, and the weights know the one that is there",
            hint=f"go on with the old one: tokenizer.file={shlex.quote(str(changed[0]))}; or begin a new run",
        )


def check_folder(
    run: RunFolder, recipe: Recipe, begun: Recipe | None, *, resume: bool, changed_data: bool = False
) -> list[str]:
    """Refuse a folder with a run that is not to be gone on with, or that was begun otherwise; else what is otherwise.

    With `changed_data`, other data and another tokenizer are wanted.
    """
    if begun is None:
        return []
    if not resume:
        raise UsageError(
            f"{run.path}: there is a run already", hint="give another --out, or go on with this one: --resume"
        )
    before, now = begun.resolved(), recipe.resolved()
    fixed = ("task", "model") if changed_data else ("task", "model", "data", "tokenizer")
    changed = [line for name in fixed for line in _differences(name, before.get(name), now.get(name))]
    if changed:
        of_data = all(line.startswith(("data", "tokenizer")) for line in changed)
        raise ConfigError(
            f"{run.path} was begun with other settings, and cannot go on with these: {', '.join(changed)}",
            hint=f"resume with the recipe of the run, or begin a new one{WANTED if of_data else ''}",
        )
    given = recipe.given.get("train", {})
    others = [line for name in ("data", "tokenizer") for line in _differences(name, before.get(name), now.get(name))]
    return others + _differences("train", *({k: part[k] for k in given if k in part} for part in _trains(before, now)))


def _trains(*tables: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [table.get("train", {}) for table in tables]


def _differences(name: str, before: Any, now: Any) -> list[str]:
    """What differs between two settings, or two tables of them: "train.lr: 0.1 → 0.2"."""
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return [] if before == now else [f"{name}: {_shown(before)} → {_shown(now)}"]
    keys = [*before, *(key for key in now if key not in before)]
    return [line for key in keys for line in _differences(f"{name}.{key}", before.get(key), now.get(key))]


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)
