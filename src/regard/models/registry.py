"""The models that have a name, and how options become one of them.

    configure("transformer", "base", n_source=37000, n_target=37000)     a config, checked
    build("recurrent", {"size": "small", "n_source": 8000, "n_target": 8000, "attention": "additive"})     a model
    register("mine", Entry(MineConfig, Mine))                            one from outside the package

A model is the `ENTRY` of the file of its name, which is imported when the model is first asked for. Packages add
theirs by one call, or as entry points of the group `regard.models`: "mine = package.module:ENTRY". No other paths are
followed. Values are brought to the types that the config declares ("512" is a number, 1 is a float where one is due),
and whatever is wrong with the options is said at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from torch import nn

from regard.config.schema import nearest, typed
from regard.config.settings import old_names
from regard.errors import ConfigError, UsageError
from regard.models.entry import Entry

OURS = (
    "transformer",
    "recurrent",
    "bert",
    "recurrent-encoder",
    "classifier",
    "span-reader",
    "gpt",
    "recurrent-lm",
    "word-vectors",
    "patch-forecaster",
    "series-transformer",
    "recurrent-forecaster",
    "dlinear",
    "vit",
    "speech-transformer",
    "las",
    "captioner",
    "transformer-captioner",
)
_registered: dict[str, Entry] = {}


def register(name: str, entry: Entry) -> None:
    """Give a model from outside the package a name."""
    if name in names() and _registered.get(name) != entry:
        raise UsageError(f"there is a model called {name!r} already", hint="give it another name")
    _registered[name] = entry


def names() -> tuple[str, ...]:
    """All models there are, by name."""
    return (*OURS, *(name for name in (*_published(), *_registered) if name not in OURS))


def entry(name: str) -> Entry:
    """The model of that name."""
    _refuse_unknown("model", [name], names())
    if name in OURS:
        found: Entry = import_module(f"regard.models.{name.replace('-', '_')}").ENTRY
        return found
    if name not in _registered:
        _registered[name] = _published()[name].load()
    return _registered[name]


def configure(name: str, /, size: str | None = None, **overrides: Any) -> Any:
    """The config of a model: its defaults, changed by a named size, changed by the overrides."""
    chosen = entry(name)
    if size is not None:
        _refuse_unknown(f"size of {name}", [size], chosen.sizes)
    _refuse_unknown(f"option of {name}", overrides, (*chosen.options, *old_names(chosen.config)))
    return typed(chosen.config, {**(chosen.sizes[size] if size else {}), **overrides}, where=name)


def build(name: str, options: Mapping[str, Any]) -> nn.Module:
    """A new model from its options: the fields of its config, and `size` for a named starting point."""
    rest = {option: value for option, value in options.items() if option != "size"}
    return entry(name).module(configure(name, options.get("size"), **rest))


@cache
def _published() -> dict[str, Any]:
    """What installed packages offer."""
    return {point.name: point for point in entry_points(group="regard.models")}


def _refuse_unknown(what: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    allowed = list(allowed)
    unknown = [name for name in given if name not in allowed]
    if not unknown:
        return
    near = [best for name in unknown if (best := nearest(name, allowed))]
    hint = f"did you mean {', '.join(near)}?" if near else None
    unknown_names = ", ".join(repr(name) for name in unknown)
    raise ConfigError(f"no {what} is called {unknown_names}; there are {', '.join(allowed) or 'none'}", hint=hint)
