"""Dates as people write them, read as moments and written back in the file's own format.

    dates = parse_dates(["31.12.2020 14:30", "01.01.2021 14:30"], where=…)
    dates.moments                     (n,) datetime64[s] in UTC, or as they stand where they name no offset
    dates.local                       (n,) what the clocks showed: weekdays, hours and months are taken from these
    dates.format.write(moments)       ["31.12.2020 14:30", …]

A whole column decides its format: 2020-12-31 and its like with times, fractions, Z and offsets; 31.12.2020; 12/31/2020
2:30 PM; month names in English and German; quarters and weeks; 20201231; seconds, milli-, micro- and nanoseconds since
1970. Whether 01/02/2020 is in January or in February is told by the rows: by one that can only be read one way, else
by which reading puts the rows in order; if nothing tells it is an error that names both readings.

Offsets that change (+01:00 in winter, +02:00 in summer) are those of a place; the first of a short list of time zones
that agrees with every row stands for it, so that what is written later has the right offset as well.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError

Moments = NDArray[np.datetime64]
Where = Callable[[int], str]  # row → file and line, for messages
Order = Literal["day-first", "month-first"]

_EPOCH = dt.datetime(1970, 1, 1)
_ZONES = (
    *("Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Athens", "Europe/Moscow", "Asia/Jerusalem"),
    *("America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Halifax"),
    *("America/Anchorage", "America/Sao_Paulo", "America/Santiago", "Australia/Sydney", "Australia/Adelaide"),
    "Pacific/Auckland",
)

_NAMES = {  # style: months, then weekdays from Monday on
    "en-short": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec Mon Tue Wed Thu Fri Sat Sun",
    "en": "January February March April May June July August September October November December"
    " Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "de-short": "Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez Mo Di Mi Do Fr Sa So",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
    " Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
}
STYLES = {style: tuple(names.split()) for style, names in _NAMES.items()}
_MONTHS = {name.lower(): i % 12 + 1 for names in STYLES.values() for i, name in enumerate(names[:12])}
_MONTHS |= {"sept": 9, "mrz": 3, "maerz": 3, "jän": 1, "jänner": 1, "feber": 2}
_WEEKDAYS = sorted({name for names in STYLES.values() for name in names[12:]} | {"Tues", "Thur", "Thurs"}, key=len)


def _any_of(names: Iterable[str]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


_TIME = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?(?!\d))?"
    r"(?:\s*(?P<half>[ap]\.?m\.?))?(?:\s*Uhr)?(?:\s*(?P<offset>Z|UTC|GMT|[-+]\d{2}(?::?\d{2})?))?)?"
)
_WEEKDAY = rf"(?:(?P<weekday>{_any_of(_WEEKDAYS)})\.?,?\s+)?"
_NAME = rf"(?P<name>{_any_of(_MONTHS)})\.?"
_TH = r"(?P<th>st|nd|rd|th)?"
_FORMS = {  # in the order in which they are believed; a and b are day and month, or month and day
    "iso": rf"(?P<year>\d{{4}})(?P<_>[-/.])(?P<month>\d{{1,2}})(?P=_)(?P<day>\d{{1,2}}){_TIME}",
    "numbers": rf"{_WEEKDAY}(?P<a>\d{{1,2}})(?P<_>[-/]|\.\s?)(?P<b>\d{{1,2}})(?P=_)(?P<year>\d{{4}}|\d{{2}}){_TIME}",
    "day name": rf"{_WEEKDAY}(?P<day>\d{{1,2}}){_TH}[-/.\s]\s*{_NAME}[-/,\s]+(?P<year>\d{{4}}|\d{{2}}){_TIME}",
    "name day": rf"{_WEEKDAY}{_NAME}\s+(?P<day>\d{{1,2}}){_TH}(?:,\s*|\s+)(?P<year>\d{{4}}){_TIME}",
    "year name": rf"(?P<year>\d{{4}})[-\s]{_NAME}(?:[-\s](?P<day>\d{{1,2}}))?",
    "name year": rf"{_NAME}[-\s/]+'?(?P<year>\d{{4}}|\d{{2}})",
    "month": r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})",
    "month of year": r"(?P<month>\d{1,2})[-/.](?P<year>\d{4})",
    "quarter": r"(?P<year>\d{4})[-\s/]?Q(?P<quarter>[1-4])",
    "quarter of": r"Q(?P<quarter>[1-4])[-\s/]?(?P<year>\d{4})",
    "week": r"(?P<year>\d{4})-?W(?P<week>\d{2})(?:-(?P<number>[1-7]))?",
    "compact": r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})"
    r"(?:T?(?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})?(?P<offset>Z)?)?",
    "year": r"(?P<year>\d{4})",
    "epoch": r"(?P<epoch>-?\d{9,19}|\d\.\d+[eE]\+?\d+)(?:\.(?P<fraction>\d+))?",
}
FORMS = {name: re.compile(form, re.IGNORECASE) for name, form in _FORMS.items()}
_BARE = ("compact", "year", "epoch", "month", "month of year")  # a number may read so by chance
_EXAMPLES = "dates are written 2016-07-01, 2016-07-01 13:00, 31.12.2016, 12/31/2016, 31 Dec 2016, or as Unix time"
_PLAIN = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?")
_SEEN = 2000  # rows that tell how dates are written
_CASES: dict[str, Callable[[str], str]] = {"title": str, "upper": str.upper, "lower": str.lower}
_UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")


@dataclass(frozen=True)
class DateFormat:
    """How a column writes its dates.

    `template` is filled in by `str.format`; `zone` is "" where none is named, an offset such as "+01:00", or the name
    of a time zone whose offsets change; `names` and `case` are the style of the names of months and weekdays.
    """

    template: str
    zone: str = ""
    names: str = "en-short"
    case: str = "title"

    @property
    def order(self) -> Order | None:
        """Which of day and month comes first, where both stand before the year."""
        day, month = self.template.find("{day"), self.template.find("{month")
        if min(day, month) < 0 or self.template.startswith("{year"):
            return None
        return "day-first" if day < month else "month-first"

    def write(self, moments: Moments) -> list[str]:
        """Moments, in UTC where the format has a zone, as the file writes them."""
        local = local_times(moments, self.zone)
        return [self._written(then, shown) for then, shown in zip(_stamps(moments), _stamps(local), strict=True)]

    def _written(self, stamp: int, shown: int) -> str:
        when = _EPOCH + dt.timedelta(seconds=shown)
        names, case, half = STYLES[self.names], _CASES[self.case], "pm" if when.hour >= 12 else "am"
        iso_year, week, weekday = when.isocalendar()
        fields: dict[str, int | str] = {
            "year": iso_year if "{week" in self.template else when.year,
            "yy": when.year % 100,
        }
        fields |= {"month": when.month, "day": when.day, "quarter": (when.month + 2) // 3, "th": _ordinal(when.day)}
        fields |= {"week": week, "number": weekday}
        fields |= {"name": case(names[when.month - 1]), "weekday": case(names[11 + weekday])}
        fields |= {"hour": when.hour, "hour12": (when.hour - 1) % 12 + 1, "minute": when.minute, "second": when.second}
        fields |= {"am": half, "AM": half.upper(), "a_m": f"{half[0]}.m."} | _offsets(shown - stamp)
        return self.template.format_map(fields | {unit: stamp * 1000**i for i, unit in enumerate(_UNITS)})


@dataclass(frozen=True, eq=False)
class Dates:
    """A column of dates: `moments` (n,) in UTC, `local` (n,) as clocks showed them, and how they are written."""

    moments: Moments
    local: Moments
    format: DateFormat

    def __len__(self) -> int:
        return len(self.moments)

    def at(self, rows: NDArray[np.int64]) -> Dates:
        """Some of them, in this order."""
        return Dates(self.moments[rows], self.local[rows], self.format)

    def written(self) -> list[str]:
        """As the file writes them."""
        return self.format.write(self.moments)


def looks_like_dates(texts: Iterable[str]) -> bool:
    """Whether cells read as dates rather than as numbers or words; there has to be one, and all have to."""
    forms = [form for name, form in FORMS.items() if name not in _BARE]
    cells = [text.strip() for text in texts]
    return bool(cells) and all(any(form.fullmatch(cell) for form in forms) for cell in cells)


def parse_dates(texts: Sequence[str], *, where: Where, dates: Order | None = None, usual: Order | None = None) -> Dates:
    """A column of texts as dates; what cannot be one is named.

    `dates` says what 01/02/2020 means; `usual` does where the rows do not.
    """
    cells = [text.strip() for text in texts]
    rows: dict[str, int] = {}  # every different text, and where it comes first
    for row, cell in enumerate(cells):
        rows.setdefault(cell, row)
    if not rows:
        none = np.array([], "datetime64[s]")
        return Dates(none, none, DateFormat("{year:04d}-{month:02d}-{day:02d}"))
    number = {text: i for i, text in enumerate(rows)}
    spread = np.array([number[cell] for cell in cells], np.int64)
    plain = _plain_times(list(rows))
    if plain is not None:
        template, _, _ = _template([match for cell in cells[:1] if (match := FORMS["iso"].fullmatch(cell))], None)
        return Dates(plain[spread], plain[spread], DateFormat(template))
    form = _form(rows, where)
    found = [match for text in rows if (match := FORMS[form].fullmatch(text)) is not None]
    order = _order(found, rows, where, given=dates, usual=usual) if form == "numbers" else None
    local, offsets = _times(found, rows, where, order=order)
    utc = local - offsets
    template, names, case = _template(found, order)
    zone = _zone(utc, local) if _group(found[0], "offset") else ""
    return Dates(utc[spread], local[spread], DateFormat(template, zone, names, case))


def local_times(moments: Moments, zone: str) -> Moments:
    """What clocks in a zone show at moments in UTC."""
    times: Moments = moments + _ahead(moments, zone, clock=False)
    return times


def utc_times(local: Moments, zone: str) -> Moments:
    """The moments in UTC at which clocks in a zone show these times; of an hour that comes twice, the first."""
    times: Moments = local - _ahead(local, zone, clock=True)
    return times


def _ahead(times: Moments, zone: str, *, clock: bool) -> NDArray[np.timedelta64]:
    """How far a zone is ahead of UTC at moments in UTC or, with `clock`, when its clocks show these times."""
    if not zone or zone[0] in "+-":
        return np.full(times.shape, _offset(zone), "timedelta64[s]")
    place = ZoneInfo(zone)
    shown = [
        (_EPOCH + dt.timedelta(seconds=stamp)).replace(tzinfo=place if clock else dt.UTC) for stamp in _stamps(times)
    ]
    shifts = [time.astimezone(place).utcoffset() if not clock else time.utcoffset() for time in shown]
    return np.array(shifts, "timedelta64[s]").reshape(times.shape)


def _plain_times(texts: Sequence[str]) -> Moments | None:
    """All texts at once, where all are written 2016-07-01 or 2016-07-01 13:00:00 alike; None where they are not."""
    if _PLAIN.fullmatch(texts[0]) is None or any(len(text) != len(texts[0]) for text in texts):
        return None
    try:
        times: Moments = np.array(texts, "datetime64[s]")
    except ValueError:
        return None
    return times


def _form(rows: dict[str, int], where: Where) -> str:
    """The first form that every text has."""
    left = list(FORMS)
    for text, row in rows.items():
        fitting = [name for name in left if FORMS[name].fullmatch(text)]
        if not fitting:
            message = f"{where(row)}: {text!r} is no date"
            if any(form.fullmatch(text) for form in FORMS.values()):
                message = f"{where(row)}: {text!r} is written unlike the dates before it, such as {next(iter(rows))!r}"
            raise DataError(message, hint=_EXAMPLES)
        left = fitting
    if left == ["compact", "epoch"] and not all(_is_possible(FORMS["compact"], text) for text in rows):
        return "epoch"
    return left[0]


def _is_possible(form: re.Pattern[str], text: str) -> bool:
    found = form.fullmatch(text)
    try:
        return found is not None and _time(found, None) is not None
    except ValueError:
        return False


def _order(
    found: Sequence[re.Match[str]], rows: dict[str, int], where: Where, *, given: Order | None, usual: Order | None
) -> Order:
    """Whether days or months come first: as given, as a row shows, as the mark is used, or as puts rows in order."""
    if given is not None:
        return given
    days = next((match for match in found if int(match["a"]) > 12), None)
    months = next((match for match in found if int(match["b"]) > 12), None)
    if days is not None and days is months:
        raise DataError(f"{where(rows[days.string])}: {days.string!r} is no date", hint=_EXAMPLES)
    if days is not None and months is not None:
        raise DataError(
            f"{where(rows[days.string])}: {days.string!r} has its day first, "
            f"and {where(rows[months.string])}: {months.string!r} has its month first",
            hint="a column is written one way; correct the rows that are not",
        )
    if days is not None or months is not None:
        return "day-first" if days is not None else "month-first"
    if found[0]["_"].startswith("."):
        return "day-first"
    open_ones = [match for match in found if int(match["a"]) != int(match["b"])]
    if not open_ones:
        return "month-first" if found[0]["_"] == "/" else "day-first"
    orderly: list[Order] = [order for order in ("day-first", "month-first") if _is_orderly(found, order)]
    if len(orderly) == 1:
        return orderly[0]
    if usual is not None:
        return usual
    raise _ambiguous(open_ones[0], where(rows[open_ones[0].string]))


def _is_orderly(found: Sequence[re.Match[str]], order: Order) -> bool:
    """Whether three dates or more, so read, only go forward or only backward."""
    steps = np.diff([_time(match, order)[0] for match in found])
    return len(steps) > 1 and bool((steps > 0).all() or (steps < 0).all())


def _ambiguous(match: re.Match[str], where: str) -> DataError:
    first, second, year = int(match["a"]), int(match["b"]), _year(match["year"])
    months = STYLES["en"]
    readings = f"{first} {months[second - 1]} {year} (day-first) or {second} {months[first - 1]} {year} (month-first)"
    hint = 'say which: data.dates="day-first" or data.dates="month-first"'
    return DataError(f"{where}: {match.string!r} is {readings}, and no row tells which", hint=hint)


def _times(
    found: Sequence[re.Match[str]], rows: dict[str, int], where: Where, *, order: Order | None
) -> tuple[Moments, NDArray[np.timedelta64]]:
    """What clocks show, and how far they are ahead of UTC, for every different text."""
    times, offsets, exact = [], [], True
    for match in found:
        try:
            seconds, rest = _time(match, order)
        except ValueError as problem:
            read = "" if order is None else f" read {order}"
            message = f"{where(rows[match.string])}: {match.string!r} is no date{read} ({problem})"
            raise DataError(message, hint=_EXAMPLES) from None
        if bool(_group(match, "offset")) != bool(_group(found[0], "offset")):
            message = f"{where(rows[match.string])}: only one of {found[0].string!r} and {match.string!r} has an offset"
            raise DataError(message, hint="a column has offsets from UTC in all rows, or in none")
        times.append(seconds)
        offsets.append(_offset(_group(match, "offset") or ""))
        exact = exact and not rest
    if not exact and len(set(zip(times, offsets, strict=True))) < len(times):
        row = next(i for i in range(1, len(times)) if times[i] in times[:i])
        message = f"{where(rows[found[row].string])}: {found[row].string!r} is less than a second from another row"
        raise DataError(message, hint="dates are told apart by seconds; leave the column out, and rows count as steps")
    return np.array(times, "datetime64[s]"), np.array(offsets, "timedelta64[s]")


def _time(match: re.Match[str], order: Order | None) -> tuple[int, bool]:
    """The seconds since 1970 that a text shows, whatever its offset, and whether a fraction was left off."""
    parts = {name: part for name, part in match.groupdict().items() if part}
    rest = any(parts.get("fraction", "").strip("0"))
    if "epoch" in parts:
        whole = int(float(parts["epoch"])) if "." in parts["epoch"] else int(parts["epoch"])
        seconds, left = divmod(whole, 1000 ** _unit(parts["epoch"]))
        return seconds, rest or left > 0
    if order is not None:
        parts["day"], parts["month"] = (parts[name] for name in ("ab" if order == "day-first" else "ba"))
    hour, minute = int(parts.get("hour", 0)), int(parts.get("minute", 0))
    if "half" in parts:
        if not 1 <= hour <= 12:
            raise ValueError(f"{hour} is no hour before or after noon")
        hour = hour % 12 + 12 * (parts["half"][0] in "pP")
    late = hour == 24 and minute == 0  # the end of a day
    time = dt.time(
        0 if late else hour, minute, min(int(parts.get("second", 0)), 59)
    )  # a leap second stays in its minute
    return int((dt.datetime.combine(_day(parts), time) - _EPOCH).total_seconds()) + 86400 * late, rest


def _day(parts: dict[str, str]) -> dt.date:
    year = _year(parts["year"])
    if "week" in parts:
        return dt.date.fromisocalendar(year, int(parts["week"]), int(parts.get("number", 1)))
    if "quarter" in parts:
        return dt.date(year, 3 * int(parts["quarter"]) - 2, 1)
    month = _MONTHS[parts["name"].lower()] if "name" in parts else int(parts.get("month", 1))
    return dt.date(year, month, int(parts.get("day", 1)))


def _year(text: str) -> int:
    """Two digits are a year from 1969 to 2068, as everywhere."""
    return int(text) + (0 if len(text) > 2 else 2000 if int(text) < 69 else 1900)


def _unit(text: str) -> int:
    """0 for seconds since 1970, 1 for milliseconds, …: by the size that makes dates after 1973 and before 5138."""
    size = abs(float(text))
    return 0 if size < 1e11 else 1 if size < 1e14 else 2 if size < 1e17 else 3


def _group(match: re.Match[str], name: str) -> str | None:
    found: str | None = match.groupdict().get(name)
    return found


def _template(found: Sequence[re.Match[str]], order: Order | None) -> tuple[str, str, str]:
    """The template that most rows have, and the style and case of the names in them."""
    if len(found) > _SEEN:  # at random, since rows at equal distances may all be at midnight
        found = Random(0).sample(found, _SEEN)
    short = {
        _field(name, order) for match in found for name, part in match.groupdict().items() if part and len(part) == 1
    }
    skeletons = Counter(_skeleton(match, order) for match in found)
    template = skeletons.most_common(1)[0][0]
    for field in ("day", "month", "hour", "hour12"):
        if field.removesuffix("12") not in short:
            template = template.replace(f"{{{field}}}", f"{{{field}:02d}}")
    names = [part for match in found for name in ("name", "weekday") if (part := _group(match, name))]
    if not names:
        return template, "en-short", "title"
    seen = {name.lower() for name in names}
    style = max(STYLES, key=lambda style: len(seen & {name.lower() for name in STYLES[style]}))
    return template, style, "upper" if names[0].isupper() else "lower" if names[0].islower() else "title"


def _field(name: str, order: Order | None) -> str:
    if name in ("a", "b"):
        return "day" if (name == "a") == (order == "day-first") else "month"
    return name


def _skeleton(match: re.Match[str], order: Order | None) -> str:
    """A text with fields in place of what changes from row to row."""
    pieces, end = [], 0
    groups = [name for name, part in match.groupdict().items() if part and name != "_"]
    for name in sorted(groups, key=match.start):
        pieces += [match.string[end : match.start(name)], _placeholder(_field(name, order), match[name], groups)]
        end = match.end(name)
    return "".join([*pieces, match.string[end:]])


def _placeholder(field: str, part: str, groups: Sequence[str]) -> str:
    if field == "offset":
        return part if part[0] not in "+-" else {3: "{hours}", 5: "{plain}", 6: "{colon}"}[len(part)]
    if field == "half":
        return "{a_m}" if "." in part else "{AM}" if part.isupper() else "{am}"
    if field == "fraction":
        return "0" * len(part)
    fields = {
        "year": "{yy:02d}" if len(part) == 2 else "{year:04d}",
        "hour": "{hour12}" if "half" in groups else "{hour}",
    }
    fields |= {"minute": "{minute:02d}", "second": "{second:02d}", "week": "{week:02d}"}
    return f"{{{_UNITS[_unit(part)]}}}" if field == "epoch" else fields.get(field, f"{{{field}}}")


def _zone(utc: Moments, local: Moments) -> str:
    """One offset as it is, or the first time zone that shows these times at these moments; else the last offset."""
    offsets = (local - utc).astype(np.int64)
    if (offsets != offsets[0]).any():
        for zone in _ZONES:
            try:
                if (local_times(utc, zone) == local).all():
                    return zone
            except ZoneInfoNotFoundError:  # a machine without a time zone database
                break
    return _offsets(int(offsets[-1]))["colon"]


def _offset(text: str) -> int:
    """Seconds ahead of UTC: "+01:30" is 5400; a name or nothing is 0."""
    if text[:1] not in ("+", "-"):
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    return (3600 * int(digits[:2]) + 60 * int(digits[2:])) * (-1 if text[0] == "-" else 1)


def _offsets(seconds: int) -> dict[str, str]:
    sign, (hours, minutes) = "-" if seconds < 0 else "+", divmod(abs(seconds) // 60, 60)
    whole = f"{sign}{hours:02d}"
    return {"colon": f"{whole}:{minutes:02d}", "plain": f"{whole}{minutes:02d}", "hours": whole}


def _stamps(moments: Moments) -> list[int]:
    stamps: list[int] = moments.astype("datetime64[s]").astype(np.int64).tolist()
    return stamps


def _ordinal(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
