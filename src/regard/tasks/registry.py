"""The tasks there are: a line and a folder each.

    task_spec("series").data            the type of its `[data]` section
    register_task(TaskSpec(name="mine", …))     one from outside the package

A task is the `TASK` of its folder's `config.py`, which is imported when the task is first asked for; what trains and
what predicts is imported when that is needed. Packages add theirs by one call, or as entry points of the group
`regard.tasks`: "mine = package.module:TASK".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal

from regard.config.recipe import SECTIONS
from regard.config.settings import Settings, setting
from regard.config.training import TrainConfig
from regard.decoding.options import DecodeOptions
from regard.errors import UsageError
from regard.tasks.use import Use

OURS = ("translation", "language", "masked", "labels", "answers", "words", "series", "images", "captions", "speech")
Where = str | Callable[..., Any]  # "package.module:name", or the thing itself
Ability = Literal["continue", "translate", "transcribe", "embed"]


@dataclass(frozen=True, kw_only=True)
class GuessOptions(Settings):
    """The `[decode]` section of a task that guesses."""

    section: ClassVar = "decode"

    k: int = setting(5, "how many of the best guesses are shown", ge=0)


@dataclass(frozen=True, kw_only=True)
class NoOptions(Settings):
    """A section that leaves no choice."""


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """What a task consists of. The first of its models goes without saying, and so does its `size`.

    help            what it does, in half a line
    data … train    the types of the sections of its recipes; `beginnings` are keys of `[model]` that say where weights
                    begin
    plan            what suits some data, from a recipe and the context of a run to a `training.plan.Plan`
    setup           what is trained on what, a `training.setup.TaskSetup`; or `loop`, a training of its own
    predictor       a `tasks.base.Predictor`
    inputs          the files that its data files name, such as a table's images, from `[data]` and the data root
    flags           the options of the command line that mean something to it, besides those of every task
    use             what it is good for, in words
    serves          what programs of others may ask of its models: to continue, translate, transcribe or embed
    """

    name: str
    help: str = ""
    models: tuple[str, ...]
    data: type[Any]
    tokenizer: type[Any] = NoOptions
    decode: type[Any] = DecodeOptions
    train: type[TrainConfig] = TrainConfig
    size: str | None = None
    beginnings: tuple[str, ...] = ("start",)
    plan: Where = ""
    setup: Where = ""
    loop: Where = ""
    inputs: Where = ""
    predictor: Where
    flags: tuple[str, ...] = ()
    use: Use | None = None
    serves: tuple[Ability, ...] = ()

    def model(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The `[model]` section with what goes without saying."""
        named = {"name": self.models[0]} | dict(given)
        sized = {"size", "start", "d_model", "n_layers"} & set(given) or named["name"] != self.models[0]
        return named if sized or self.size is None else {"name": named["name"], "size": self.size} | named

    @property
    def reads_text(self) -> bool:
        """Whether a tokenizer belongs to its models."""
        return self.tokenizer is not NoOptions

    @property
    def sections(self) -> Mapping[str, type[Any]]:
        """The types of all sections but the model's."""
        return {name: getattr(self, name) for name in SECTIONS}


_registered: dict[str, TaskSpec] = {}


def register_task(spec: TaskSpec) -> None:
    """Add a task from outside the package."""
    if spec.name in task_names() and _registered.get(spec.name) != spec:
        raise UsageError(f"there is a task called {spec.name!r} already", hint="give it another name")
    _registered[spec.name] = spec


def task_names() -> tuple[str, ...]:
    """All tasks there are, by name."""
    return (*OURS, *(name for name in (*_published(), *_registered) if name not in OURS))


def task_spec(name: str) -> TaskSpec:
    """The task of that name."""
    if name not in task_names():
        raise UsageError(f"no task is called {name!r}; there are {', '.join(task_names())}")
    if name not in _registered:
        point = _published().get(name)
        _registered[name] = import_module(f"regard.tasks.{name}.config").TASK if point is None else point.load()
    return _registered[name]


def resolve(where: Where) -> Any:
    """What stands there."""
    if callable(where):
        return where
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


@cache
def _published() -> dict[str, Any]:
    """What installed packages offer."""
    return {point.name: point for point in entry_points(group="regard.tasks")}
