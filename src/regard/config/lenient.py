"""Values of tables that another version may have written: what is there and of the right kind, else nothing.

number({"step": 20}, "step")      20          number({"step": "many"}, "step")      None
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def table(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table within a table; an empty one where there is none."""
    found = given.get(key)
    return found if isinstance(found, Mapping) else {}


def number(given: Mapping[str, Any], key: str) -> float | None:
    """A number."""
    found = given.get(key)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def whole(given: Mapping[str, Any], key: str) -> int | None:
    """A whole number."""
    found = number(given, key)
    return found if isinstance(found, int) else None


def text(given: Mapping[str, Any], key: str) -> str | None:
    """A text."""
    found = given.get(key)
    return found if isinstance(found, str) else None


def texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of texts, or one alone."""
    found = given.get(key)
    if isinstance(found, str):
        return (found,)
    return tuple(str(one) for one in found) if isinstance(found, list | tuple) else ()
