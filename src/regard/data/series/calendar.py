"""Which dates a series has, learned from those that are there, and which come next.

    fit = learn_pattern(dates, where=…)           every hour · weekdays · every day but Sunday · month ends · …
    fit.pattern, fit.missing, fit.share           None if the dates follow no pattern: `fit.irregular(where)` says so
    continue_dates(fit.pattern, last, 14)         a shop that is closed on Sundays gets no Sundays
    marks_of(dates.local, fit.pattern)            (n, M) hour, weekday, day of month, day of year: features of dates

Three kinds of patterns: equal steps; months, on a day or at their end, by the calendar or by working days; and weeks,
in which each weekday has its own times of day, or none. A pattern is judged by its share: of all rows but the first,
those that come where it has the next date after the row before. A holiday or an outage costs one row of many; nothing
but a pattern that nearly all rows follow is believed.

Steps of less than a day are counted in UTC, all else by local clocks: a row a day at midnight stays at midnight, and an
hour is an hour, when clocks change. Where dates name no offset both are the same; the hour that then comes twice in
autumn is let through, and the one that is left out in spring counts as missing.

Features run from −0.5 to 0.5; one that cannot change within the pattern (the hour of daily data) is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.series.dates import Dates, Moments, local_times, utc_times
from regard.errors import DataError

Where = Callable[[int], str]  # row → file and line, for messages
Counts = NDArray[np.int64]
Marks = NDArray[np.float32]
Times = tuple[tuple[int, ...], ...]  # Monday to Sunday: the seconds of the day that have a row

MINUTE, HOUR, DAY = 60, 3600, 86400
WEEK = 7 * DAY
REGULAR = 0.75  # the share of rows that have to follow a pattern
_MONTH_END = 31
_SEASONS = {MINUTE: 60, 15 * MINUTE: 96, 30 * MINUTE: 48, HOUR: 24, DAY: 7, WEEK: 52}
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = {1: "month", 3: "quarter", 12: "year"}


@dataclass(frozen=True)
class DatePattern:
    """Where the next date is: so many `seconds` on, so many `months` on, or at the next of the `times` of a week.

    `day` is that of the month, or its last where a month is shorter, so that 31 are month ends; 0 is that of the date
    before. `working` puts it on the first or the last weekday of the month instead. `zone` is that of the clocks that
    are followed, "" for UTC.
    """

    seconds: int = 0
    months: int = 0
    day: int = 1
    working: Literal["", "first", "last"] = ""
    times: Times = ()
    zone: str = ""

    def after(self, local: Moments, steps: Counts | int = 1) -> Moments:
        """The date so many steps after each of these, all as the clocks of `zone` show them."""
        if self.months:
            return self._month_after(local, np.asarray(steps, np.int64))
        if self.times:
            slots = self._slots
            week, place = np.divmod(_place(local, slots) + steps, len(slots))
            return _monday(week * WEEK + slots[place])
        after: Moments = local + np.asarray(steps, np.int64) * np.timedelta64(self.seconds, "s")
        return after

    def between(self, first: Moments, second: Moments) -> Counts:
        """How many dates the pattern has between these pairs; −1 where it does not have the second, given the first."""
        if self.months:
            steps = (second.astype("datetime64[M]") - first.astype("datetime64[M]")).astype(np.int64) // self.months
        elif self.times:
            steps = _place(second, self._slots) - _place(first, self._slots)
        else:
            steps = (second - first).astype(np.int64) // self.seconds
        fits = (self.after(first, steps) == second) & (steps > 0)
        return np.where(fits, steps - 1, -1)

    @property
    def season(self) -> int:
        """How many steps usually repeat: a day of hours, a week of open days, a year of months; 0 if none is usual."""
        if self.months:
            return 12 // self.months if 12 % self.months == 0 else 0
        if self.times:
            fullest = max(map(len, self.times))
            return sum(map(bool, self.times)) if fullest == 1 else fullest
        return _SEASONS.get(self.seconds, 0)

    @property
    def marks(self) -> tuple[str, ...]:
        """The names of the features that can change from one date to the next."""
        if self.months:
            return ("month",)
        seconds = self.seconds
        if self.times:
            seconds = min((int(np.diff(times).min()) for times in self.times if len(times) > 1), default=DAY)
        first = 0 if seconds < HOUR else 1 if seconds < DAY else 2 if seconds < WEEK else 3
        return ("minute", "hour", "weekday", "day", "day of year")[first:]

    def __str__(self) -> str:
        if self.months:
            return self._month_name
        if self.times:
            days = _days_named([i for i, times in enumerate(self.times) if times])
            hours = sorted({time for times in self.times for time in times})
            return days if len(hours) == 1 else f"{days}, from {_clock(hours[0])} to {_clock(hours[-1])}"
        return _every(self.seconds)

    @property
    def _month_name(self) -> str:
        span = _MONTHS.get(self.months, f"{self.months} months")
        if self.working:
            return f"the {self.working} weekday of every {span}"
        return f"the end of every {span}" if self.day == _MONTH_END else f"day {self.day} of every {span}"

    @property
    def _slots(self) -> Counts:
        return np.array([day * DAY + time for day, times in enumerate(self.times) for time in times], np.int64)

    def _month_after(self, local: Moments, steps: Counts) -> Moments:
        month = local.astype("datetime64[M]") + steps * self.months
        last = (month + 1).astype("datetime64[D]") - 1
        if self.working == "last":
            day = np.busday_offset(last, 0, roll="backward")
        elif self.working == "first":
            day = np.busday_offset(month.astype("datetime64[D]"), 0, roll="forward")
        else:
            first = local.astype("datetime64[M]").astype("datetime64[D]")
            days = self.day - 1 if self.day else (local.astype("datetime64[D]") - first).astype(np.int64)
            day = np.minimum(month.astype("datetime64[D]") + days, last)
        after: Moments = day.astype("datetime64[s]") + (local - local.astype("datetime64[D]"))
        return after


@dataclass(frozen=True)
class PatternFit:
    """What was learned from dates: the pattern, or None if less than `REGULAR` of the rows follow the `nearest`.

    `missing` dates are in the pattern and not among the rows, `odd` rows are where the pattern has none; `first` is the
    first row that does not follow the one before it, and `date` what stands there.
    """

    pattern: DatePattern | None
    nearest: DatePattern | None
    share: float = 0.0
    missing: int = 0
    odd: int = 0
    first: int | None = None
    date: str = ""

    def note(self, where: Where) -> str | None:
        """What to tell the user of rows that are missing or odd, if any are."""
        if self.pattern is None or self.first is None:
            return None
        rows = "a row is" if self.missing == 1 else f"{self.missing:,} rows are"
        facts = [f"{rows} missing"] if self.missing else []
        facts += [f"{self.odd:,} come{'s' * (self.odd == 1)} at another time"] if self.odd else []
        return f"{self.pattern}; {' and '.join(facts)}; the first place is {where(self.first)}: {self.date}"

    def irregular(self, where: Where) -> DataError:
        """The error for dates that follow no pattern, for those who need one."""
        if self.nearest is None or self.first is None:
            return DataError(f"{where(0)}: one date has no next one", hint="at least two rows with dates are needed")
        return DataError(
            f"{where(self.first)}: {self.date} does not follow the row before; the dates have no pattern: "
            f"at best, {self.nearest}, which {self.share:.0%} of the rows keep to",
            hint='let rows count as steps whatever their distance: data.steps="any"',
        )


def learn_pattern(dates: Dates, *, where: Where) -> PatternFit:
    """The pattern that most rows follow. Rows have to follow one another in time; what does not is named."""
    _check_order(dates, where)
    if len(dates) < 2:
        return PatternFit(None, None)
    judged = [(_follows(pattern, _times(pattern, dates)), pattern) for pattern in _candidates(dates)]
    follows, best = max(judged, key=lambda pair: float(pair[0].mean()))  # the first of equals: the simplest
    times = _times(best, dates)
    share, breaks = float(follows.mean()), np.flatnonzero(~follows)
    between = best.between(times[breaks], times[breaks + 1])
    first = int(breaks[0]) + 1 if len(breaks) else None
    date = "" if first is None else dates.format.write(dates.moments[first : first + 1])[0]
    missing, odd = int(between[between > 0].sum()), int((between < 0).sum())
    return PatternFit(best if share >= REGULAR else None, best, share, missing, odd, first, date)


def continue_dates(pattern: DatePattern, last: np.datetime64, n: int) -> Moments:
    """The next `n` dates after `last`, in UTC as it is."""
    local = local_times(np.array([last], "datetime64[s]"), pattern.zone)
    return utc_times(pattern.after(local, np.arange(1, n + 1)), pattern.zone)


def marks_of(local: Moments, pattern: DatePattern) -> Marks:
    """The features of dates as clocks show them, (n, M), as `pattern.marks` names them."""
    day = local.astype("datetime64[D]")
    year, month = local.astype("datetime64[Y]"), local.astype("datetime64[M]")
    second = (local - day.astype("datetime64[s]")).astype(np.int64)
    columns = {
        "minute": (second // MINUTE % 60) / 59,
        "hour": (second // HOUR) / 23,
        "weekday": _weekday(day) / 6,
        "day": (day - month.astype("datetime64[D]")).astype(np.int64) / 30,
        "day of year": (day - year.astype("datetime64[D]")).astype(np.int64) / 365,
        "month": (month - year.astype("datetime64[M]")).astype(np.int64) / 11,
    }
    return np.stack([columns[name] - 0.5 for name in pattern.marks], 1).astype(np.float32)


def _check_order(dates: Dates, where: Where) -> None:
    gaps = np.diff(dates.moments).astype(np.int64)
    wrong = (gaps <= 0) & ~_clock_changes(dates, gaps)
    if not wrong.any():
        return
    row = int(np.argmax(wrong)) + 1
    written = dates.format.write(dates.moments[row : row + 1])[0]
    if (gaps < 0).all() and len(gaps) > 1:
        raise DataError(
            f"{where(row)}: {written}: the newest row comes first", hint="turn the rows around: oldest first"
        )
    what = "the same date as the row before" if gaps[row - 1] == 0 else "a date before that of the row before"
    raise DataError(f"{where(row)}: {written} is {what}", hint="sort the rows by date, one row a date")


def _clock_changes(dates: Dates, gaps: Counts) -> NDArray[np.bool_]:
    """Where clocks without an offset are put back by an hour: early on a Sunday in spring or autumn."""
    if dates.format.zone or not len(gaps):
        return np.zeros(len(gaps), bool)
    usual, then = _usual(gaps), dates.moments[1:]
    month = then.astype("datetime64[M]").astype(np.int64) % 12 + 1
    early = (then - then.astype("datetime64[D]")).astype(np.int64) < 4 * HOUR
    seasonal = np.isin(month, (3, 4, 9, 10, 11)) & (_weekday(then) == 6) & early
    changes: NDArray[np.bool_] = seasonal & (gaps == usual - HOUR) & (usual <= HOUR)
    return changes


def _candidates(dates: Dates) -> list[DatePattern]:
    """The patterns that may be meant, the simplest first; months go before as many days."""
    gaps, zone = np.diff(dates.moments).astype(np.int64), dates.format.zone
    usual = _usual(gaps)
    equal = [DatePattern(seconds=usual)]
    local_usual = _usual(np.diff(dates.local).astype(np.int64))
    if zone and local_usual % DAY == 0:
        equal.append(DatePattern(seconds=local_usual, zone=zone))
    if float(np.median(gaps)) >= 27 * DAY:
        return [replace(pattern, zone=zone) for pattern in _monthly(dates.local)] + equal
    weekly = _weekly(dates.local) if usual >= MINUTE else None
    return equal if weekly is None else [*equal, replace(weekly, zone=zone)]


def _monthly(local: Moments) -> list[DatePattern]:
    month, day = local.astype("datetime64[M]"), local.astype("datetime64[D]")
    months = _usual(np.diff(month).astype(np.int64))
    if months < 1:
        return []
    ends = float((day + 1 == (month + 1).astype("datetime64[D]")).mean())
    usual = _usual((day - month.astype("datetime64[D]")).astype(np.int64)) + 1
    on_day = DatePattern(months=months, day=_MONTH_END if ends >= REGULAR else usual)
    return [on_day, *(DatePattern(months=months, working=which) for which in ("last", "first"))]


def _weekly(local: Moments) -> DatePattern | None:
    """The times of day that at least half of the weeks have, weekday by weekday; None if no day is left out.

    A weekday that could have come up only once, or never, is open as the others are, unless it is at the weekend.
    """
    days = np.unique(local.astype("datetime64[D]"))
    span = _weekday(np.arange(days[0], days[-1] + 1).astype("datetime64[s]"))
    possible, present = (np.bincount(weekdays, minlength=7) for weekdays in (span, _weekday(days)))
    second = (local - local.astype("datetime64[D]")).astype(np.int64)
    times, counts = np.unique(second, return_counts=True)
    everywhere = tuple(times[counts * 2 >= len(days)].tolist())
    week = []
    for weekday in range(7):
        sure = possible[weekday] > 1 or (possible[weekday] == 1 and weekday > 4)
        if sure and present[weekday] * 2 < possible[weekday]:
            week.append(())
            continue
        own, counts = np.unique(second[_weekday(local) == weekday], return_counts=True)
        kept = tuple(own[counts * 2 >= possible[weekday]].tolist()) if possible[weekday] > 1 else everywhere
        week.append(kept or everywhere)
    return DatePattern(times=tuple(week)) if everywhere and any(week) else None


def _times(pattern: DatePattern, dates: Dates) -> Moments:
    return dates.local if pattern.zone else dates.moments


def _follows(pattern: DatePattern, times: Moments) -> NDArray[np.bool_]:
    follows: NDArray[np.bool_] = pattern.after(times[:-1]) == times[1:]
    return follows


def _usual(counts: Counts) -> int:
    """The number that comes most often, the smallest of equals; only numbers above zero count where there are any."""
    above = counts[counts > 0]
    values, times = np.unique(above if len(above) else counts, return_counts=True)
    return int(values[np.argmax(times)])


def _weekday(moments: Moments) -> Counts:
    """0 for Monday to 6 for Sunday."""
    return (moments.astype("datetime64[D]").astype(np.int64) + 3) % 7


def _place(local: Moments, slots: Counts) -> Counts:
    """The number of the last of a week's slots that is not after each time, counted from the first week of 1970 on."""
    week, second = np.divmod(local.astype("datetime64[s]").astype(np.int64) + 3 * DAY, WEEK)
    return week * len(slots) + np.searchsorted(slots, second, side="right") - 1


def _monday(seconds: Counts) -> Moments:
    return (seconds - 3 * DAY).astype("datetime64[s]")  # 1970 began on a Thursday


def _every(seconds: int) -> str:
    for unit, name in ((WEEK, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "second")):
        if seconds % unit == 0:
            return f"every {name}" if seconds == unit else f"every {seconds // unit} {name}s"
    raise AssertionError("unreachable")


def _days_named(days: list[int]) -> str:
    closed = [day for day in range(7) if day not in days]
    if not closed:
        return "every day"
    if days == list(range(days[0], days[-1] + 1)) and len(days) in (4, 5):
        return f"{_WEEKDAYS[days[0]]} to {_WEEKDAYS[days[-1]]}"
    names = [_WEEKDAYS[day] for day in (closed if len(closed) < 3 else days)]
    return f"{'every day but ' if len(closed) < 3 else ''}{' and '.join(names)}"


def _clock(second: int) -> str:
    return f"{second // HOUR:02d}:{second // MINUTE % 60:02d}"
