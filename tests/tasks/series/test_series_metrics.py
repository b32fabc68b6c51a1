"""Errors of forecasts against plain numpy, and the simple forecasts against what they are meant to be."""

import numpy as np
import pytest
import torch

import tiny_series
from regard.data.series.space import SeriesSpace
from regard.data.series.windows import Windows, places_in
from regard.metrics.scores import Metric
from regard.tasks.series.baselines import PENALTIES, Ridge, baselines, lines_of, naive, seasonal
from regard.tasks.series.metrics import errors_of, metrics, pinball
from regard.tasks.series.training import series_loss

QUANTILES = (0.1, 0.5, 0.8)


def windows(table, *, n_inputs=None, targets=None, context=24, horizon=6, begin=0):
    values = np.stack(list(table.values()), 1).astype(np.float32)
    places = places_in(begin, len(values), before=context, horizon=horizon)
    C = values.shape[1]
    marks = np.zeros((len(values), 0), np.float32)
    return Windows(values, marks, places, context, horizon, n_inputs or C, targets or tuple(range(C)))


def test_errors_are_numpys_over_every_window():
    some = windows(tiny_series.wave(700))
    said = np.random.default_rng(0).standard_normal((len(some), 6, 2, 3)).astype(np.float32)
    truth = np.stack([some.values[p : p + 6] for p in some.places]).astype(np.float64)
    apart = said[..., 1].astype(np.float64) - truth
    errors = errors_of(said, some, quantiles=QUANTILES)
    figures = errors.figures()
    assert len(errors.squared) == 671
    assert figures["mse"] == pytest.approx((apart**2).mean(), rel=1e-12)
    assert figures["mae"] == pytest.approx(np.abs(apart).mean(), rel=1e-12)
    total = 0.0
    for k, q in enumerate(QUANTILES):
        e = truth - said[..., k]
        total += np.where(e >= 0, q * e, (q - 1) * e).mean() / 3
    assert figures["pinball"] == pytest.approx(total, rel=1e-9)
    assert figures["coverage"] == ((said[..., 0] <= truth) & (truth <= said[..., 2])).mean()


def test_own_units_are_the_errors_of_unscaled_numbers():
    space = SeriesSpace(("one", "two"), ("one", "two"), {"one": 3.0, "two": -1.0}, {"one": 2.0, "two": 10.0})
    some = windows(tiny_series.wave(60))
    said = np.zeros((len(some), 6, 2, 1), np.float32)
    found = metrics(errors_of(said, some), space, signature="s", horizon=6)
    assert found["mse"].low < found["mse"].value < found["mse"].high
    assert found["mse"].signature == "s|scaled|ci:95%|bootstrap:300|block:6|seed:1"
    truth = space.unscaled(np.stack([some.values[p : p + 6] for p in some.places])[..., None])[..., 0]
    apart = truth - np.array([3.0, -1.0])
    assert found["mae two"].value == pytest.approx(np.abs(apart[..., 1]).mean())
    assert found["rmse one"].value == pytest.approx(np.sqrt((apart[..., 0] ** 2).mean()))


@pytest.mark.parametrize("kind", ["mse", "mae", "pinball"])
def test_the_loss_is_the_metric(kind):
    random = np.random.default_rng(1)
    said, truth = random.standard_normal((5, 6, 2, 3)), random.standard_normal((5, 6, 2))
    quantiles = QUANTILES if kind == "pinball" else ()
    said = said if quantiles else said[..., :1]
    loss = series_loss(torch.from_numpy(said).float(), torch.from_numpy(truth).float(), kind, quantiles)
    apart = said[..., 0] - truth
    expected = {"mse": apart**2, "mae": np.abs(apart), "pinball": pinball(said, truth, quantiles or (0.5,))}[kind]
    assert float(loss) == pytest.approx(expected.mean() * 5, rel=1e-5)


def test_naive_forecasts_repeat_what_was():
    some = windows(tiny_series.wave(60))
    assert (naive(some)[3, :, 1, 0] == some.values[some.places[3] - 1, 1]).all()
    season = seasonal(some, 4)
    p = some.places[5]
    assert season[5, :, 0, 0].tolist() == some.values[[p - 4, p - 3, p - 2, p - 1, p - 4, p - 3], 0].tolist()
    exact = windows({"x": np.sin(2 * np.pi * np.arange(80) / 12)})
    found = baselines(exact, season=12, ridge=None)
    truth = np.stack([exact.values[p : p + 6] for p in exact.places]).astype(np.float64)
    assert found["mean"].figures()["mse"] == pytest.approx((truth**2).mean())
    assert found["seasonal naive"].figures()["mse"] < 1e-10 < found["naive"].figures()["mse"]


def test_ridge_finds_what_is_linear():
    wave = {"x": np.sin(2 * np.pi * np.arange(200) / 12) + 0.01 * np.arange(200)}
    assert errors_of(Ridge.fit(windows(wave), windows(wave))(windows(wave)), windows(wave)).figures()["mse"] < 1e-4
    table = tiny_series.echo(400)
    some = windows(table, n_inputs=1, targets=(1,), context=8, horizon=4)
    assert errors_of(Ridge.fit(some, some)(some), some).figures()["mse"] < 1e-3
    assert errors_of(naive(some), some).figures()["mse"] > 1


def test_the_penalty_is_the_one_that_does_best_on_the_validation_part():
    chance = np.random.default_rng(3)
    train, valid = (windows({"x": chance.standard_normal(60).cumsum()}, context=8, horizon=2) for _ in range(2))

    def sides(part):
        x = np.stack([part.values[p - 8 : p, 0] for p in part.places]).astype(np.float64)
        y = np.stack([part.values[p : p + 2, 0] for p in part.places]).astype(np.float64)
        return np.column_stack([x - x[:, -1:], np.ones(len(x))]), y - x[:, -1:]

    (x, y), (x_valid, y_valid) = sides(train), sides(valid)
    unit = np.square(x).sum(0)[:-1].mean()
    held_back = [np.diag([np.sqrt(penalty * unit)] * 8 + [0.0]) for penalty in PENALTIES]
    tried = [np.linalg.lstsq(np.vstack([x, rows]), np.vstack([y, np.zeros((9, 2))]))[0] for rows in held_back]
    here, there = ([float(np.square(a @ each - b).mean()) for each in tried] for a, b in ((x, y), (x_valid, y_valid)))
    assert np.argmin(here) == 0 < np.argmin(there)  # what is learnt from always likes the smallest
    np.testing.assert_allclose(Ridge.fit(train, valid).weights, tried[np.argmin(there)], atol=1e-5)


def test_mase_counts_in_seasons_of_the_training_part():
    table = tiny_series.wave(60)
    values = np.stack(list(table.values()), 1)
    naive_errors = SeriesSpace.naive_errors(values, ("one", "two"), 12)
    assert naive_errors["one"] == pytest.approx(np.abs(values[12:, 0] - values[:-12, 0]).mean())
    assert SeriesSpace.naive_errors(np.ones((9, 1)), ("flat",), 2) == {}
    plain = {"one": 0.0, "two": 0.0}, {"one": 2.0, "two": 10.0}
    space = SeriesSpace(("one", "two"), ("one", "two"), *plain, season=12, naive=naive_errors)
    some = windows(table)
    errors = errors_of(naive(some), some)
    mae = errors.absolute.mean(0) * [2.0, 10.0]
    found = metrics(errors, space, signature="s", horizon=6)
    assert found["mase"].value == pytest.approx(np.mean(mae / list(naive_errors.values())))
    stretches = [found[f"mae {i}/4"] for i in (1, 2, 3, 4)]
    assert stretches[-1].signature == "s|scaled|windows 25-31"
    sizes = [8, 8, 8, 7]
    assert np.average([one.value for one in stretches], weights=sizes) == pytest.approx(found["mae"].value)


def test_a_model_that_is_no_better_is_told_so() -> None:
    def figure(value: float, low: float | None = None, high: float | None = None) -> Metric:
        return Metric("mse", value, "", low, high, digits=4)

    beside = {"naive mse": figure(0.9), "ridge mse": figure(0.4)}
    assert lines_of({"mse": figure(0.3, 0.28, 0.32)} | beside) == [
        "model           mse 0.3000",
        "naive           mse 0.9000",
        "ridge           mse 0.4000",
    ]
    told = lines_of({"mse": figure(0.39, 0.3, 0.5)} | beside)[-1]
    assert told.startswith("not clearly better than ridge, which takes seconds (0.400 is inside")
    assert lines_of({"mse": figure(0.5)} | beside)[-1].startswith("no better than ridge")
