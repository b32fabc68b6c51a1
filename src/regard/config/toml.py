"""Write TOML: the standard library only reads it.

Sections of scalars and lists are all a recipe has; None stands for "not set" and is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def write_toml(config: Mapping[str, Any]) -> str:
    """The text of a TOML file that reads back as `config`, without its Nones."""
    plain = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
    lines = _lines(plain)
    for key, section in config.items():
        if isinstance(section, Mapping):
            lines += ["", f"[{_key(key)}]", *_lines(section)]
    return "\n".join(lines).strip() + "\n"


def _lines(section: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {toml_value(value)}" for key, value in section.items() if value is not None]


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    """A JSON string is a TOML string, but for one character that TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)  # inf and nan are spelt alike in TOML
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping) and not value:
        return "{}"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {toml_value(v)}" for k, v in value.items() if v is not None) + " }"
    return "[" + ", ".join(toml_value(item) for item in value) + "]"
