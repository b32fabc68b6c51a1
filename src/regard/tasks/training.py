"""Train a recipe, whatever its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.checkpoints.run import RunFolder
from regard.config.precedence import settle
from regard.config.process import unchanged
from regard.config.recipe import Recipe
from regard.tasks.facts.card import keep_card, write_card
from regard.tasks.opening import read_recipe
from regard.tasks.recipes import make_recipe
from regard.tasks.registry import resolve, task_spec
from regard.training.plan import Plan
from regard.training.run import Course, check_folder, fit
from regard.training.setup import RunContext, Say


def train(
    recipe: Recipe,
    out: Path,
    *,
    data_root: Path | None,
    resume: bool,
    say: Say,
    minutes: float | None = None,
    only_plan: bool = False,
) -> dict[str, Any]:
    """Train a recipe in the folder `out`, or go on with the run that is there; what run.json says in the end.

    `minutes` are how long it may take; with `only_plan` it says what it would do, and leaves nothing behind.
    """
    if only_plan:
        with TemporaryDirectory(prefix="regard-plan-") as folder:
            return _train(recipe, RunFolder(folder), data_root, Course(minutes=minutes, only_plan=True), say)
    run = RunFolder(out)
    begun = read_recipe(run) if run.exists() else None
    if begun is not None and resume and recipe.plans:  # what was planned then holds
        recipe = _with(recipe, run.read_config())
    check_folder(run, recipe, begun, resume=resume)
    return _train(recipe, run, data_root, Course(resume=resume, minutes=minutes), say)


def _train(recipe: Recipe, run: RunFolder, data_root: Path | None, course: Course, say: Say) -> dict[str, Any]:
    spec = task_spec(recipe.task)
    loop = resolve(spec.loop) if spec.loop else partial(fit, begin=resolve(spec.setup))
    context = RunContext.join(run, device=recipe.train.device, data_root=data_root, say=say)
    with unchanged(context.device):
        if recipe.plans and spec.plan and not run.exists():
            plan: Plan = context.group.from_first(lambda: resolve(spec.plan)(recipe, context))
            recipe, course = with_plan(recipe, plan), replace(course, plan=plan)
        facts: dict[str, Any] = loop(recipe, context, course)
    if context.group.first and not course.only_plan:
        keep_card(run.path, write_card(run.path))
    return facts


def with_plan(recipe: Recipe, plan: Plan) -> Recipe:
    """The recipe with all that is planned, and nothing that somebody set changed."""
    planned, given = plan.table(recipe.given.get("train", {})), recipe.given.get("model", {})
    model = planned.get("model", {})
    if given.get("name", model.get("name")) != model.get("name"):
        planned.pop("model")  # it was meant for another one
    return _with(recipe, planned)


def _with(recipe: Recipe, table: Mapping[str, Any]) -> Recipe:
    """The recipe with the settings of a table where nobody set others."""
    given: dict[str, dict[str, Any]] = {name: dict(part) for name, part in recipe.given.items() if name != "task"}
    sections = {name: dict(table.get(name, {})) | given.get(name, {}) for name in {*table, *given} - {"task"}}
    kept, _ = settle(type(recipe.train), table.get("train", {}), given.get("train", {}))
    sections["train"] = kept | given.get("train", {}) | {"plan": "off"}
    return make_recipe({"task": recipe.task, **sections})
