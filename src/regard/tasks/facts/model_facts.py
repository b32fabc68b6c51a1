"""What a model that has a name is: its options, its sizes with their parameters, and the tasks that it is for.

    describe_model("gpt").sizes          tiny, small, gpt2, …
    describe_model("transformer/base")   one of its sizes

How many parameters there are depends on the vocabulary: each token adds so many to what the rest has.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from regard.attention.taps import Tap
from regard.checkpoints.headers import count_of, outline
from regard.config.defaults import changed
from regard.errors import ConfigError, RegardError
from regard.models.registry import configure, entry, names
from regard.tasks.registry import task_names, task_spec

VOCABULARY = 32_000  # parameters are told for so many tokens
_VOCABULARIES = ("n_source", "n_target", "n_tokens")


@dataclass(frozen=True)
class Option:
    """A setting of a model: what it may be, and what it is when nothing is said."""

    name: str
    kind: str
    default: Any


@dataclass(frozen=True)
class Size:
    """A named size: what it sets, and its parameters: some for each token of the vocabulary, and all others."""

    name: str
    options: Mapping[str, Any]
    fixed: int
    a_token: int

    @property
    def parameters(self) -> int:
        """How many there are with a vocabulary of `VOCABULARY` tokens."""
        return self.fixed + VOCABULARY * self.a_token


@dataclass(frozen=True)
class NamedModel:
    """A model of the registry. `chosen` is the size that was asked for."""

    name: str
    about: str
    tasks: tuple[str, ...]
    options: tuple[Option, ...]
    sizes: tuple[Size, ...]
    chosen: Size | None = None

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        sizes = [asdict(size) | {"parameters": size.parameters, "vocabulary": VOCABULARY} for size in self.sizes]
        chosen = None if self.chosen is None else self.chosen.name
        said = {"name": self.name, "about": self.about, "tasks": list(self.tasks), "size": chosen}
        return said | {"options": [asdict(option) for option in self.options], "sizes": sizes}


def is_model(name: str) -> bool:
    """Whether a name is that of a model, or of one in a size."""
    return name.partition("/")[0] in names()


def describe_model(name: str) -> NamedModel:
    """The model of that name: `gpt`, or `gpt/small` in a size."""
    model, _, wanted = name.partition("/")
    found = entry(model)
    if wanted:
        configure(model, wanted)  # says which sizes there are
    sizes = {size: _size(model, size) for size in found.sizes if not wanted or size == wanted}
    return NamedModel(
        model,
        _about(found.config, found.module),
        tuple(task for task in task_names() if model in task_spec(task).models),
        _options(model, wanted or None),
        tuple(sizes.values()),
        sizes.get(wanted),
    )


def chosen_options(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options of a model that differ from its defaults, also of a backbone; all of a model that has no name."""
    if model not in names():
        return dict(options)
    chosen = changed(entry(model).config, options)
    backbone = chosen.get("backbone")
    if isinstance(backbone, Mapping) and backbone.get("name") in names():
        rest = {name: value for name, value in backbone.items() if name != "name"}
        chosen["backbone"] = {"name": backbone["name"], **changed(entry(backbone["name"]).config, rest)}
    return chosen


def has_attention(model: str, options: Mapping[str, Any]) -> bool:
    """Whether there is anything to look at in a model of these options."""
    try:
        return any(isinstance(part, Tap) for part in outline(model, options).modules())
    except RegardError:  # a model, or an option, of another version
        return False


def _size(model: str, size: str) -> Size:
    found = entry(model)
    worded = [name for name in _VOCABULARIES if name in found.options]
    counts = [count_of(model, {"size": size, **dict.fromkeys(worded, n)}) for n in (1000, 2000)]
    a_token = (counts[1] - counts[0]) // 1000
    return Size(size, dict(found.sizes[size]), counts[0] - 1000 * a_token, a_token)


def _options(model: str, size: str | None) -> tuple[Option, ...]:
    config = entry(model).config
    try:
        values = asdict(configure(model, size))
    except ConfigError:  # a model that cannot be made of defaults alone
        values = {}
    kinds = get_type_hints(config)
    return tuple(Option(one.name, _kind(kinds[one.name]), values.get(one.name)) for one in fields(config))


def _kind(kind: Any) -> str:
    """A type in words: a number, or the names that are allowed."""
    if get_origin(kind) is Literal:
        return " | ".join(str(value) for value in get_args(kind))
    parts = get_args(kind)
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        return " | ".join("unset" if part is type(None) else _kind(part) for part in parts)
    words = {int: "whole number", float: "number", bool: "true | false", str: "text"}
    if kind in words:
        return words[kind]
    if get_origin(kind) is tuple:
        return "list" if not parts else f"list of {_kind(parts[0])}s"
    return "table"


def _about(config: type[Any], module: Any) -> str:
    """The first sentence of what the model, or its file, says about itself."""
    said = inspect.getdoc(inspect.getmodule(config)) or inspect.getdoc(module) or ""
    return " ".join(said.split("\n\n")[0].split())
