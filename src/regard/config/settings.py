"""A setting: its default, its bounds, one line of help, and the names it had before.

    @dataclass(frozen=True, kw_only=True)
    class TrainConfig(Settings):
        section: ClassVar = "train"
        steps: int = setting(10_000, "optimizer steps", ge=1)
        lr: float = setting(1e-3, "peak learning rate", gt=0)

    TrainConfig(steps=0)            ConfigError: train.steps is 0, at least 1
    settings_of(TrainConfig)        the list of them: validation, `--help`, recipes and the documentation come from it

A subclass may give a setting another default and nothing else, `lr: float = 5e-5`: help and bounds stay. Rules about
several settings at once are `contradictions`. Records of others may be plain dataclasses: their settings have no help.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import ConfigError

T = TypeVar("T")
_KEY = "setting"


class Bounds(NamedTuple):
    """Where a number, or every number of a list, has to lie. Infinity is refused unless it is asked for."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    infinite: bool = False

    def hold(self, value: Any) -> bool:
        """Whether a number lies within."""
        tests = ((operator.ge, self.ge), (operator.gt, self.gt), (operator.le, self.le), (operator.lt, self.lt))
        return all(limit is None or test(value, limit) for test, limit in tests)

    def __str__(self) -> str:
        high = f"up to {self.le:g}" if self.le is not None else f"below {self.lt:g}" if self.lt is not None else ""
        if self.gt is not None:
            return f"above {self.gt:g}" + (f" and {high}" if high else "")
        if self.ge is not None:
            return f"from {self.ge:g} to {high.removeprefix('up to ')}" if high else f"at least {self.ge:g}"
        return high


_ANY = Bounds()


@dataclass(frozen=True)
class OpenChoice:
    """Marks a name out of a list that others may add to: `Annotated[str, OpenChoice(score_names)]`."""

    names: Callable[[], tuple[str, ...]]


@dataclass(frozen=True)
class Setting:
    """One setting of a record: what it is called, what it may be, what it is unless given, and what it means.

    was         the names it had before, which are still understood
    derived     the data says what it is; until then its default stands for "not known yet"
    unused      it means nothing to this record, which has it from another
    """

    name: str
    type: Any
    default: Any
    what: str = ""
    bounds: Bounds = _ANY
    was: tuple[str, ...] = ()
    derived: bool = False
    unused: bool = False

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values to choose from, where they are named."""
        for mark in getattr(self.type, "__metadata__", ()):
            if isinstance(mark, OpenChoice):
                return mark.names()
        return tuple(choice for kind in self._kinds() for choice in get_args(kind) if get_origin(kind) is Literal)

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        return ", ".join(map(str, self.choices)) or str(self.bounds) or _in_words(self._kinds())

    def problem(self, value: Any, key: str, *, built: bool = False) -> str | None:
        """What is wrong with a value, if anything; what the data says has to be known once it is `built`."""
        if self.derived and not built and value == self.default:
            return None
        if value is None or self.choices:
            fits = value in self.choices if self.choices and value is not None else NoneType in get_args(self.type)
            return None if fits else f"{key} is {value!r}; allowed: {self.allowed}"
        if isinstance(value, tuple):
            return next((p.replace(" is ", " holds ", 1) for v in value if (p := self._misfit(v, key, ()))), None)
        return self._misfit(value, key, self._kinds())

    def _misfit(self, value: Any, key: str, kinds: tuple[Any, ...]) -> str | None:
        number = isinstance(value, Real) and not isinstance(value, bool)
        if kinds == (int,) and not (number and isinstance(value, Integral)):
            return f"{key} is {value!r}; allowed: a whole number"
        if kinds == (float,) and not number:
            return f"{key} is {value!r}; allowed: a number"
        if not number:
            return None
        if not self.bounds.hold(value):
            return f"{key} is {value!r}, {self.bounds}"
        if math.isfinite(value) or (self.bounds.infinite and not math.isnan(value)):
            return None
        return f"{key} is {value!r}; allowed: a finite number"

    def _kinds(self) -> tuple[Any, ...]:
        plain = get_args(self.type)[0] if get_origin(self.type) is Annotated else self.type
        union = get_origin(plain) in (Union, UnionType)
        return tuple(kind for kind in (get_args(plain) if union else (plain,)) if kind is not NoneType)


def setting(
    default: T,
    what: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    infinite: bool = False,
    was: str = "",
    derived: bool = False,
    key: bool = True,
) -> T:
    """A field of a record of settings: its default, what it means in one line, and where its numbers have to lie.

    Without `key` it is no part of the record's repr, which keys of what is made of the data are taken from.
    """
    bounds = Bounds(ge, gt, le, lt, infinite)
    facts = {"what": what, "bounds": bounds, "was": tuple(was.split()), "derived": derived}
    start: Any = {"default_factory": default.copy} if isinstance(default, dict) else {"default": default}
    made: T = field(**start, repr=key, metadata={_KEY: facts})
    return made


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A record of settings, checked when it is made. `unused` are those that a subclass has no use for."""

    section: ClassVar[str] = ""
    unused: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.check(built=False)

    def check(self, *, built: bool = True) -> None:
        """Refuse what is out of bounds or contradicts itself; what the data says has to be known once it is `built`."""
        wrong = []
        for one in settings_of(type(self)).values():
            value, key = getattr(self, one.name), f"{self.section}.{one.name}".removeprefix(".")
            if one.unused and value != one.default:
                wrong.append(f"{key} means nothing to this task; leave it {one.default!r}")
            elif problem := one.problem(value, key, built=built):
                wrong.append(problem)
        wrong += self.contradictions()
        if wrong:
            raise ConfigError("; ".join(wrong))

    def contradictions(self) -> Iterator[str]:
        """What does not go together, a sentence each."""
        return iter(())

    def idle(self) -> frozenset[str]:
        """The settings that count for nothing as things are, and are not written down."""
        return frozenset(self.unused)


def settings_of(record: type[Any]) -> Mapping[str, Setting]:
    """The settings of a record by name, in their order."""
    found: Any = record
    return _listed(found)


@cache
def _listed(record: Any) -> Mapping[str, Setting]:
    hints, unused = get_type_hints(record, include_extras=True), getattr(record, "unused", ())
    return {
        f.name: Setting(
            name=f.name,
            type=hints[f.name],
            default=f.default if f.default_factory is MISSING else f.default_factory(),
            unused=f.name in unused,
            **_facts(record, f.name),
        )
        for f in fields(record)
    }


def old_names(record: type[Any]) -> dict[str, str]:
    """The names that settings had before, and those they have today."""
    return {old: one.name for one in settings_of(record).values() for old in one.was}


def with_new_names(record: type[Any], options: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The options by the names of today, and the pairs of names, old and new, of which both were given."""
    news = old_names(record)
    twice = [(name, news[name]) for name in options if name in news and news[name] in options]
    return {news.get(name, name): value for name, value in options.items()}, twice


def _facts(record: type[Any], name: str) -> Mapping[str, Any]:
    """What the nearest class that describes a setting says about it."""
    for owner in record.__mro__:
        described = getattr(owner, "__dataclass_fields__", {}).get(name)
        if described is not None and _KEY in described.metadata:
            facts: Mapping[str, Any] = described.metadata[_KEY]
            return facts
    return {}


def _in_words(kinds: tuple[Any, ...]) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "a table"}
    named = [words.get(get_origin(kind) or kind, "a list" if get_origin(kind) is tuple else "") for kind in kinds]
    return " or ".join(word for word in dict.fromkeys(named) if word)
