"""Figures as people read them: sizes, times, counts and scores, short enough for a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def score(value: float) -> str:
    """A figure with what matters of it: 41.81, 0.9349, 1,251."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def short_count(n: int) -> str:
    """A count in three digits: 850, 5.3k, 124M."""
    for unit, size in (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9)):
        if n < 999.5 * size or unit == "G":
            break
    if not unit:
        return str(n)
    value = n / size
    return f"{value:.0f}{unit}" if value >= 99.95 else f"{value:.1f}{unit}"


def duration(seconds: float) -> str:
    """A time as people say it: 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def roughly(seconds: float) -> str:
    """A time to come, no more exact than a forecast is: 45 s, 7 min, 3.5 hours, 2.1 days."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    hours = seconds / 3600
    if hours < 1.5:
        return f"{round(seconds / 60)} min"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def file_size(n: int) -> str:
    """Bytes as people say them: 850 B, 24.5 kB, 1.2 GB."""
    for unit, size in (("B", 1), ("kB", 10**3), ("MB", 10**6), ("GB", 10**9)):
        if n < 999.5 * size or unit == "GB":
            break
    return f"{n} B" if unit == "B" else f"{n / size:.1f} {unit}"


def several(n: float, one: str, more: str) -> str:
    """A count with its noun: 1 pass, 2 passes."""
    return f"{n:,g} {one if n == 1 else more}"


def settings(options: Mapping[str, Any]) -> str:
    """Options in a line: d_model 16, tied all."""
    return ", ".join(f"{name} {setting(value)}" for name, value in options.items())


def setting(value: Any) -> str:
    """A value as a recipe holds it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {setting(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(setting(one) for one in value) + "]"
    return "unset" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
