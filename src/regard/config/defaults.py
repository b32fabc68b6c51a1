"""Which settings somebody chose: those that are not what goes without saying.

changed(DecodeOptions, {"strategy": "beam", "beam": 5, "seed": 0})      {"strategy": "beam", "beam": 5}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.config.settings import settings_of


def changed(record: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings whose values differ from the record's defaults; one that it does not know counts as chosen."""
    usual = {one.name: _listed(one.default) for one in settings_of(record).values()}
    return {name: value for name, value in given.items() if name not in usual or _listed(value) != usual[name]}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
