"""From a recipe's table to a checked recipe, and the recipes that come with regard.

    make_recipe({"task": "series", "data": {"train": ["sales.csv"]}}, ["train.steps=500"])
    find_recipe("translation/dates")        a shipped recipe; a path to a .toml file; or the name of a task

Whatever is wrong is reported at once, with the nearest known name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from regard.config.precedence import settle
from regard.config.recipe import SECTIONS, Recipe, override, read_recipe
from regard.config.schema import both_given, nearest, problems, typed
from regard.config.settings import old_names, with_new_names
from regard.errors import ConfigError
from regard.models import registry as models
from regard.tasks.registry import TaskSpec, task_names, task_spec

DEFAULT_TASK = "translation"


def make_recipe(table: Mapping[str, Any], overrides: Sequence[str] = ()) -> Recipe:
    """Check a recipe's table and its overrides, and report all that is wrong at once."""
    given = override(table, overrides)
    wrong = [_unknown_section(name) for name in given if name not in ("task", "model", *SECTIONS)]
    task = given.get("task", DEFAULT_TASK)
    if task not in task_names():
        wrong.append(f"task = {task!r}: there are {', '.join(task_names())}")
    spec = task_spec(task if task in task_names() else DEFAULT_TASK)
    misplaced = [name for name in ("model", *SECTIONS) if not isinstance(given.get(name, {}), Mapping)]
    wrong += [f"{name} = {given.pop(name)!r}: a section was expected, such as [{name}]" for name in misplaced]
    if not misplaced:
        given, more = _settled(spec, table, overrides, model=given.get("model", {}).get("name", spec.models[0]))
        wrong += more
    for name, record in spec.sections.items():
        wrong += problems(record, given.get(name, {}), where=name)
    wrong += _model_problems(spec, given.get("model", {}))
    if wrong:
        raise ConfigError("\n  ".join(["the recipe cannot be used:", *wrong]))
    sections = {name: typed(record, given.get(name, {}), where=name) for name, record in spec.sections.items()}
    plan = sections["train"].plan
    plans = plan == "on" or (plan == "auto" and not set(table) & {"model", "tokenizer", "train"})
    return Recipe(task=task, model=spec.model(given.get("model", {})), **sections, given=given, plans=plans)


def _settled(
    spec: TaskSpec, table: Mapping[str, Any], overrides: Sequence[str], *, model: str
) -> tuple[dict[str, Any], list[str]]:
    """The table with the overrides, by the names of today, without what these exclude; and what is wrong with that."""
    line, file = override({}, overrides), dict(table)
    file["train"], wrong = settle(spec.train, table.get("train", {}), line.get("train", {}))
    names: dict[str, str] = {}
    own = {"model": models.entry(model).config} if model in models.names() else {}
    for section, record in (dict(spec.sections) | own).items():
        file[section], twice = with_new_names(record, file.get(section, {}))
        _, both = with_new_names(record, line.get(section, {}))
        wrong += [both_given(f"{section}.{old}", f"{section}.{new}") for old, new in (*twice, *both)]
        names |= {f"{section}.{old}": f"{section}.{new}" for old, new in old_names(record).items()}
    words = [text.partition("=") for text in overrides]
    return override(file, [names.get(key, key) + equals + value for key, equals, value in words]), wrong


def shipped() -> dict[str, Path]:
    """The recipes that come with regard, by name: task/name."""
    root = Path(str(resources.files("regard") / "recipes"))
    if not root.is_dir():  # in a checkout they stand beside the source
        root = Path(__file__).parents[3] / "recipes"
    return {f"{path.parent.name}/{path.stem}": path for path in sorted(root.glob("*/*.toml"))}


def find_recipe(name: str) -> dict[str, Any]:
    """The table of a recipe given by path, or by the name of a shipped one, or of a task for its defaults."""
    if name.endswith(".toml"):
        return read_recipe(Path(name))
    if name in task_names():
        return {"task": name}
    return read_recipe(find_shipped(name))


def is_recipe(name: str) -> bool:
    """Whether a word names a recipe: a TOML file, a shipped recipe or a task."""
    return name.endswith(".toml") or name in task_names() or name in shipped()


def find_shipped(name: str) -> Path:
    """The file of a shipped recipe: by task/name, or by its name alone."""
    known = shipped()
    matches = [key for key in known if name in (key, key.split("/")[1])]
    if len(matches) == 1:
        return known[matches[0]]
    names = {*known, *(key.split("/")[1] for key in known), *task_names()} - {name}
    near = nearest(name, sorted(names))
    raise ConfigError(
        f"no recipe is called {name!r}; there are {', '.join(known)}, and the tasks {', '.join(task_names())}",
        hint=f"did you mean {near}?" if near else "`regard recipes` lists them; a file's name ends in .toml",
    )


def _model_problems(spec: TaskSpec, section: Mapping[str, Any]) -> list[str]:
    options = dict(section)
    name, size = options.pop("name", spec.models[0]), options.pop("size", None)
    for beginning in spec.beginnings:  # found when training begins
        options.pop(beginning, None)
    if name in models.names() and name not in spec.models and spec.name not in models.entry(name).tasks:
        return [f"model.name = {name!r}: the task's models are {', '.join(spec.models)}"]
    try:
        models.configure(name, size)
    except ConfigError as problem:
        return [f"model: {problem}" + (f" ({problem.hint})" if problem.hint else "")]
    return problems(models.entry(name).config, options, where="model")


def _unknown_section(name: str) -> str:
    near = nearest(name, ("task", "model", *SECTIONS))
    return f"[{name}] is not a section; " + (f"did you mean [{near}]?" if near else f"there are {', '.join(SECTIONS)}")
