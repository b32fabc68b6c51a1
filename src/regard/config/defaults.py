"""Which settings somebody chose: those that are not what goes without saying.

changed(DecodeOptions, {"strategy": "beam", "beam": 5, "seed": 0})      {"strategy": "beam", "beam": 5}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any


def changed(record: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings whose values differ from the record's defaults; one that it does not know counts as chosen."""
    usual = {one.name: _default(one) for one in fields(record)}
    return {name: value for name, value in given.items() if name not in usual or not _same(value, usual[name])}


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _same(one: Any, other: Any) -> bool:
    listed = [list(value) if isinstance(value, tuple) else value for value in (one, other)]
    return bool(listed[0] == listed[1])
