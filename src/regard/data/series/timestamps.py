"""Dates of a series: read, checked for the step between them, continued into the future, and turned into features.

    moments = parse_timestamps(["2016-07-01 00:00:00", …], where=…)     (n,) datetime64[s]
    step = step_of(moments, equal=True, where=…)                     an hour, a day, a month, …
    step.after(moments[-1], 24)                                      the next 24
    marks_of(moments, step)                                          (n, M) hour, weekday, day of month, day of year

Features run from −0.5 to 0.5; a feature that cannot change within the step (the hour of daily data) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError

Moments = NDArray[np.datetime64]
Markers = NDArray[np.float32]
Where = Callable[[int], str]  # row → file and line, for messages

MINUTE, HOUR, DAY = 60, 3600, 86400
DATE_NAMES = ("date", "datetime", "time", "timestamp", "ds")
_SEASONS = {MINUTE: 60, 15 * MINUTE: 96, 30 * MINUTE: 48, HOUR: 24, DAY: 7, 7 * DAY: 52}


@dataclass(frozen=True)
class Step:
    """What lies between two rows: seconds, or months; `weekdays` skips Saturdays and Sundays."""

    seconds: int = 0
    months: int = 0
    weekdays: bool = False

    def after(self, last: np.datetime64, n: int) -> Moments:
        """The next `n` moments."""
        count = np.arange(1, n + 1)
        unit = "M" if self.months else "D"
        begin = last.astype(f"datetime64[{unit}]")
        rest = last - begin.astype("datetime64[s]")
        if self.months:
            days = begin + count * self.months
        elif self.weekdays:
            days = np.busday_offset(begin, count, roll="backward")
        else:
            days = begin.astype("datetime64[s]") + count * np.timedelta64(self.seconds, "s")
        after: Moments = days.astype("datetime64[s]") + rest
        return after

    @property
    def season(self) -> int:
        """How many steps usually repeat: a day of hours, a week of days, a year of months; 0 where nothing is usual."""
        if self.months:
            return 12 // self.months if 12 % self.months == 0 else 0
        return 5 if self.weekdays else _SEASONS.get(self.seconds, 0)

    @property
    def marks(self) -> tuple[str, ...]:
        """The names of the features that can change within this step."""
        if self.months:
            return ("month",)
        first = 0 if self.seconds < HOUR else 1 if self.seconds < DAY else 2 if self.seconds < 7 * DAY else 3
        return ("minute", "hour", "weekday", "day", "day of year")[first:]


def looks_like_date(text: str) -> bool:
    """Whether a cell reads as a date rather than as a number."""
    return ("-" in text[1:] or "/" in text) and _parsed(text) is not None


def parse_timestamps(texts: Sequence[str], *, where: Where) -> Moments:
    """Texts as moments; what is no date is named."""
    try:
        return np.array([_plain(text) for text in texts], "datetime64[s]")
    except ValueError:
        row = next(i for i, text in enumerate(texts) if _parsed(text) is None)
        raise DataError(
            f"{where(row)}: {texts[row]!r} is no date", hint="dates are written 2016-07-01 or 2016-07-01 13:00:00"
        ) from None


def step_of(moments: Moments, *, equal: bool, where: Where) -> Step:
    """The step between rows. Rows have to follow one another; with `equal`, all at the same distance."""
    gaps = np.diff(moments).astype(np.int64)
    if (gaps <= 0).any():
        row = int(np.argmax(gaps <= 0)) + 1
        what = "the same date as the row before" if gaps[row - 1] == 0 else "a date before that of the row before"
        raise DataError(f"{where(row)}: {moments[row]} is {what}", hint="sort the rows by date, one row a date")
    usual = int(np.median(gaps)) if len(gaps) else DAY
    if (gaps == usual).all():
        return Step(seconds=usual)
    if len(gaps) and (months := _months(moments)):
        return Step(months=months)
    if not equal:
        weekdays = usual == DAY and bool(np.is_busday(moments.astype("datetime64[D]")).all())
        return Step(seconds=usual, weekdays=weekdays)
    row = int(np.argmax(gaps != usual)) + 1
    raise DataError(
        f"{where(row)}: {moments[row]} comes {_lasting(int(gaps[row - 1]))} after the row before, "
        f"and rows usually come {_lasting(usual)} apart",
        hint='fill the gap, or let rows count as steps whatever their distance: data.steps="any"',
    )


def marks_of(moments: Moments, step: Step) -> Markers:
    """The features of dates, (n, M), as `step.marks` names them."""
    day = moments.astype("datetime64[D]")
    year, month = moments.astype("datetime64[Y]"), moments.astype("datetime64[M]")
    second = (moments - day.astype("datetime64[s]")).astype(np.int64)
    columns = {
        "minute": (second // MINUTE % 60) / 59,
        "hour": (second // HOUR) / 23,
        "weekday": ((day.astype(np.int64) + 3) % 7) / 6,
        "day": (day - month.astype("datetime64[D]")).astype(np.int64) / 30,
        "day of year": (day - year.astype("datetime64[D]")).astype(np.int64) / 365,
        "month": (month - year.astype("datetime64[M]")).astype(np.int64) / 11,
    }
    return np.stack([columns[name] - 0.5 for name in step.marks], 1).astype(np.float32)


def written(moments: Moments) -> list[str]:
    """As they stand in files: without a time of day where all are at midnight."""
    whole = bool((moments == moments.astype("datetime64[D]")).all())
    return [str(m.astype("datetime64[D]")) if whole else str(m).replace("T", " ") for m in moments]


def _plain(text: str) -> str:
    return text.strip().replace("/", "-").removesuffix("Z")


def _parsed(text: str) -> np.datetime64 | None:
    try:
        parsed = np.datetime64(_plain(text), "s")
    except ValueError:
        return None
    return None if np.isnat(parsed) else parsed


def _months(moments: Moments) -> int:
    """How many months lie between rows, if it is always as many and the same day of the month; else 0."""
    month = moments.astype("datetime64[M]")
    gaps, rest = np.diff(month).astype(np.int64), moments - month.astype("datetime64[s]")
    return int(gaps[0]) if gaps[0] > 0 and (gaps == gaps[0]).all() and (rest == rest[0]).all() else 0


def _lasting(seconds: int) -> str:
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if seconds % unit == 0:
            return f"{seconds // unit} {name}{'s' * (seconds != unit)}"
    return f"{seconds} second{'s' * (seconds != 1)}"
