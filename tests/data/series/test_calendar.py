"""Dates as people have them: formats told by whole columns, written back alike, and the days that come next."""

import datetime as dt
from dataclasses import asdict

import numpy as np
import pytest

from regard.data.series.calendar import DAY, DatePattern, continue_dates, learn_pattern
from regard.data.series.dates import DateFormat, local_times, looks_like_dates, parse_dates, utc_times
from regard.errors import DataError


def where(row):
    return f"f.csv:{row + 2}"


def read(*texts, dates=None):
    return parse_dates(texts, where=where, dates=dates)


FORMATS = {  # text: the moment in UTC
    "2020-12-31": "2020-12-31T00:00:00",
    "2020-12-31 14:30": "2020-12-31T14:30:00",
    "2020-12-31T14:30:05": "2020-12-31T14:30:05",
    "2020-12-31T14:30:00Z": "2020-12-31T14:30:00",
    "2020-12-31T14:30:00.000Z": "2020-12-31T14:30:00",
    "2020-12-31 00:00:00+01:00": "2020-12-30T23:00:00",
    "2020-12-31T14:30:00-0530": "2020-12-31T20:00:00",
    "2020-12-31 14:30:00+02": "2020-12-31T12:30:00",
    "2020-12-31 14:30:00 UTC": "2020-12-31T14:30:00",
    "2020/12/31": "2020-12-31T00:00:00",
    "2020-1-5": "2020-01-05T00:00:00",
    "12/31/2020": "2020-12-31T00:00:00",
    "1/22/20": "2020-01-22T00:00:00",
    "12/31/2020 2:30 PM": "2020-12-31T14:30:00",
    "12/31/2020 12:05 AM": "2020-12-31T00:05:00",
    "12/31/2020 12:05 p.m.": "2020-12-31T12:05:00",
    "12/31/2020 9 am": "2020-12-31T09:00:00",
    "31.12.2020": "2020-12-31T00:00:00",
    "5.1.2020": "2020-01-05T00:00:00",
    "01.02.2020": "2020-02-01T00:00:00",
    "31.12.20 14:30": "2020-12-31T14:30:00",
    "31. 12. 2020": "2020-12-31T00:00:00",
    "31.12.2020 14:30 Uhr": "2020-12-31T14:30:00",
    "Do, 31.12.2020": "2020-12-31T00:00:00",
    "31-12-2020": "2020-12-31T00:00:00",
    "31 December 2020": "2020-12-31T00:00:00",
    "31. Dezember 2020": "2020-12-31T00:00:00",
    "1 März 2020": "2020-03-01T00:00:00",
    "December 31, 2020": "2020-12-31T00:00:00",
    "Dec 31st, 2020": "2020-12-31T00:00:00",
    "31-DEC-20": "2020-12-31T00:00:00",
    "Thu, 31 Dec 2020 10:00:00 +0100": "2020-12-31T09:00:00",
    "Thursday, December 31, 2020": "2020-12-31T00:00:00",
    "Dec 2020": "2020-12-01T00:00:00",
    "Jan-99": "1999-01-01T00:00:00",
    "2020-12": "2020-12-01T00:00:00",
    "12/2020": "2020-12-01T00:00:00",
    "2020Q4": "2020-10-01T00:00:00",
    "Q1 2021": "2021-01-01T00:00:00",
    "2020-W53": "2020-12-28T00:00:00",
    "2021": "2021-01-01T00:00:00",
    "20201231": "2020-12-31T00:00:00",
    "20201231T143000Z": "2020-12-31T14:30:00",
    "202012311430": "2020-12-31T14:30:00",
    "1609459200": "2021-01-01T00:00:00",
    "1609459200.0": "2021-01-01T00:00:00",
    "1609459200000": "2021-01-01T00:00:00",
    "1609459200000000": "2021-01-01T00:00:00",
    "1609459200000000000": "2021-01-01T00:00:00",
    "-300000000": "1960-06-29T18:40:00",
    "2020-02-29": "2020-02-29T00:00:00",
    "0001-01-01": "0001-01-01T00:00:00",
}


@pytest.mark.parametrize("text", FORMATS)
def test_formats_are_read_and_written_back(text):
    dates = read(f" {text} ")
    assert str(dates.moments[0]) == FORMATS[text]
    assert dates.moments.dtype == np.dtype("datetime64[s]")
    assert dates.format.write(dates.moments) == [text]
    assert DateFormat(**asdict(dates.format)) == dates.format


COLUMNS = [  # what a column of rows decides together: texts, the first moment, how 2021-03-04 15:06:07 is written
    (["01/02/2020", "01/13/2020"], "2020-01-02", "03/04/2021"),
    (["01/02/2020", "13/02/2020"], "2020-02-01", "04/03/2021"),
    (["03/11/2020", "04/11/2020", "01/12/2020"], "2020-11-03", "04/03/2021"),  # only so in order
    (["11/30/2020", "1/2/2021"], "2020-11-30", "3/4/2021"),
    (["05.11.2020", "06.11.2020"], "2020-11-05", "04.03.2021"),
    (["01/01/2019", "01/01/2020"], "2019-01-01", "03/04/2021"),
    (["2020-01-01", "2020-01-01 12:00", "2020-01-01 13:00"], "2020-01-01", "2021-03-04 15:06"),
    (["5/13/2020 11:00 PM", "5/14/2020 1:00 AM"], "2020-05-13T23:00", "3/04/2021 3:06 PM"),
    (["1. Mai 2020", "1. Juni 2020"], "2020-05-01", "4. März 2021"),
    (["Mai 2020", "Juni 2020"], "2020-05-01", "März 2021"),
    (["May 2020", "Jun 2020"], "2020-05-01", "Mar 2021"),
    (["21 may 2020", "22 may 2020"], "2020-05-21", "04 mar 2021"),
    (["1st May 2020", "2nd May 2020"], "2020-05-01", "4th Mar 2021"),
    (["202012311430", "202099999999"], "1976-05-27T02:31:51", "1614870367000"),  # no month 99: milliseconds
    (["2020-12-31 24:00", "2021-01-01 01:00"], "2021-01-01", "2021-03-04 15:06"),
    (["1609459200.5", "1609459201.5"], "2021-01-01", "1614870367.0"),
]


@pytest.mark.parametrize(("texts", "first", "written"), COLUMNS)
def test_a_whole_column_decides(texts, first, written):
    dates = read(*texts)
    assert dates.moments[0] == np.datetime64(first, "s")
    assert dates.format.write(np.array(["2021-03-04T15:06:07"], "datetime64[s]")) == [written]


BAD = [  # texts, order, message, hint
    (["2020-01-01", ""], None, "f.csv:3: '' is no date", "dates are written 2016-07-01"),
    (["soon"], None, "f.csv:2: 'soon' is no date", "31.12.2016"),
    (["2021-02-29"], None, "f.csv:2: '2021-02-29' is no date (day is out of range for month)", "dates"),
    (["13.14.2020"], None, "f.csv:2: '13.14.2020' is no date", "dates"),
    (["2020-12-31 25:00"], None, "is no date (hour must be in 0..23)", "dates"),
    (["12/31/2020 14:00 PM"], None, "14 is no hour before or after noon", "dates"),
    (["2020-01-01", "01.02.2020"], None,
     "f.csv:3: '01.02.2020' is written unlike the dates before it, such as '2020-01-01'", "dates are written"),
    (["01/02/2020", "03/04/2020"], None,
     "f.csv:2: '01/02/2020' is 1 February 2020 (day-first) or 2 January 2020 (month-first), and no row tells which",
     'say which: data.dates="day-first" or data.dates="month-first"'),
    (["01/02/2020", "02/02/2020", "03/02/2020"], None, "and no row tells which", "day-first"),
    (["12/31/2020", "31/12/2020"], None,
     "f.csv:3: '31/12/2020' has its day first, and f.csv:2: '12/31/2020' has its month first", "one way"),
    (["12/31/2020"], "day-first", "'12/31/2020' is no date read day-first", "dates"),
    (["2020-01-01 10:00+01:00", "2020-01-01 11:00"], None, "f.csv:3: only one of", "in all rows, or in none"),
    (["1609459200.25", "1609459200.5"], None,
     "f.csv:3: '1609459200.5' is less than a second from another row", "leave the column out"),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "order", "message", "hint"), BAD)
def test_what_is_no_date_is_named(texts, order, message, hint):
    with pytest.raises(DataError) as caught:
        read(*texts, dates=order)
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_a_setting_decides_what_rows_do_not():
    texts = ["01/02/2020", "03/04/2020"]
    assert str(read(*texts, dates="day-first").moments[0]) == "2020-02-01T00:00:00"
    assert str(read(*texts, dates="month-first").moments[0]) == "2020-01-02T00:00:00"


def test_no_rows_and_repeated_rows():
    assert len(read()) == 0
    assert read("1.1.2020", "2.1.2020", "1.1.2020").moments.astype(str).tolist()[2] == "2020-01-01T00:00:00"


def test_which_cells_look_like_dates():
    assert looks_like_dates(["2020-01-01 10:00", "31.12.2020", "12/31/20"])
    assert not any(
        map(looks_like_dates, [[], [""], ["2020"], ["1609459200"], ["1.5"], ["2020.12"], ["Monday"], ["-5"]])
    )


def test_offsets_that_change_are_those_of_a_place():
    berlin = read("2020-03-28 00:00:00+01:00", "2020-03-30 00:00:00+02:00")
    assert berlin.format.zone == "Europe/Berlin"
    assert berlin.local.astype(str).tolist() == ["2020-03-28T00:00:00", "2020-03-30T00:00:00"]
    winter = np.array(["2020-12-31T23:00:00"], "datetime64[s]")
    assert berlin.format.write(winter) == ["2021-01-01 00:00:00+01:00"]
    york = read("2020-03-07T12:00:00-05:00", "2020-03-09T12:00:00-04:00", "2020-11-02T12:00:00-05:00")
    assert york.format.zone == "America/New_York"
    nowhere = read("2020-01-01 00:00:00+01:00", "2020-01-02 00:00:00+07:30")
    assert nowhere.format.zone == "+07:30"


def test_local_times_and_back():
    shown = np.array(["2020-03-29T02:30:00", "2020-10-25T02:30:00", "2020-07-01T00:00:00"], "datetime64[s]")
    utc = utc_times(shown, "Europe/Berlin")
    assert utc.astype(str).tolist() == ["2020-03-29T01:30:00", "2020-10-25T00:30:00", "2020-06-30T22:00:00"]
    assert local_times(utc, "Europe/Berlin").astype(str).tolist()[0] == "2020-03-29T03:30:00"  # 02:30 was left out


# Patterns


def days(first, n, keep=lambda day: True):
    """The first n days from a day on that are kept."""
    day, found = dt.date.fromisoformat(first), []
    while len(found) < n:
        if keep(day):
            found.append(day.isoformat())
        day += dt.timedelta(days=1)
    return found


def hours(first, n, step=60, keep=lambda when: True):
    when, found = dt.datetime.fromisoformat(first), []
    while len(found) < n:
        if keep(when):
            found.append(when.strftime("%Y-%m-%d %H:%M"))
        when += dt.timedelta(minutes=step)
    return found


def weekday(day):
    return day.weekday() < 5


def no_sunday(day):
    return day.weekday() != 6


def office(when):
    return when.weekday() < 5 and 9 <= when.hour < 17


def shop(when):
    return (when.weekday() < 5 and 9 <= when.hour <= 18) or (when.weekday() == 5 and 10 <= when.hour <= 13)


PATTERNS = {  # name: rows, what comes next, season
    "every day": (days("2020-02-25", 4), ["2020-02-29", "2020-03-01"], 7),
    "every 2 days": (["2020-02-26", "2020-02-28"], ["2020-03-01", "2020-03-03"], 0),
    "every week": (["2020-12-14", "2020-12-21", "2020-12-28"], ["2021-01-04", "2021-01-11"], 52),
    "every 4 weeks": (["2021-02-01", "2021-03-01", "2021-03-29", "2021-04-26"], ["2021-05-24", "2021-06-21"], 0),
    "every second": (["2020-12-31 23:59:57", "2020-12-31 23:59:58"], ["2020-12-31 23:59:59", "2021-01-01 00:00:00"], 0),
    "every 15 minutes": (hours("2020-12-31 23:00", 3, 15), ["2020-12-31 23:45", "2021-01-01 00:00"], 96),
    "every hour": (hours("2020-12-31 20:00", 3), ["2020-12-31 23:00", "2021-01-01 00:00"], 24),
    "Monday to Friday": (days("2020-01-02", 30, weekday), ["2020-02-13", "2020-02-14", "2020-02-17"], 5),
    "every day but Sunday": (days("2020-01-02", 40, no_sunday), ["2020-02-18", "2020-02-19"], 6),
    "Tuesday and Thursday": (
        days("2020-01-02", 12, lambda day: day.weekday() in (1, 3)), ["2020-02-13", "2020-02-18", "2020-02-20"], 2),
    "every day but Wednesday": (
        days("2020-01-02", 30, lambda day: day.weekday() != 2), ["2020-02-06", "2020-02-07", "2020-02-08"], 6),
    "Monday to Friday, from 09:00 to 16:00": (
        hours("2020-01-06 09:00", 80, keep=office), ["2020-01-20 09:00", "2020-01-20 10:00"], 8),
    "every day but Sunday, from 09:00 to 18:00": (
        hours("2020-01-06 09:00", 3 * 54, keep=shop), ["2020-01-27 09:00"], 10),
    "day 1 of every month": (["2020-10-01", "2020-11-01", "2020-12-01"], ["2021-01-01", "2021-02-01"], 12),
    "day 15 of every month": (["2020-01-15", "2020-02-15", "2020-03-15"], ["2020-04-15"], 12),
    "day 30 of every month": (
        ["2020-11-30", "2020-12-30", "2021-01-30", "2021-02-28", "2021-03-30"], ["2021-04-30", "2021-05-30"], 12),
    "the end of every month": (
        ["2019-11-30", "2019-12-31", "2020-01-31"], ["2020-02-29", "2020-03-31", "2020-04-30"], 12),
    "the end of every quarter": (["2020-06-30", "2020-09-30", "2020-12-31"], ["2021-03-31", "2021-06-30"], 4),
    "day 1 of every quarter": (["2020Q3", "2020Q4"], ["2021Q1", "2021Q2"], 4),
    "day 1 of every year": (["2019", "2020"], ["2021", "2022"], 1),
    "the end of every year": (["2018-12-31", "2019-12-31", "2020-12-31"], ["2021-12-31"], 1),
    "the last weekday of every month": (
        ["2020-01-31", "2020-02-28", "2020-03-31", "2020-04-30", "2020-05-29"],
        ["2020-06-30", "2020-07-31", "2020-08-31"], 12),
    "the first weekday of every month": (["2020-01-01", "2020-02-03", "2020-03-02", "2020-04-01"],
        ["2020-05-01", "2020-06-01"], 12),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_are_learned_and_continued(name):
    texts, following, season = PATTERNS[name]
    dates = read(*texts)
    fit = learn_pattern(dates, where=where)
    assert (str(fit.pattern), fit.share, fit.missing, fit.odd, fit.first) == (name, 1.0, 0, 0, None)
    assert fit.note(where) is None
    after = continue_dates(fit.pattern, dates.moments[-1], len(following))
    assert dates.format.write(after) == following
    assert fit.pattern.season == season


def test_a_saturday_has_shorter_hours():
    dates = read(*hours("2020-01-06 09:00", 3 * 54, keep=shop))
    pattern = learn_pattern(dates, where=where).pattern
    expected = hours("2020-01-27 09:00", 200, keep=shop)
    assert dates.format.write(continue_dates(pattern, dates.moments[-1], 200)) == expected


def test_holidays_are_missing_rows_of_weekdays():
    closed = ("2020-01-01", "2020-04-10", "2020-04-13", "2020-05-01", "2020-12-25")
    dates = read(*[day for day in days("2019-12-02", 300, weekday) if day not in closed])
    fit = learn_pattern(dates, where=where)
    assert (str(fit.pattern), fit.missing, fit.odd) == ("Monday to Friday", 5, 0)
    assert 0.98 < fit.share < 1
    note = f"Monday to Friday; 5 rows are missing; the first place is {where(fit.first)}: 2020-01-02"
    assert (fit.note(where), fit.first) == (note, 22)


def test_an_open_sunday_is_odd_and_an_outage_is_missing():
    rows = days("2020-01-02", 200, no_sunday)
    fit = learn_pattern(read(*sorted([*rows, "2020-03-01"])), where=where)
    assert (str(fit.pattern), fit.odd, fit.missing) == ("every day but Sunday", 1, 0)
    assert "1 comes at another time" in fit.note(where)
    fit = learn_pattern(read(*hours("2020-01-01 00:00", 100), *hours("2020-03-01 00:00", 100)), where=where)
    assert (str(fit.pattern), fit.odd, fit.missing) == ("every hour", 0, 60 * 24 - 100)
    fit = learn_pattern(read("2020-01-31", "2020-02-29", "2020-04-30", "2020-05-31", "2020-06-30"), where=where)
    assert (str(fit.pattern), fit.missing) == ("the end of every month", 1)
    assert fit.note(where).startswith(
        "the end of every month; a row is missing; the first place is f.csv:4: 2020-04-30"
    )


def test_one_missing_day_is_no_closed_day():
    fit = learn_pattern(read(*[day for day in days("2020-01-01", 11) if day != "2020-01-08"]), where=where)
    assert (str(fit.pattern), fit.missing) == ("every day", 1)


def test_few_rows_with_a_weekend_between_are_weekdays():
    dates = read("2020-01-02", "2020-01-03", "2020-01-06")
    pattern = learn_pattern(dates, where=where).pattern
    assert str(pattern) == "Monday to Friday"
    assert dates.format.write(continue_dates(pattern, dates.moments[-1], 5))[-1] == "2020-01-13"


def test_irregular_dates_are_said():
    dates = read("2020-01-01", "2020-01-02", "2020-01-05", "2020-01-09", "2020-01-10", "2020-01-23", "2020-02-07")
    fit = learn_pattern(dates, where=where)
    assert (fit.pattern, str(fit.nearest), round(fit.share, 2), fit.first) == (None, "every day", 0.33, 2)
    error = fit.irregular(where)
    assert str(error) == (
        "f.csv:4: 2020-01-05 does not follow the row before; the dates have no pattern: "
        "at best, every day, which 33% of the rows keep to"
    )
    assert error.hint == 'let rows count as steps whatever their distance: data.steps="any"'


def test_one_row_has_no_pattern():
    fit = learn_pattern(read("2020-01-01"), where=where)
    assert fit.pattern is None
    assert "one date has no next one" in str(fit.irregular(where))
    assert learn_pattern(read(), where=where).pattern is None


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["1.1.2020", "1.1.2020"], "f.csv:3: 1.1.2020 is the same date as the row before"),
        (["1.1.2020", "3.1.2020", "2.1.2020"], "f.csv:4: 2.1.2020 is a date before that of the row before"),
        (["3.1.2020", "2.1.2020", "1.1.2020"], "f.csv:3: 2.1.2020: the newest row comes first"),
    ],
)
def test_rows_out_of_order(texts, message):
    with pytest.raises(DataError, match=message):
        learn_pattern(read(*texts), where=where)


def test_days_stay_at_midnight_when_clocks_change():
    rows = [f"2020-03-{day} 00:00:00+01:00" for day in range(25, 30)] + [
        f"2020-03-{d} 00:00:00+02:00" for d in (30, 31)
    ]
    dates = read(*rows)
    fit = learn_pattern(dates, where=where)
    assert (fit.pattern, fit.share) == (DatePattern(seconds=DAY, zone="Europe/Berlin"), 1.0)
    after = continue_dates(fit.pattern, np.datetime64("2020-10-23T22:00:00"), 3)
    assert dates.format.write(after) == [
        "2020-10-25 00:00:00+02:00", "2020-10-26 00:00:00+01:00", "2020-10-27 00:00:00+01:00",
    ]  # fmt: skip


def test_hours_are_hours_when_clocks_change():
    dates = read("2020-03-29 00:00+01:00", "2020-03-29 01:00+01:00", "2020-03-29 03:00+02:00", "2020-03-29 04:00+02:00")
    fit = learn_pattern(dates, where=where)
    assert (fit.pattern, fit.share, fit.missing) == (DatePattern(seconds=3600), 1.0, 0)
    after = continue_dates(fit.pattern, np.datetime64("2020-10-24T23:00:00"), 3)
    assert dates.format.write(after) == ["2020-10-25 02:00+02:00", "2020-10-25 02:00+01:00", "2020-10-25 03:00+01:00"]


def test_clocks_without_offsets_may_go_back_in_autumn():
    autumn = [*hours("2020-10-24 00:00", 27), *hours("2020-10-25 02:00", 30)]  # 02:00 comes twice
    fit = learn_pattern(read(*autumn), where=where)
    assert (str(fit.pattern), fit.odd, fit.missing, fit.first) == ("every hour", 1, 0, 27)
    spring = [hour for hour in hours("2020-03-28 00:00", 60) if hour != "2020-03-29 02:00"]
    assert learn_pattern(read(*spring), where=where).missing == 1
    with pytest.raises(DataError, match="is the same date as the row before"):
        learn_pattern(read(*hours("2020-10-21 00:00", 27), *hours("2020-10-22 02:00", 30)), where=where)


def test_months_of_a_zone_are_its_own():
    dates = read("2020-01-01T00:00:00+01:00", "2020-02-01T00:00:00+01:00", "2020-03-01T00:00:00+01:00")
    pattern = learn_pattern(dates, where=where).pattern
    assert str(pattern) == "day 1 of every month"
    assert dates.format.write(continue_dates(pattern, dates.moments[-1], 1)) == ["2020-04-01T00:00:00+01:00"]


def test_a_pattern_goes_on_from_a_date_that_is_not_in_it():
    shop_days = DatePattern(times=((0,), (0,), (0,), (0,), (0,), (0,), ()))
    sunday = np.datetime64("2020-03-01T00:00:00")
    assert continue_dates(shop_days, sunday, 2).astype(str).tolist() == ["2020-03-02T00:00:00", "2020-03-03T00:00:00"]
    assert len(continue_dates(shop_days, sunday, 0)) == 0
