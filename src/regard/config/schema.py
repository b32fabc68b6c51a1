"""Options by name become typed records, or one error that says everything that is wrong with them.

    problems(TrainConfig, {"stpes": 10, "lr": "fast"}, where="train")     a line for each thing wrong
    typed(TrainConfig, {"steps": "10", "lr": 1}, where="train")           steps 10, lr 1.0

Values are brought to the declared types ("512" is a number, 1 is a float where one is due). Names that settings had
before are understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from regard.config.settings import Setting, settings_of, with_new_names
from regard.errors import ConfigError

Record = TypeVar("Record")


def typed(record: type[Record], options: Mapping[str, Any], *, where: str) -> Record:
    """The record with these options, each of its declared type."""
    values, wrong = _read(record, options, where)
    if wrong:
        raise ConfigError("\n  ".join(wrong))
    return record(**values)


def problems(record: type[Any], options: Mapping[str, Any], *, where: str) -> list[str]:
    """What is wrong with the options, a line each: unknown names with the nearest known, values that do not fit."""
    values, wrong = _read(record, options, where)
    try:
        record(**values)
    except ConfigError as error:
        wrong.append(str(error))
    return wrong


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that was probably meant."""
    return next(iter(get_close_matches(str(name), list(allowed), n=1)), None)


def both_given(old: str, new: str) -> str:
    """What is wrong with giving a setting by its old and its new name."""
    return f"{old} and {new} are both given, and are one setting; keep {new}, its name of today"


def _read(record: type[Any], options: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """The values that fit, and what is wrong with the others."""
    known = settings_of(record)
    renamed, twice = with_new_names(record, options)
    wrong = [both_given(f"{where}.{old}", f"{where}.{new}") for old, new in twice]
    values: dict[str, Any] = {}
    for name, given in renamed.items():
        if name not in known:
            wrong.append(_unknown(f"{where}.{name}", name, list(known), where))
            continue
        try:
            value = _adapter(known[name].type).validate_python(given)
        except ValidationError as error:
            wrong += dict.fromkeys(_misfit(f"{where}.{name}", known[name], one) for one in error.errors())
            continue
        if problem := known[name].problem(value, f"{where}.{name}"):
            wrong.append(problem)
        else:
            values[name] = value
    return values, wrong


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _unknown(key: str, name: str, allowed: list[str], where: str) -> str:
    near = nearest(name, allowed)
    return f"{key} is not known; " + (f"did you mean {where}.{near}?" if near else f"there are {', '.join(allowed)}")


def _misfit(key: str, known: Setting, found: Mapping[str, Any]) -> str:
    if found["type"] == "literal_error":
        return f"{key} is {found['input']!r}; allowed: {known.allowed}"
    return f"{key} = {found['input']!r}: {found['msg'][0].lower()}{found['msg'][1:]}"
