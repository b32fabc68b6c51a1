"""Recipes: everything that decides a run, in one TOML file.

    task = "translation"
    [model]      name, size, and any option of that model
    [data]       where the examples are
    [tokenizer]  how text becomes pieces
    [train]      steps, rate, seed, ...
    [decode]     how the model is asked

Overrides `section.key=value` win over the file. Whatever is wrong is reported at once, with the nearest known name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from regard.config.schema import nearest, problems, typed
from regard.config.training import TrainConfig
from regard.errors import ConfigError
from regard.models.registry import MODELS, configure, entry
from regard.tasks.registry import KINDS, SECTIONS, Kind

TASKS = tuple(KINDS)
DEFAULT_TASK = "translation"


@dataclass(frozen=True)
class Recipe:
    """A checked recipe. `model` holds the name, the size and the options given; the sections' types are the task's."""

    task: str
    model: Mapping[str, Any]
    data: Any
    tokenizer: Any
    train: TrainConfig
    decode: Any

    def resolved(self) -> dict[str, Any]:
        """Everything, defaults included, as it is written to config.toml."""
        sections = {name: _plain(asdict(getattr(self, name))) for name in SECTIONS}
        return {"task": self.task, "model": dict(self.model)} | sections


def make_recipe(table: Mapping[str, Any], overrides: Sequence[str] = ()) -> Recipe:
    """Check a recipe's table and its overrides, and report all that is wrong at once."""
    table = override(table, overrides)
    wrong = [_unknown_section(name) for name in table if name not in ("task", "model", *SECTIONS)]
    task = table.get("task", DEFAULT_TASK)
    if task not in TASKS:
        wrong.append(f"task = {task!r}: there are {', '.join(TASKS)}")
    kind = KINDS[task if task in TASKS else DEFAULT_TASK]
    misplaced = [name for name in ("model", *SECTIONS) if not isinstance(table.get(name, {}), Mapping)]
    wrong += [f"{name} = {table.pop(name)!r}: a section was expected, such as [{name}]" for name in misplaced]
    for name, record in kind.sections.items():
        wrong += problems(record, table.get(name, {}), where=name)
    wrong += _model_problems(kind, table.get("model", {}))
    if wrong:
        raise ConfigError("\n  ".join(["the recipe cannot be used:", *wrong]))
    sections = {name: typed(record, table.get(name, {}), where=name) for name, record in kind.sections.items()}
    return Recipe(task=task, model=kind.model(table.get("model", {})), **sections)


def read_recipe(path: Path) -> dict[str, Any]:
    """The table of a recipe file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read ({problem.strerror})") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: not a TOML file ({problem})") from problem


def override(table: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The table with `section.key=value` settings put in."""
    result = deepcopy(dict(table))
    for text in overrides:
        key, equals, value = text.partition("=")
        parts = key.split(".")
        if not equals or not all(parts):
            raise ConfigError(f"{text!r} is not an override", hint="write section.key=value, such as train.steps=500")
        place: Any = result
        for part in parts[:-1]:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{text!r}: {part} is a value, not a section")
        place[parts[-1]] = _value(value)
    return result


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
    if name in TASKS:
        return {"task": name}
    return read_recipe(find_shipped(name))


def find_shipped(name: str) -> Path:
    """The file of a shipped recipe: by task/name, or by its name alone."""
    known = shipped()
    matches = [key for key in known if name in (key, key.split("/")[1])]
    if len(matches) == 1:
        return known[matches[0]]
    names = {*known, *(key.split("/")[1] for key in known), *TASKS} - {name}
    near = nearest(name, sorted(names))
    raise ConfigError(
        f"no recipe is called {name!r}; there are {', '.join(known)}, and the tasks {', '.join(TASKS)}",
        hint=f"did you mean {near}?" if near else "`regard recipes` lists them; a file's name ends in .toml",
    )


def _value(text: str) -> Any:
    """A value as TOML reads it; what is no TOML is plain text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """As TOML will give it back: lists for tuples, and nothing for what is not set."""
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    nested = {name: _plain(value) if isinstance(value, Mapping) else value for name, value in listed.items()}
    return {name: value for name, value in nested.items() if value not in (None, [], {})}


def _model_problems(kind: Kind, section: Mapping[str, Any]) -> list[str]:
    options = dict(section)
    name, size = options.pop("name", kind.models[0]), options.pop("size", None)
    for beginning in kind.beginnings:  # found when training begins
        options.pop(beginning, None)
    if name in MODELS and name not in kind.models:
        return [f"model.name = {name!r}: the task's models are {', '.join(kind.models)}"]
    try:
        configure(name, size)
    except ConfigError as problem:
        return [f"model: {problem}" + (f" ({problem.hint})" if problem.hint else "")]
    return problems(entry(name).config, options, where="model")


def _unknown_section(name: str) -> str:
    near = nearest(name, ("task", "model", *SECTIONS))
    return f"[{name}] is not a section; " + (f"did you mean [{near}]?" if near else f"there are {', '.join(SECTIONS)}")
