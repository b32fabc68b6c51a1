"""Train a recipe, whatever its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.checkpoints.run import RunFolder
from regard.config.precedence import settle
from regard.config.process import unchanged
from regard.config.recipe import Recipe
from regard.data.io.hashes import read_hashes
from regard.data.io.lines import listed
from regard.errors import ConfigError, RegardError
from regard.tasks.data_record import changes, forget_record, keep_record, read_kept, read_record
from regard.tasks.facts.card import keep_card, write_card
from regard.tasks.opening import read_recipe
from regard.tasks.recipes import make_recipe
from regard.tasks.registry import resolve, task_spec
from regard.training.distributed import is_elastic
from regard.training.liveness import end_process
from regard.training.plan import Plan
from regard.training.run import WANTED, Course, check_folder, fit
from regard.training.setup import RunContext, Say, holding


def train(
    recipe: Recipe,
    out: Path,
    *,
    data_root: Path | None,
    resume: bool,
    say: Say,
    minutes: float | None = None,
    only_plan: bool = False,
    check: bool = True,
    changed_data: bool = False,
    on_lost: Callable[[], None] = end_process,
) -> dict[str, Any]:
    """Train a recipe in the folder `out`, or go on with the run that is there; what run.json says in the end.

    `minutes` are how long it may take; with `only_plan` it says what it would do, and leaves nothing behind. What is
    gone on with is compared with the hashes that it was written with, without `check` not; so is the data, and
    with `changed_data` it may be another. Where `torchrun` may start it again, it goes on with what is there.
    Of several processes, one that is stuck since another is gone calls `on_lost`, which ends it.
    """
    if only_plan:
        with TemporaryDirectory(prefix="regard-plan-") as folder:
            context = RunContext.join(RunFolder(folder), device=recipe.train.device, data_root=data_root, say=say)
            return _train(recipe, context, Course(minutes=minutes, only_plan=True))
    run, resume = RunFolder(out, check=check), resume or is_elastic()
    if resume:
        run.check_files(made=True)
    begun = read_recipe(run) if run.exists() else None
    if begun is not None and resume and recipe.plans:  # what was planned then holds
        recipe = _with(recipe, run.read_config())
    remarks = check_folder(run, recipe, begun, resume=resume, changed_data=changed_data)
    context = RunContext.join(run, device=recipe.train.device, data_root=data_root, say=say, on_lost=on_lost)
    course = Course(resume=resume, minutes=minutes, changed_data=changed_data)
    with holding(context):
        if begun is None and run.exists():
            check_folder(run, recipe, recipe, resume=resume)  # another training was here meanwhile
        try:
            context.group.from_first(lambda: _check_data(recipe, context, course, remarks))
            return _train(recipe, context, course)
        except RegardError:
            if context.group.first and not run.exists():
                forget_record(run)
            raise


def _check_data(recipe: Recipe, context: RunContext, course: Course, remarks: Sequence[str]) -> None:
    """Keep what the data is, and refuse to go on with data that is another; what is otherwise by wish is said."""
    run = context.run
    going_on = course.resume and run.exists()
    if going_on and not run.check:
        run.unseal()
    elif going_on and read_hashes(run.path) is None:
        context.say(f"{run.path}: an older version wrote it, without hashes: its files cannot be checked")
    before = read_kept(run) if going_on and run.check else None
    now = read_record(recipe, context.data_root, before=before or {})
    changed = [] if before is None else changes(before, now)
    if changed and not course.changed_data:
        raise ConfigError(
            f"{run.path}: the data is not what the run was begun with:\n  {listed(changed)}",
            hint=f"put the old data back, or begin a new run{WANTED}",
        )
    for line in (*remarks, *changed):
        context.say(f"changed since the run was begun: {line}")
    if before != now:
        keep_record(run, now)


def _train(recipe: Recipe, context: RunContext, course: Course) -> dict[str, Any]:
    spec, run = task_spec(recipe.task), context.run
    loop = resolve(spec.loop) if spec.loop else partial(fit, begin=resolve(spec.setup))
    with unchanged(context.device):
        if recipe.plans and spec.plan and not run.exists():
            plan: Plan = context.group.from_first(lambda: resolve(spec.plan)(recipe, context))
            recipe, course = with_plan(recipe, plan), replace(course, plan=plan)
        facts: dict[str, Any] = loop(recipe, context, course)
    if context.group.first and not course.only_plan:
        run.seal()
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
