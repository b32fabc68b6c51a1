"""Forecasters as a whole: they learn what can be learnt, say it as CSV, are scored on all windows, looked into."""

import json
import re
from datetime import date, timedelta

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import tiny_series
from regard.errors import DataError, UsageError
from regard.tasks.base import ScoreData
from regard.tasks.opening import load
from regard.tasks.series.data import SeriesFiles

WAVE = ["data.context=24", "data.horizon=6", "train.epochs=8", "train.lr=0.01"]
PATCHES = ["model.patch=6", "model.stride=3", "model.dropout=0.0"]
STEPS = ["train.steps=350", "train.eval_every=175"]
ECHO = ["data.inputs=b", "data.targets=a", "data.context=8", "data.horizon=4", "model.normalize=false",
        "model.dropout=0.0", "train.lr=0.01"]  # fmt: skip


@pytest.fixture(scope="module")
def wave(tmp_path_factory):
    """A forecaster of quantiles of two columns, and the file it was trained on."""
    folder = tmp_path_factory.mktemp("wave")
    path = tiny_series.write_csv(folder / "wave.csv", tiny_series.wave())
    given = [f'data.train=["{path}"]', "data.quantiles=[0.1, 0.5, 0.9]", *WAVE, *PATCHES]
    return tiny_series.train_series(folder, *given), path


def figures(run, **data):
    found = next(iter(load(run, "cpu").evaluate(ScoreData(**data))))
    return found, {name: metric.value for name, metric in found.metrics.items()}


def test_it_beats_naive_by_far_on_every_test_window(wave):
    run, path = wave
    found, values = figures(run)
    assert found.n == 80 - 6 + 1
    assert values["mse"] < 0.2 * values["naive mse"]
    assert {"mae one", "rmse two", "pinball", "coverage", "seasonal naive mse", "ridge mae"} <= set(values)
    recorded = json.loads((run / "run.json").read_text())["metrics"]["test"]
    assert recorded["mse"]["value"] == pytest.approx(values["mse"], rel=1e-6)
    whole, _ = figures(run, files=[str(path)])
    assert whole.n == 400 - 24 - 6 + 1


def test_a_forecast_is_a_table_in_the_datas_own_units(wave):
    run, path = wave
    model = load(run, "cpu")
    said = model(str(path))
    lines = said.plain().splitlines()
    assert lines[0] == "date,one 0.1,one 0.5,one 0.9,two 0.1,two 0.5,two 0.9"
    assert lines[1].startswith("2020-01-17 16:00:00,")
    assert len(lines) == 7
    coming = tiny_series.wave(406)["one"][400:]
    assert np.abs(said.point[:, 0] - coming).max() < 1.5  # of a wave from 11 to 17
    assert (np.diff(said.values, axis=-1) >= 0).all()
    assert said.record()["forecast"]["two 0.5"] == said.values[:, 1, 1].tolist()


def test_forecasts_depend_on_the_last_rows_alone(wave, tmp_path):
    run, path = wave
    head, *rows = path.read_text().splitlines()
    (tmp_path / "end.csv").write_text("\n".join([head, *rows[-24:]]) + "\n")
    model = load(run, "cpu")
    assert model(str(tmp_path / "end.csv")).plain() == model(str(path)).plain()
    (tmp_path / "short.csv").write_text("\n".join([head, *rows[-23:]]) + "\n")
    with pytest.raises(DataError, match=r"short.csv: 23 rows are fewer than the context of 24"):
        model(str(tmp_path / "short.csv"))
    with pytest.raises(UsageError, match=r"decode.beam means nothing to a forecaster"):
        model(str(path), beam=3)


def test_a_forecast_is_written_as_the_file_is(tmp_path):
    values = iter(tiny_series.wave(200)["one"])
    days = (date(2021, 1, 4) + timedelta(i) for i in range(230))
    rows = [f"{day:%d.%m.%Y};{next(values):.3f};schön".replace(".", ",").replace(",", ".", 2)
            for day in days if day.weekday() != 6]  # fmt: skip
    path = tmp_path / "laden.csv"
    path.write_text("\n".join(["Datum;Umsatz;Wetter", *rows]), encoding="cp1252")
    run = tiny_series.train_series(tmp_path, f'data.train=["{path}"]', *WAVE, *PATCHES, "train.epochs=1")
    model, said = load(run, "cpu"), []
    model.say = said.append
    head, *lines = model(str(path)).plain().splitlines()
    assert (head, said) == ("Datum;Umsatz;Umsatz 0.05;Umsatz 0.95", [f"{path}: read as Windows-1252"])
    assert [line[:10] for line in lines] == [f"{day}.08.2021" for day in (23, 24, 25, 26, 27, 28)]
    assert all(re.fullmatch(r"\d+,\d+;\d+,\d+;\d+,\d+", line[11:]) for line in lines)
    short = tmp_path / "short.csv"
    short.write_text("\n".join(["Datum;Umsatz;Wetter", *rows[-24:]]).replace(".", "/"), encoding="cp1252")
    assert model(str(short)).plain().splitlines()[1].startswith("23/08/2021;")


def test_series_one_below_the_other_are_forecast_so(tmp_path):
    table, path = tiny_series.wave(150), tmp_path / "long.csv"
    rows = [
        f"{name},{date(2021, 1, 1) + timedelta(i)},{value}" for name in table for i, value in enumerate(table[name])
    ]
    path.write_text("\n".join(["unique_id,ds,y", *rows]) + "\n")
    run = tiny_series.train_series(tmp_path, f'data.train=["{path}"]', *WAVE, *PATCHES, "train.epochs=1")
    said = load(run, "cpu")(str(path))
    head, *lines = said.plain().splitlines()
    assert head == "unique_id,ds,y,y 0.05,y 0.95"
    assert [line.split(",")[0] for line in lines] == ["one"] * 6 + ["two"] * 6
    assert lines[6].startswith(f"two,2021-05-31,{said.point[0, 1]:.6g},")
    assert said.record()["forecast"]["two"] == said.point[:, 1].tolist()


def test_what_it_looked_at(wave, tmp_path):
    run, path = wave
    seen = load(run, "cpu").look(str(path), "two")
    assert seen.axes["past"].kind == "steps"
    assert seen.axes["past"].labels[0] == "2020-01-16 16:00:00 … 2020-01-16 21:00:00"
    assert seen.weights["self"].shape == (3, 4, 8, 8)
    assert seen.forecast.name == "two"
    looked = seen.looked_at()
    assert looked.shape == (24,)
    assert looked.sum() == pytest.approx(1)
    assert seen.plot(tmp_path / "seen.png").stat().st_size > 10_000
    assert seen.plot(tmp_path / "heads.png", picture="heads").exists()
    assert seen.page(tmp_path / "seen.html").exists()
    with pytest.raises(UsageError, match="'three' is not forecast; there are one, two"):
        load(run, "cpu").look(str(path), "three")


def test_promises_hold_and_models_compare(wave):
    model = load(wave[0], "cpu")
    assert all(finding.kept for finding in model.verify(ScoreData(), n=6))
    compared = next(iter(model.compare(load(wave[0], "cpu"), ScoreData(), resamples=20)))
    assert (compared.n, compared.comparisons[0].difference) == (75, 0)


@pytest.mark.parametrize(
    "model",
    [["model.name=series-transformer", "model.size=tiny"], ["model.name=recurrent-forecaster", "model.size=tiny"]],
)
def test_one_series_is_predicted_from_another(model, tmp_path):
    path = tiny_series.write_csv(tmp_path / "echo.csv", tiny_series.echo(700))
    run = tiny_series.train_series(tmp_path, f'data.train=["{path}"]', *ECHO, *model, "train.epochs=0", *STEPS)
    _, values = figures(run)
    assert values["mse"] < 0.2 * values["naive mse"]
    seen = load(run, "cpu").look(str(path))
    assert (seen.axes["future"].kind, seen.weights["cross"].shape[2:]) == ("steps", (4, 8))
    np.testing.assert_allclose(seen.weights["cross"].sum(-1), 1, rtol=1e-5)
    only_b = tmp_path / "b.csv"
    only_b.write_text("\n".join(",".join(line.split(",")[:2]) for line in path.read_text().splitlines()) + "\n")
    assert load(run, "cpu")(str(only_b)).plain() == load(run, "cpu")(str(path)).plain()


def test_one_series_is_told_from_another_at_the_same_time_and_better_than_linearly(tmp_path):
    path = tiny_series.write_csv(tmp_path / "twin.csv", tiny_series.twin(900))
    given = ["data.together=true", "model.linear=true", "model.name=series-transformer", "model.size=tiny"]
    run = tiny_series.train_series(tmp_path, f'data.train=["{path}"]', *ECHO, *given, "train.epochs=0", *STEPS)
    _, values = figures(run)
    assert values["mse"] < 0.5 * values["ridge mse"] < values["naive mse"]
    model = load(run, "cpu")
    said = model(str(path))
    assert len(said.times) == 896  # 224 windows of four steps; the first four rows have no whole past
    assert (said.times[0], said.times[-1]) == ("2020-01-01 04:00:00", "2020-02-07 11:00:00")
    truth = tiny_series.twin(900)["a"][4:]
    assert np.square(said.point[:, 0] - truth).mean() < 0.5 * truth.var()
    seen = model.look(str(path))
    assert seen.title == "a: 4 steps up to 2020-02-07 11:00:00"
    assert seen.axes["future"].labels == seen.axes["past"].labels[-4:]
    assert (seen.forecast.begin, len(seen.forecast.times)) == (4, 8)
    assert seen.plot(tmp_path / "seen.png").stat().st_size > 5_000
    bare = tiny_series.write_csv(tmp_path / "bare.csv", {"b": tiny_series.twin(20)["b"]}, dates=False)
    with pytest.raises(DataError, match="has no date column"):
        model(str(bare))


def test_files_are_joined_and_asked_for_together(tmp_path):
    table = tiny_series.echo(300)
    paths = [tiny_series.write_csv(tmp_path / f"{name.upper()}.csv", {"x": table[name]}) for name in "ab"]
    files = "[" + ", ".join(f'"{path}"' for path in paths) + "]"
    given = [f"data.train={files}", "data.targets=A.x", "data.inputs=*.x", "data.context=8", "data.horizon=4",
             "model.name=dlinear", "model.window=3", "train.epochs=1"]  # fmt: skip
    run = tiny_series.train_series(tmp_path, *given)
    model = load(run, "cpu")
    assert model.space.inputs == ("A.x", "B.x")
    assert model(",".join(map(str, paths))).plain().splitlines()[0] == "date,A.x,A.x 0.05,A.x 0.95"
    with pytest.raises(UsageError, match="1 files were given; needed: A, B"):
        model(str(paths[0]))


def test_resumed_is_uninterrupted_to_the_bit(tmp_path):
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train

    _, *given = tiny_series.series(tmp_path)
    given += [
        "train.epochs=0",
        "train.eval_every=4",
        "train.save_every=4",
        "model.dropout=0.2",
        "train.schedule=constant",
    ]

    def go(name, steps, resume=False):
        recipe = make_recipe(find_recipe("series"), [*given, f"train.steps={steps}"])
        train(recipe, tmp_path / name, data_root=None, resume=resume, say=lambda _: None)

    go("whole", 12)
    go("parts", 4)
    go("parts", 12, resume=True)
    ends = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    facts = [json.loads((tmp_path / name / "run.json").read_text())["metrics"] for name in ("whole", "parts")]
    assert facts[0] == facts[1]


def test_a_run_needs_files_and_all_mistakes_are_told(tmp_path):
    from regard.errors import ConfigError
    from regard.tasks.recipes import make_recipe

    with pytest.raises(
        ConfigError, match=r"(?s)data.horizn is not known; did you mean data.horizon\?.*train.loss is 'l2'"
    ):
        make_recipe({"task": "series"}, ["data.horizn=3", "train.loss=l2"])
    with pytest.raises(ConfigError, match=r"data.train names no file"):
        SeriesFiles(make_recipe({"task": "series"}).data).read()
