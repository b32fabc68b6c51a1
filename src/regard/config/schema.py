"""Options by name become typed records, or one error that says everything that is wrong with them.

    problems(TrainConfig, {"stpes": 10, "lr": "fast"}, where="train")     a line for each thing wrong
    typed(TrainConfig, {"steps": "10", "lr": 1}, where="train")           steps 10, lr 1.0

Values are brought to the declared types ("512" is a number, 1 is a float where one is due).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from regard.errors import ConfigError

Record = TypeVar("Record")


def typed(record: type[Record], options: Mapping[str, Any], *, where: str) -> Record:
    """The record with these options, each of its declared type."""
    wrong = problems(record, options, where=where)
    if wrong:
        raise ConfigError("\n  ".join(wrong))
    made: Record = TypeAdapter(record).validate_python(dict(options))
    return made


def problems(record: type[Any], options: Mapping[str, Any], *, where: str) -> list[str]:
    """What is wrong with the options, a line each: unknown names with the nearest known, values of the wrong kind."""
    names = [field.name for field in fields(record)]
    wrong = [_unknown(f"{where}.{name}", name, names, where) for name in options if name not in names]
    try:
        TypeAdapter(record).validate_python({name: value for name, value in options.items() if name in names})
    except ValidationError as error:
        wrong += [_misfit(where, found) for found in error.errors()]
    except ConfigError as error:
        wrong.append(str(error))
    return wrong


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that was probably meant."""
    return next(iter(get_close_matches(str(name), list(allowed), n=1)), None)


def _unknown(key: str, name: str, allowed: list[str], where: str) -> str:
    near = nearest(name, allowed)
    return f"{key} is not known; " + (f"did you mean {where}.{near}?" if near else f"there are {', '.join(allowed)}")


def _misfit(where: str, found: Mapping[str, Any]) -> str:
    if not found["loc"]:  # the record as a whole is at fault, and says itself what is
        return str(found["msg"]).removeprefix("Value error, ")
    return f"{where}.{found['loc'][0]} = {found['input']!r}: {found['msg'][0].lower()}{found['msg'][1:]}"
