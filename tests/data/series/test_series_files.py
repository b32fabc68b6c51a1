"""CSV to series: dates, gaps, joins, windows; and what is said about files that cannot be used."""

import json

import numpy as np
import pytest

import tiny_series
from regard.data.series.calendar import DatePattern, learn_pattern, marks_of
from regard.data.series.dates import parse_dates
from regard.data.series.files import Reading, read_header, read_series
from regard.data.series.series import join_series
from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Windows, places_in
from regard.errors import ConfigError, DataError, UsageError
from regard.tasks.series.config import SeriesData
from regard.tasks.series.data import SeriesFiles


def moments(*texts):
    return parse_dates(texts, where=lambda row: f"f.csv:{row + 2}")


def files(path, **options):
    return SeriesFiles(SeriesData(train=(str(path),), **({"context": 8, "horizon": 4} | options)))


def test_columns_are_read_by_name_and_other_columns_may_hold_anything(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Name,date,x,y\nA,2020-01-01,1,2.5\nA,2020-01-02,3,-4e1\n")
    series = read_series(path, columns=["y", "x"])
    assert series.values.tolist() == [[2.5, 1.0], [-40.0, 3.0]]
    assert series.dates.written() == ["2020-01-01", "2020-01-02"]
    assert series.where(1) == f"{path}:3"


def test_semicolons_tabs_gzip_and_no_dates(tmp_path):
    import gzip

    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x;y\n1;2\n\n3;4\n"))
    series = read_series(tmp_path / "a.csv.gz")
    assert (series.columns, series.values.tolist(), series.dates) == (("x", "y"), [[1, 2], [3, 4]], None)
    assert series.lines.tolist() == [2, 4]
    (tmp_path / "b.tsv").write_text("t\tx\n2020-01-01 10:00:00\t7\n")
    assert read_series(tmp_path / "b.tsv").columns == ("x",)


def test_returns_are_logarithms_of_ratios(tmp_path):
    (tmp_path / "a.csv").write_text("date,x,y\n2020-01-01,100,8\n2020-01-02,110,4\n2020-01-03,99,4\n")
    returns = read_series(tmp_path / "a.csv").returns()
    np.testing.assert_allclose(returns.values, [[0.0953101798, -0.6931471806], [-0.1053605157, 0.0]], rtol=1e-9)
    assert returns.dates.written() == ["2020-01-02", "2020-01-03"]
    assert np.exp(returns.values.sum(0)) == pytest.approx([0.99, 0.5])  # they add up to the way from first to last


def test_windows_know_when_their_futures_begin_and_end():
    values, times = np.zeros((9, 1), np.float32), np.array([10, 20, 30, 40, 50, 60, 70, 80, 90])
    places = places_in(0, 9, before=4, horizon=3)
    some = Windows(values, np.zeros((9, 0), np.float32), places, 4, 3, 1, (0,), times=times)
    assert [moments.tolist() for moments in some.span] == [[50, 60, 70], [70, 80, 90]]
    assert Windows(values, values, places, 4, 3, 1, (0,)).span is None


def test_files_are_joined_by_the_dates_they_share(tmp_path):
    (tmp_path / "A.csv").write_text("date,x\n2020-01-01,1\n2020-01-02,2\n2020-01-04,4\n")
    (tmp_path / "B.csv").write_text("date,x\n2020-01-02,20\n2020-01-03,30\n2020-01-04,40\n")
    joined = join_series([read_series(tmp_path / f"{name}.csv") for name in "AB"], names=["A", "B"])
    assert joined.columns == ("A.x", "B.x")
    assert joined.values.tolist() == [[2, 20], [4, 40]]
    assert joined.dates.written() == ["2020-01-02", "2020-01-04"]


WEEKDAYS = ((0,),) * 5 + ((), ())


@pytest.mark.parametrize(
    ("pattern", "season", "marks"),
    [
        (DatePattern(seconds=60), 60, ("minute", "hour", "weekday", "day", "day of year")),
        (DatePattern(seconds=3600), 24, ("hour", "weekday", "day", "day of year")),
        (DatePattern(seconds=86400), 7, ("weekday", "day", "day of year")),
        (DatePattern(seconds=7 * 86400), 52, ("day", "day of year")),
        (DatePattern(months=1), 12, ("month",)),
        (DatePattern(times=WEEKDAYS), 5, ("weekday", "day", "day of year")),
        (DatePattern(times=((0, 1800),) * 7), 2, ("minute", "hour", "weekday", "day", "day of year")),
    ],
    ids=str,
)
def test_seasons_and_features_are_those_that_can_change(pattern, season, marks):
    assert (pattern.season, pattern.marks) == (season, marks)


def test_marks_are_the_calendars():
    dates = moments("2020-01-06 00:00:00", "2020-12-31 23:00:00")  # a Monday, a Thursday
    marks = marks_of(dates.local, DatePattern(seconds=3600))
    assert marks[0].tolist() == pytest.approx([-0.5, -0.5, 5 / 30 - 0.5, 5 / 365 - 0.5])
    assert marks[1].tolist() == pytest.approx([0.5, 3 / 6 - 0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("step", "pattern"),
    [
        ({"seconds": 3600, "months": 0, "weekdays": False}, DatePattern(seconds=3600)),
        ({"seconds": 86400, "months": 0, "weekdays": True}, DatePattern(times=WEEKDAYS)),
        ({"seconds": 0, "months": 1, "weekdays": False}, DatePattern(months=1, day=0)),
        (None, None),
    ],
)
def test_runs_that_kept_a_step_still_open(step, pattern, tmp_path):
    facts = {"inputs": ["x"], "targets": ["x"], "mean": {"x": 0}, "scale": {"x": 1}, "season": 0, "names": []}
    (tmp_path / "series.json").write_text(json.dumps(facts | {"step": step}))
    space = SeriesSpace.load(tmp_path)
    assert (space.pattern, space.format) == (pattern, None)
    fit = learn_pattern(moments("01.02.2020", "02.02.2020", "03.02.2020"), where=str)
    now = SeriesSpace(("x",), ("x",), {"x": 0}, {"x": 1}, fit.pattern, format=moments("01.02.2020").format)
    now.save(tmp_path)
    assert SeriesSpace.load(tmp_path) == now


def test_the_day_of_old_monthly_runs_is_that_of_the_last_row():
    after = DatePattern(months=1, day=0).after(moments("2020-01-15").local, np.array([1, 2]))
    assert [str(day)[:10] for day in after] == ["2020-02-15", "2020-03-15"]


BAD = {
    "x\n": ("has a header and no rows", None),
    "": ("is empty", "at least one line"),
    "x,x\n1,2\n": ("two columns are called 'x'", None),
    "date,x\n2020-01-01,1\n2020-01-02\n": (":3: has 1 cells, and the header names 2", None),
    "date,x\n2020-01-01,1\n2020-01-02,\n2020-01-03,NaN\n2020-01-04,far\n2020-01-05,inf\n": (
        ":3: x is ''; {path}:4: x is 'NaN'; {path}:5: x is 'far'; {path}:6: x is 'inf'; numbers are needed",
        'data.missing="last"',
    ),
    "date,x\n2020-01-01,1\nyesterday,2\n": (":3: 'yesterday' is no date", "dates are written"),
    "date,x\n2020-01-01,1\n2020-01-01,2\n": (":3: 2020-01-01 is the same date", "sort the rows"),
    "date,x\n2020-01-01,1\n2020-01-02,2\n2020-01-03,2\n2020-01-09,2\n": (
        ":5: 2020-01-09 does not follow the row before; the dates have no pattern: at best, every day",
        'data.steps="any"',
    ),
    "date,x\n01/02/2020,1\n02/01/2020,2\n": (
        ":2: '01/02/2020' is 1 February 2020 (day-first) or",
        'data.dates="day-first"',
    ),
    "date,x\n2020-01-01,1\n2020-01-02,2\n": (
        "rows in the training part are fewer than context 8 + horizon 4",
        "give a longer series",
    ),
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_cannot_be_used_is_named_with_file_and_line(text, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    message, hint = BAD[text]
    with pytest.raises(DataError) as error:
        files(path).read()
    assert message.format(path=path) in str(error.value)
    assert str(path) in str(error.value)
    assert hint is None or hint in error.value.hint


def test_other_mistakes(tmp_path):
    path = tiny_series.write_csv(tmp_path / "wave.csv", tiny_series.wave(60))
    with pytest.raises(DataError, match="no column 'oen'; it has: one, two") as error:
        files(path, targets="oen").read()
    assert error.value.hint == "did you mean 'one'?"
    with pytest.raises(DataError, match=r"60 rows, and data.split asks for 90"):
        files(path, split=(50, 20, 20)).read()
    with pytest.raises(ConfigError, match=r"data.split is \[0.5, 0.6, 0.2\]; three shares"):
        SeriesData(split=(0.5, 0.6, 0.2))
    with pytest.raises(ConfigError, match=r"with 0.5 among them"):
        SeriesData(quantiles=(0.1, 0.9))
    with pytest.raises(ConfigError, match="given together"):
        SeriesData(valid_from="2020-01-01")
    sets = files(path).read()
    other = tiny_series.write_csv(tmp_path / "other.csv", tiny_series.wave(60))
    with pytest.raises(UsageError, match="2 files were given; needed: one"):
        files(path).read_known([str(path), str(other)], sets.space)
    flat = tiny_series.write_csv(tmp_path / "flat.csv", {"x": np.ones(60)})
    with pytest.raises(DataError, match="x: always the same number in the training part"):
        files(flat).read()
    below = tiny_series.write_csv(tmp_path / "below.csv", {"x": np.arange(60.0)})
    with pytest.raises(DataError, match=r"below.csv:2: x is 0, and returns need numbers above 0"):
        files(below, values="returns").read()


def test_a_single_row_is_too_short_and_nothing_worse(tmp_path):
    path = tiny_series.write_csv(tmp_path / "one.csv", {"x": np.ones(1)})
    with pytest.raises(DataError, match=r"one.csv: 1 rows in the training part are fewer than context 8 \+ horizon 4"):
        files(path).read()


def test_what_a_short_series_can_be_asked_for_is_said(tmp_path):
    path = tiny_series.write_csv(tmp_path / "short.csv", tiny_series.wave(59))
    with pytest.raises(DataError, match="41 rows in the training part") as error:
        files(path, context=336, horizon=96).read()
    assert error.value.hint == "give a longer series, or ask for less: data.context=16 data.horizon=2"
    assert len(files(path, context=16, horizon=2).read().valid) > 0


def test_gaps_are_filled_with_the_value_before_if_asked(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x\n1\n""\nNaN\n4\n')
    assert read_series(path, reading=Reading(missing="last")).values[:, 0].tolist() == [1, 1, 1, 4]


def test_missing_rows_are_said_or_filled_with_the_row_before(tmp_path):
    path = tmp_path / "a.csv"
    days = [day for day in range(1, 29) if day not in (10, 11, 20)]
    path.write_text("date,x\n" + "".join(f"2020-02-{day:02d},{day}\n" for day in days))
    sets = files(path, context=2, horizon=1).read()
    assert sets.notes == (
        f"every day; 3 rows are missing; the first place is {path}:11: 2020-02-12; rows count as steps, or are "
        "filled: data.missing=last",
    )
    filled = files(path, context=2, horizon=1, missing="last").read()
    assert filled.notes == (f"{path}: 3 rows filled with the row before",)
    assert filled.space.unscaled(filled.test.values[:, :, None])[8:12, 0, 0].tolist() == pytest.approx([9, 9, 9, 12])


def test_too_many_missing_rows_are_not_filled(tmp_path):
    path = tmp_path / "a.csv"
    seconds = [*range(8), 3_000_000]
    rows = [f"{1_600_000_000 + s},{s % 3}\n" for s in seconds]
    path.write_text("time,x\n" + "".join(rows))
    with pytest.raises(DataError, match=r"a.csv:9: 2,999,992 rows are missing after it, too many to fill"):
        files(path, context=2, horizon=1, missing="last").read()


def test_rows_are_put_in_the_order_of_time(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("date,x\n2020-01-03,3\n2020-01-02,2\n2020-01-01,1\n")
    series = read_series(path)
    assert (series.values[:, 0].tolist(), series.lines.tolist()) == ([1, 2, 3], [4, 3, 2])
    assert series.notes == (f"{path}: its rows are put in the order of time",)


def test_columns_are_told_by_what_they_hold(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",Datum,Umsatz,Wetter,leer\n0,31.12.2019,1,sonnig,\n1,01.01.2020,,Regen,\n")
    header = read_header(path)
    assert (header.date, header.numbers, header.texts, header.counters) == (
        "Datum", ("Umsatz", "leer"), ("Wetter",), ("",)
    )  # fmt: skip
    path.write_text("time,x\n0,1\n1,2\n")
    assert read_header(path).date is None
    path.write_text("year,gdp\n1960,1\n1961,2\n")
    assert read_header(path).date == "year"


def test_every_window_is_counted_and_parts_do_not_overlap(tmp_path):
    path = tiny_series.write_csv(tmp_path / "wave.csv", tiny_series.wave(100))
    sets = files(path, split=(60, 20, 20)).read()
    assert sets.train.places.tolist() == list(range(8, 57))  # futures within rows 8 to 59
    assert sets.valid.places.tolist() == list(range(60, 77))
    assert sets.test.places.tolist() == list(range(80, 97))
    cut = sets.test.cut(np.arange(17))
    assert cut.future[-1, -1, 0] == sets.test.values[99, 0]
    assert (cut.past[0] == sets.test.values[72:80]).all()  # the past reaches back into the validation part
    dated = files(path, valid_from="2020-01-03 12:00:00", test_from="2020-01-04 08:00:00").read()
    assert [part.places[0] for part in (dated.valid, dated.test)] == [60, 80]
    assert files(path).read_known([str(path)], sets.space).places.tolist() == list(range(8, 97))
    assert len(places_in(0, 11, before=8, horizon=4)) == 0


def test_together_what_is_read_reaches_as_far_as_what_is_asked(tmp_path):
    path = tiny_series.write_csv(tmp_path / "wave.csv", tiny_series.wave(100))
    given = {"split": (60, 20, 20), "together": True, "inputs": "two", "targets": "one"}
    sets = files(path, **given).read()
    assert sets.train.places.tolist() == list(range(4, 57))
    assert sets.test.places.tolist() == list(range(80, 97))
    cut = sets.test.cut(np.arange(17))
    assert (cut.past[-1, :, 0] == sets.test.values[92:100, 0]).all()
    assert (cut.future[-1, :, 0] == sets.test.values[96:100, 1]).all()
    assert (cut.past_marks[:, -4:] == cut.future_marks).all()
    assert files(path, **given).read_known([str(path)], sets.space).places.tolist() == list(range(4, 97))
    whole = files(path, **given, horizon=8).read()
    assert whole.train.places[0] == 1  # a row to repeat stands before it
    with pytest.raises(ConfigError, match="one is asked for at the time it is read") as error:
        files(path, together=True).read()
    assert "data.inputs" in error.value.hint
    with pytest.raises(ConfigError, match=r"data.horizon is 9, and with data.together it lies within data.context"):
        files(path, together=True, horizon=9)


def test_no_bit_of_an_input_comes_from_the_future(tmp_path):
    values, later = tiny_series.wave(100), tiny_series.wave(100)
    for column in later.values():
        column[70:] = 1e6 * np.random.default_rng(1).standard_normal(30)
    first, second = (
        files(tiny_series.write_csv(tmp_path / f"{i}.csv", table), split=(60, 20, 20)).read()
        for i, table in enumerate((values, later))
    )
    assert first.space.mean == second.space.mean  # the scale is that of the training part alone
    assert first.space.scale == second.space.scale
    for one, other in ((first.train, second.train), (first.valid, second.valid), (first.test, second.test)):
        known = np.flatnonzero(one.places <= 70)
        assert all((getattr(one.cut(known), part) == getattr(other.cut(known), part)).all()
                   for part in ("past", "past_marks", "future_marks"))  # fmt: skip
    assert (first.valid.cut(np.arange(11)).past == second.valid.cut(np.arange(11)).past).all()
    assert not (first.valid.cut(np.arange(17)).future == second.valid.cut(np.arange(17)).future).all()


def test_scaling_is_undone_exactly(tmp_path):
    table = tiny_series.wave(100)
    sets = files(tiny_series.write_csv(tmp_path / "a.csv", table), split=(60, 20, 20)).read()
    train = np.stack([column[:60] for column in table.values()], 1)
    assert list(sets.space.mean.values()) == pytest.approx(train.mean(0).tolist())
    assert list(sets.space.scale.values()) == pytest.approx(train.std(0).tolist())
    back = sets.space.unscaled(sets.test.values[:, :, None])[..., 0]
    np.testing.assert_allclose(back, np.stack(list(table.values()), 1), rtol=1e-6)


def test_a_target_that_is_no_input_is_read_beside_them(tmp_path):
    path = tiny_series.write_csv(tmp_path / "echo.csv", tiny_series.echo(100))
    sets = files(path, inputs="b", targets="a").read()
    assert (sets.space.inputs, sets.space.targets, sets.space.target_places) == (("b",), ("a",), (-1,))
    cut = sets.train.cut(np.arange(3))
    assert cut.past.shape == (3, 8, 1)
    assert isinstance(sets.train, Windows)
    np.testing.assert_allclose(cut.future[:, :, 0], sets.train.values[8:15, 1][np.arange(3)[:, None] + np.arange(4)])
