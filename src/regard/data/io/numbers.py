"""Numbers as people write them: 1,234.56 and 1.234,56, 1 234 and 1'234, −3, 5- and 12 %.

    decimal_of(["1.234,56", "7"])                 ","
    parse_number("1.234,56 €", decimal=",")       1234.56

Which mark is the decimal one is told by a whole column: "1.5" and "0.123" can only be points, "1,5" and "1.234,56"
only commas, while "1.234" alone is a little more than one, or twelve hundred thirty-four.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

Decimal = Literal[".", ","]
POINT: Decimal = "."
COMMA: Decimal = ","

_CURRENCY = "€$£¥"
_BLANKS = " \u00a0\u2009\u202f'’"  # between thousands: blanks of any width, and the Swiss apostrophe
_DRESSED = re.compile(
    rf"[{_CURRENCY}\s]*(?P<sign>[-+−]?)[{_CURRENCY}\s]*(?P<core>[\d.,{_BLANKS}]*\d[.,]?(?:[eE][-+]?\d+)?)"
    rf"(?P<behind>-?)[{_CURRENCY}%\s]*"
)


def _shape(decimal: Decimal) -> re.Pattern[str]:
    group = COMMA if decimal == POINT else POINT
    whole = rf"(?:\d+|[1-9]\d{{0,2}}(?:(?:[{group}]\d{{3}})+|(?:[{_BLANKS}]\d{{3}})+))"
    return re.compile(rf"(?:{whole}(?:[{decimal}]\d*)?|[{decimal}]\d+)(?:[eE][-+]?\d+)?")


_SHAPES = {POINT: _shape(POINT), COMMA: _shape(COMMA)}
_BARE = {
    POINT: str.maketrans("", "", _BLANKS + COMMA),
    COMMA: str.maketrans(COMMA, POINT, _BLANKS + POINT),
}


def parse_number(text: str, *, decimal: Decimal = POINT) -> float | None:
    """A text as a number, None if it is none; thousands, a currency, a percent sign and a minus behind are understood.

    "12 %" is 12.0: a column stays in the unit it is written in. "nan" and "inf" are no numbers. Thousands come in
    threes: with a decimal comma "1.234" is 1234.0 and "1.5" is no number, rather than fifteen.
    """
    found = _DRESSED.fullmatch(text.strip())
    if found is None or _SHAPES[decimal].fullmatch(found["core"]) is None or (found["sign"] and found["behind"]):
        return None
    size = float(found["core"].translate(_BARE[decimal]))
    return -size if found["sign"] in ("-", "−") or found["behind"] else size


def parse_numbers(texts: Sequence[str], *, default: Decimal = POINT) -> list[float | None]:
    """A column as numbers, None for what is none; its own decimal mark goes before the default, that of the table."""
    decimal = decimal_of(texts, default=default)
    return [parse_number(text, decimal=decimal) for text in texts]


def decimal_of(texts: Iterable[str], *, default: Decimal = POINT) -> Decimal:
    """The decimal mark of a column of numbers: that of most cells that can only be read one way; else the default."""
    counts = Counter(mark for text in texts if (mark := decimal_in(text)) is not None)
    if counts[POINT] == counts[COMMA]:
        return default
    return POINT if counts[POINT] > counts[COMMA] else COMMA


def decimal_in(text: str) -> Decimal | None:
    """The decimal mark of one number, where it can be no other; None for "7", "1.234" and what is no number."""
    found = _DRESSED.fullmatch(text.strip())
    if found is None:
        return None
    core = re.split("[eE]", found["core"])[0]
    marks = [sign for sign in core if sign in (POINT, COMMA)]
    if not marks:
        return None
    mark: Decimal = POINT if marks[-1] == POINT else COMMA
    other: Decimal = COMMA if mark == POINT else POINT
    if len(marks) > 1 and len(set(marks)) == 1:  # 1.234.567: thousands
        mark, other = other, mark
    elif len(marks) == 1 and _SHAPES[other].fullmatch(core) is not None:
        return None
    return mark if _SHAPES[mark].fullmatch(core) is not None else None


def thousands_in(text: str) -> str:
    """What stands between the thousands of a number that can only be read one way, "" if nothing does."""
    mark = decimal_in(text)
    whole = "" if mark is None else text.strip().partition(mark)[0]
    return next((sign for sign in re.sub(r"^\D+", "", whole) if sign in _BLANKS + POINT + COMMA), "")
