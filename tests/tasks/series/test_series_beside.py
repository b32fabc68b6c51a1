"""Columns beside a series: known in advance, categories; and series one below the other, each with its own dates."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_series
from regard.data.series.windows import Windows
from regard.errors import ConfigError, DataError
from regard.tasks.base import ScoreData
from regard.tasks.opening import load
from regard.tasks.recipes import make_recipe
from regard.tasks.series.baselines import Ridge, effects_in
from regard.tasks.series.data import SeriesFiles

SHAPE = ["data.context=24", "data.horizon=6", "model.patch=6", "model.stride=3", "train.epochs=1", "train.n_samples=1"]


def shop_rows(n: int = 260, ahead: int = 8, *, seed: int = 0, begin: date = date(2021, 1, 4)) -> list[list[str]]:
    """Days but Sundays of a shop: sales rise by 30 with a promotion, and by 8 in the sun; the last have none yet."""
    chance, rows, day = np.random.default_rng(seed), list[list[str]](), begin
    while len(rows) < n + ahead:
        if day.weekday() != 6:
            promo, weather = int(chance.random() < 0.25), str(chance.choice(["rain", "sun"]))
            sales = 100 + 5 * day.weekday() + 30 * promo + 8 * (weather == "sun") + chance.standard_normal()
            known = len(rows) < n
            rows.append([str(day), f"{sales:.2f}" if known else "", str(promo), weather if known else ""])
        day += timedelta(1)
    return rows


def written(path: Path, rows: list[list[str]], header: str = "date,sales,promo,weather") -> Path:
    path.write_text("\n".join([header, *map(",".join, rows)]) + "\n", encoding="utf-8")
    return path


def opened(run: Path) -> tuple[Any, list[str]]:
    model, said = load(run, "cpu"), list[str]()
    model.say = said.append
    return model, said


def sets_of(path: Path, *given: str) -> Any:
    recipe = make_recipe({"task": "series"}, [f'data.train=["{path}"]', "data.context=24", "data.horizon=6", *given])
    return SeriesFiles(recipe.data).read()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("shop")
    path = written(folder / "shop.csv", shop_rows())
    return tiny_series.train_series(folder, f'data.train=["{path}"]', *SHAPE), path


def test_columns_that_go_on_are_known_in_advance_and_said(tmp_path: Path) -> None:
    sets = sets_of(written(tmp_path / "shop.csv", shop_rows()))
    space = sets.space
    assert (space.inputs, space.targets) == (("sales",), ("sales",))
    assert [(each.name, each.known, each.categories) for each in space.covariates] == [
        ("promo", True, ()), ("weather", False, ("rain", "sun"))
    ]  # fmt: skip
    assert any("known in advance, going on after sales: promo; if not: data.known=[]" in note for note in sets.notes)
    assert any("read as categories: weather" in note for note in sets.notes)
    assert len(sets.test.values) == 260  # rows that ask for a forecast are not learnt from


def test_what_is_not_known_of_the_future_is_not_read(tmp_path: Path) -> None:
    test = sets_of(written(tmp_path / "shop.csv", shop_rows())).test
    cut = test.cut(np.arange(3))
    promo, weather = cut.future_marks[..., -3], cut.future_marks[..., -2:]
    assert len(np.unique(promo)) == 2
    assert (weather == 0).all()
    assert (cut.past_marks[..., -2:] != 0).any()


def test_known_columns_can_be_named_and_switched_off(tmp_path: Path) -> None:
    rows = [row for row in shop_rows() if row[1]]
    path = written(tmp_path / "shop.csv", rows)
    assert sets_of(path).space.targets == ("sales", "promo")
    named = sets_of(path, "data.known=promo,weather").space
    assert (named.targets, named.beside.known) == (("sales",), ("promo", "weather"))
    assert sets_of(path, "data.categories=[]").space.covariates == ()
    off = written(tmp_path / "off.csv", shop_rows())
    with pytest.raises(DataError, match="sales is ''"):
        sets_of(off, "data.known=[]")
    with pytest.raises(ConfigError, match="sales is to be predicted"):
        sets_of(path, "data.known=sales", "data.targets=sales")
    with pytest.raises(DataError, match="no column 'promotion'"):
        sets_of(path, "data.known=promotion")
    with pytest.raises(ConfigError, match=r"data.known means nothing with data.together"):
        sets_of(path, "data.known=promo", "data.together=true")


def test_the_linear_model_finds_what_a_column_adds(tmp_path: Path) -> None:
    sets = sets_of(written(tmp_path / "shop.csv", shop_rows(400)))
    covariate, scale = sets.space.covariates[0], sets.space.scale["sales"]
    effects = effects_in(sets.train, season=6, penalty=1e-3)
    assert effects[0, 0] * scale / covariate.scale == pytest.approx(30, abs=1)
    ridge = Ridge.fit(sets.train, sets.valid, season=6)
    ridge.save(tmp_path)
    np.testing.assert_array_equal(Ridge.load(tmp_path)(sets.test), ridge(sets.test))
    without = Ridge._best(sets.train, sets.valid, np.zeros_like(effects))
    error = [float(np.square(each(sets.test)[..., 0] - _truth(sets.test)).mean()) for each in (ridge, without)]
    assert error[0] < 0.3 * error[1]


def _truth(windows: Windows) -> Any:
    return windows.cut(np.arange(len(windows))).future


@pytest.mark.parametrize("name", ["patch-forecaster", "series-transformer", "recurrent-forecaster", "dlinear"])
def test_every_model_reads_them(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "shop.csv", shop_rows(120))
    model = [] if name == "patch-forecaster" else [f"model.name={name}"] + ["model.window=3"] * (name == "dlinear")
    given = ["data.context=12", "data.horizon=6", "train.epochs=1", *model]
    given += ["model.patch=6", "model.stride=3"] if not model else []
    run = tiny_series.train_series(tmp_path, f'data.train=["{path}"]', *given)
    plain = load(run, "cpu")
    turned = [[*row[:2], str(1 - int(row[2])), row[3]] if not row[1] else row for row in shop_rows(120)]
    other = written(tmp_path / "other.csv", turned)
    apart = plain(str(path)).point - plain(str(other)).point
    assert (np.abs(apart) > (20 if name != "dlinear" else 0)).all()
    assert all(finding.kept for finding in plain.verify(ScoreData(), n=4))


def test_a_forecast_takes_them_from_rows_whose_targets_are_empty(shop: tuple[Path, Path], tmp_path: Path) -> None:
    run, path = shop
    model, said = opened(run)
    forecast, rows = model(str(path)), shop_rows()
    assert forecast.plain().splitlines()[0] == "date,sales,sales 0.05,sales 0.95"
    asked = [row for row in rows if not row[1]][:6]
    assert list(forecast.times) == [row[0] for row in asked]  # of eight rows, those of the horizon
    promo = np.array([row[2] == "1" for row in asked])
    week = np.array([5 * date.fromisoformat(row[0]).weekday() for row in asked])
    np.testing.assert_allclose(forecast.point[:, 0] - 30 * promo - week, 104, atol=9)
    assert said == []
    table = {name: [row[i] for row in rows] for i, name in enumerate(("date", "sales", "promo", "weather"))}
    np.testing.assert_allclose(model(table).point, forecast.point, rtol=1e-6)
    recorded = json.loads((run / "run.json").read_text())["metrics"]["test"]
    assert recorded["mse"]["value"] < 0.4 * recorded["naive mse"]["value"]


def test_what_is_missing_of_the_horizon_is_said(shop: tuple[Path, Path], tmp_path: Path) -> None:
    model, _ = opened(shop[0])
    with pytest.raises(DataError, match=r"promo is needed for the 6 steps after 2021-11-02, and there are rows for 2"):
        model(str(written(tmp_path / "a.csv", shop_rows(ahead=2))))
    with pytest.raises(DataError, match="rows for none of them") as error:
        model(str(written(tmp_path / "b.csv", shop_rows(ahead=0))))
    assert "add 6 rows at the end, with promo filled in and sales left empty; the first is of 2021-11-03" in str(
        error.value.hint
    )
    gap = shop_rows()
    gap[-5][2] = ""
    with pytest.raises(DataError, match=r"c.csv:265: promo is empty"):
        model(str(written(tmp_path / "c.csv", gap)))
    bare = [[row[0], row[1], row[3]] for row in shop_rows()]
    with pytest.raises(DataError, match=r"d.csv:1: no column 'promo', which is known in advance"):
        model(str(written(tmp_path / "d.csv", bare, "date,sales,weather")))


def test_categories_that_are_new_or_not_there_are_unknown(shop: tuple[Path, Path], tmp_path: Path) -> None:
    model, said = opened(shop[0])
    rows = shop_rows()
    rows[250][3] = "hail"
    model(str(written(tmp_path / "hail.csv", rows)))
    assert said == ["'hail' of weather: none of those it was trained on; taken as unknown"]
    said.clear()
    model(str(written(tmp_path / "bare.csv", [row[:3] for row in rows], "date,sales,promo")))
    assert said == ["no column 'weather'; taken as unknown"]


def test_dates_that_do_not_follow_are_kept_and_said(shop: tuple[Path, Path], tmp_path: Path) -> None:
    model, said = opened(shop[0])
    rows = shop_rows()
    del rows[260]
    assert model(str(written(tmp_path / "later.csv", rows))).times[0] == "2021-11-04"
    assert "2021-11-03 would come next by the dates before; the row's own date is kept" in said[0]


def test_texts_that_are_many_are_left_out(tmp_path: Path) -> None:
    rows = [[*row, f"note {i}"] for i, row in enumerate(shop_rows())]
    path = written(tmp_path / "shop.csv", rows, "date,sales,promo,weather,note")
    sets = sets_of(path)
    assert any(note.endswith("nothing to forecast in them: note") for note in sets.notes)
    with pytest.raises(DataError, match="'note' holds 268 different texts; categories are at most 20"):
        sets_of(path, "data.categories=note")


def test_names_of_holidays_among_empty_cells_are_categories(tmp_path: Path) -> None:
    rows = [[*row[:3], "Easter" if i > 205 and i % 30 == 7 else ""] for i, row in enumerate(shop_rows(900))]
    path = written(tmp_path / "shop.csv", rows, "date,sales,promo,holiday")
    holiday = next(each for each in sets_of(path, "data.known=promo,holiday").space.covariates if each.categories)
    assert (holiday.name, holiday.known, holiday.categories) == ("holiday", True, ("Easter",))


def test_what_is_looked_at_shows_them(shop: tuple[Path, Path], tmp_path: Path) -> None:
    run, path = shop
    seen = load(run, "cpu").look(str(path))
    (promo, cells), (weather, texts) = seen.forecast.beside
    assert (promo, weather, len(cells), len(texts)) == ("promo", "weather", 30, 30)
    assert None not in cells
    assert texts[24:] == [None] * 6
    assert '"beside": [{"name": "promo"' in seen.html() or '"beside":[{"name":"promo"' in seen.html()
    assert seen.plot(tmp_path / "seen.png").stat().st_size > 10_000


def long_rows() -> list[list[str]]:
    """Three shops with spans of their own, a kind each, and one that is too short."""
    spans = {"north": (260, date(2021, 1, 4), "city"), "mini": (15, date(2022, 1, 3), "kiosk"),
             "south": (200, date(2021, 6, 7), "mall")}  # fmt: skip
    rows = []
    for i, (name, (n, begin, kind)) in enumerate(spans.items()):
        for day, sales, promo, _ in shop_rows(n, 6, seed=i, begin=begin):
            shown = date.fromisoformat(day).strftime("%d.%m.%Y")
            rows.append([name, shown, sales.replace(".", ",") and f'"{sales.replace(".", ",")}"', promo, kind])
    return rows


def long_file(path: Path, rows: list[list[str]], columns: int = 5) -> Path:
    header = ["store", "Datum", "Umsatz", "promo", "kind"][:columns]
    cells = [[cell.strip('"') for cell in row[:columns]] for row in rows]
    path.write_text("\n".join(map(";".join, [header, *cells])) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def stacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("stacked")
    path = long_file(folder / "long.csv", long_rows())
    return tiny_series.train_series(folder, f'data.train=["{path}"]', *SHAPE), path


def test_each_series_keeps_its_own_span(stacked: tuple[Path, Path]) -> None:
    path = stacked[1]
    sets = sets_of(path)
    assert (sets.space.series, sets.space.told_by, sets.space.targets) == (("north", "south"), "store", ("Umsatz",))
    assert any("too short for data.context and data.horizon: mini (15 rows)" in note for note in sets.notes)
    assert len(sets.train) == (182 - 24 - 6 + 1) + (140 - 24 - 6 + 1)
    owners, times = sets.test.owners[sets.test.places], sets.test.times[sets.test.places]
    assert set(owners) == {0, 1}
    assert (np.diff(times) >= 0).all()
    for windows in (sets.train, sets.valid, sets.test):  # no window reaches from one series into another
        rows = windows.places[:, None] + np.arange(-24, 6)
        assert (windows.owners[rows] == windows.owners[windows.places][:, None]).all()
    assert sets.test.values[: len(sets.test.values)].std() == pytest.approx(1, abs=0.1)


def test_each_series_is_forecast_from_its_own_last_date(stacked: tuple[Path, Path], tmp_path: Path) -> None:
    run, path = stacked
    model, said = opened(run)
    forecast = model(str(path))
    head, *lines = forecast.plain().splitlines()
    assert head == "store;Datum;Umsatz;Umsatz 0.05;Umsatz 0.95"
    assert [line.split(";")[0] for line in lines] == ["north"] * 6 + ["south"] * 6
    asked = {name: [row[1] for row in long_rows() if row[0] == name and not row[2]] for name in ("north", "south")}
    assert [line.split(";")[1] for line in lines] == [*asked["north"], *asked["south"]]
    assert all("." not in line.partition(";")[2][11:] for line in lines)
    assert "," in lines[0].split(";")[2] + lines[1].split(";")[2]
    assert forecast["south"].times == asked["south"]
    assert list(forecast.record()["series"]) == ["north", "south"]
    assert said == ["no forecast of those that are shorter than a context of 24 rows: mini (15 rows)"]
    found = next(iter(load(run, "cpu").evaluate(ScoreData())))
    assert {"mae north", "rmse south", "mase", "coverage", "mae 1/4", "ridge mse"} <= set(found.metrics)
    whole = next(iter(load(run, "cpu").evaluate(ScoreData(files=[str(path)]))))
    assert whole.n == (260 - 29) + (200 - 29)


def test_a_series_that_was_not_trained_on_has_its_own_scale(stacked: tuple[Path, Path], tmp_path: Path) -> None:
    run, _ = stacked
    model, said = opened(run)
    rows = [["east", *row[1:]] if row[0] == "north" else row for row in long_rows() if row[0] != "mini"]
    forecast = model(str(long_file(tmp_path / "new.csv", rows)))
    assert said[0] == "not among those it was trained on, and forecast by their own mean and deviation: east"
    assert 90 < forecast["east"].point.mean() < 170
    assert model.look(str(tmp_path / "new.csv"), "south").title.startswith("south: 6 steps after ")


def test_gaps_of_stacked_series_are_filled_within_each(tmp_path: Path) -> None:
    rows = [row for row in long_rows() if row[0] != "mini" and row[2]]
    del rows[100:102]
    path = long_file(tmp_path / "long.csv", rows, 3)
    assert any("2 rows are missing" in note for note in sets_of(path).notes)
    filled = sets_of(path, "data.missing=last")
    assert any("2 rows filled with the row before" in note for note in filled.notes)
    assert np.bincount(filled.test.owners).tolist() == [260, 200]


def test_series_without_a_date_in_common_are_several(tmp_path: Path) -> None:
    rows = [row for row in long_rows() if row[0] != "mini" and row[2]]
    late = [[row[0], row[1].replace("2022", "2032").replace("2021", "2031"), row[2]] if row[0] == "south" else row[:3]
            for row in rows]  # fmt: skip
    assert sets_of(long_file(tmp_path / "long.csv", late, 3), "data.steps=any").space.series == ("north", "south")


def test_all_too_short_is_an_error(tmp_path: Path) -> None:
    rows = [row for row in long_rows() if row[2]]
    path = long_file(tmp_path / "long.csv", [row for row in rows if row[0] == "mini"] + rows[:20], 3)
    with pytest.raises(DataError, match=r"'mini' of .*rows in the training part are fewer than context 24"):
        sets_of(path)


def test_filling_gaps_leaves_what_ends_early_to_be_said(tmp_path: Path) -> None:
    path = written(tmp_path / "shop.csv", shop_rows())
    filled = sets_of(path, "data.missing=last")
    assert filled.space.targets == ("sales", "promo")
    assert any("and are filled; if known in advance: data.known=promo" in n for n in filled.notes)
    known = sets_of(path, "data.missing=last", "data.known=promo")
    assert (known.space.targets, len(known.test.values)) == (("sales",), 260)


@pytest.mark.parametrize(
    ("written_as", "first"),
    [("%m/%d/%Y", "11/03/2021"), ("%d.%m.%Y", "03.11.2021"), ("%d %b %Y", "03 Nov 2021"), ("epoch", "1635897600")],
)
def test_stacked_forecasts_write_dates_as_the_file_does(
    stacked: tuple[Path, Path], tmp_path: Path, written_as: str, first: str
) -> None:
    rows = []
    for row in long_rows():
        day = datetime.strptime(row[1], "%d.%m.%Y").replace(tzinfo=UTC)
        shown = str(int(day.timestamp())) if written_as == "epoch" else day.strftime(written_as)
        rows.append([row[0], shown, *row[2:]])
    model, _ = opened(stacked[0])
    lines = model(str(long_file(tmp_path / "long.csv", rows))).plain().splitlines()
    assert lines[0].startswith("store;Datum;Umsatz;")
    assert lines[1].split(";")[:2] == ["north", first]
