"""Recipes: everything that decides a run, in one TOML file.

    task = "translation"
    [model]      name, size, and any option of that model
    [data]       where the examples are
    [tokenizer]  how text becomes pieces
    [train]      steps, rate, seed, ...
    [decode]     how the model is asked

Overrides `section.key=value` win over the file. Which settings there are is the task's to say: see `tasks.recipes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from datetime import date, time
from pathlib import Path
from typing import Any

from regard.config.bounded import parse_toml, read_toml
from regard.config.settings import Settings
from regard.config.training import TrainConfig
from regard.errors import ConfigError

SECTIONS = ("data", "tokenizer", "train", "decode")


@dataclass(frozen=True)
class Recipe:
    """A checked recipe. `model` holds the name, the size and the options given; the sections' types are the task's.

    `given` is what somebody set, by section: all else is a default, or is planned if `plans` says so.
    """

    task: str
    model: Mapping[str, Any]
    data: Any
    tokenizer: Any
    train: TrainConfig
    decode: Any
    given: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    plans: bool = field(default=False, compare=False, repr=False)

    def resolved(self) -> dict[str, Any]:
        """Everything that counts, defaults included, as it is written to config.toml."""
        sections = {name: _plain(_counting(getattr(self, name))) for name in SECTIONS}
        return {"task": self.task, "model": dict(self.model)} | sections


def read_recipe(path: Path) -> dict[str, Any]:
    """The table of a recipe file."""
    try:
        return read_toml(path)
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read ({problem.strerror})") from problem
    except ValueError as problem:
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


def _value(text: str) -> Any:
    """A value as TOML reads it; what is no TOML is plain text, and so are dates: settings have them as text."""
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text
    return text if isinstance(value, date | time) else value


def _counting(section: Any) -> dict[str, Any]:
    idle = section.idle() if isinstance(section, Settings) else frozenset()
    return {name: value for name, value in asdict(section).items() if name not in idle}


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """As TOML will give it back: lists for tuples, and nothing for what is not set."""
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    nested = {name: _plain(value) if isinstance(value, Mapping) else value for name, value in listed.items()}
    return {name: value for name, value in nested.items() if value not in (None, [], {})}
