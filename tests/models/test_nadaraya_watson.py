"""Nadaraya–Watson against numbers worked by hand, numpy in float64, refits without the point, and scikit-learn."""

import doctest
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import check_estimator

import regard
from regard.errors import UsageError
from regard.models import nadaraya_watson
from regard.models.nadaraya_watson import NadarayaWatson

POPULATIONS, PROFITS = np.array([[60_000], [70_000], [85_000]]), np.array([175_000, 200_000, 210_000])


def by_hand(query, X, bandwidth):
    """Weights (T, S) from the definition, in double precision."""
    gaps = (np.asarray(query, dtype=float)[:, None] - np.asarray(X, dtype=float)[None]) / bandwidth
    scores = -0.5 * (gaps**2).sum(-1)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def some_data(n=40, n_features=2, n_targets=None, *, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * 10.0 ** np.arange(n_features)
    y = rng.normal(size=(n, n_targets or 1)) + np.sin(X[:, :1])
    return X.astype(dtype), (y if n_targets else y[:, 0]).astype(dtype)


@pytest.mark.parametrize("estimator", [NadarayaWatson(), NadarayaWatson(bandwidth=1.0)], ids=["loo", "given"])
def test_it_is_a_scikit_learn_regressor(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn says which checks need pandas
        results = check_estimator(estimator, on_fail=None)
    assert len(results) > 40
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")] == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {
        "check_array_api_input",
        "check_regressor_data_not_an_array",
    }


def test_the_docstring_speaks_the_truth():
    failed, tried = doctest.testmod(nadaraya_watson)
    assert (failed, tried > 3) == (0, True)


def test_importing_the_models_loads_no_scikit_learn():
    code = "import sys, regard.models; assert 'sklearn' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert regard.NadarayaWatson is NadarayaWatson


def test_the_lectures_profit_of_a_city_of_65000():
    fitted = NadarayaWatson(bandwidth=5_000).fit(POPULATIONS, PROFITS)
    raw = np.exp([-0.5, -0.5, -8.0])  # 1, 1 and 4 bandwidths away
    weights = fitted.weights([[65_000]])
    np.testing.assert_allclose(weights, [raw / raw.sum()], rtol=1e-12)
    assert weights[0, 0] == weights[0, 1] > 0.499
    np.testing.assert_allclose(fitted.predict([[65_000]]), [raw @ PROFITS / raw.sum()], rtol=1e-12)


def test_the_lectures_similarity_table_is_for_fifteen():
    fitted = NadarayaWatson(bandwidth=2**-0.5).fit([[10], [20], [30]], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(fitted.weights([[15]]), [[0.5, 0.5, 0.0]], atol=1e-12)
    scores = -((12.0 - np.array([10.0, 20.0, 30.0])) ** 2)  # softmax(−(x − xᵢ)²), away from the symmetric point
    np.testing.assert_allclose(fitted.weights([[12]])[0], np.exp(scores) / np.exp(scores).sum(), rtol=1e-12)


@given(
    n=st.integers(1, 30),
    n_queries=st.integers(1, 20),
    n_features=st.integers(1, 4),
    n_targets=st.sampled_from([None, 1, 3]),
    bandwidth=st.floats(0.01, 100),
    per_feature=st.booleans(),
    chunk_elements=st.sampled_from([1, 7, 50, 2**20]),
    single=st.booleans(),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60, deadline=None)
def test_equal_to_numpy(n, n_queries, n_features, n_targets, bandwidth, per_feature, chunk_elements, single, seed):
    dtype = np.float32 if single else np.float64
    X, y = some_data(n, n_features, n_targets, dtype=dtype, seed=seed)
    query = some_data(n_queries, n_features, dtype=dtype, seed=seed + 1)[0]
    width = bandwidth * np.arange(1, n_features + 1) if per_feature else bandwidth
    fitted = NadarayaWatson(width, chunk_elements=chunk_elements).fit(X, y)
    expected = by_hand(query, X, width)
    scores_lost = np.square((query[:, None] - X[None]) / width).sum(-1).max() * np.finfo(dtype).eps
    tolerance = 1e-10 + 20 * scores_lost + (1e-5 if single else 0)
    np.testing.assert_allclose(fitted.weights(query), expected, atol=tolerance)
    predicted = fitted.predict(query)
    assert predicted.shape == (n_queries, *y.shape[1:])
    assert predicted.dtype == dtype
    np.testing.assert_allclose(predicted, expected @ y.astype(float), atol=tolerance * (1 + 30 * np.abs(y).max()))


@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("bandwidth", [1e-3, 0.02, 0.3, 50.0])
def test_looking_only_where_it_matters_changes_nothing(bandwidth, n_features):
    rng = np.random.default_rng(1)
    X, y = rng.uniform(size=(2_000, n_features)), rng.normal(size=2_000)
    query = np.concatenate([rng.uniform(-0.5, 1.5, size=(150, n_features)), X[:20], [[40.0] * n_features]])
    chunked = NadarayaWatson(bandwidth, chunk_elements=5_000).fit(X, y).predict(query)
    np.testing.assert_allclose(chunked, by_hand(query, X, bandwidth) @ y, rtol=1e-9, atol=1e-11)


def test_narrow_bandwidths_look_at_few_pairs(monkeypatch):
    pairs = []

    def counting(query, key, value, **rest):
        pairs.append(len(query) * len(value))
        return regard.attention.attend(query, key, value, **rest)

    monkeypatch.setattr(nadaraya_watson, "attend", counting)
    X = np.linspace(0, 1, 4_000)[:, None]
    fitted = NadarayaWatson(1e-3, chunk_elements=10_000).fit(X, X[:, 0])
    fitted.predict(X)
    assert max(pairs) <= 10_000
    assert sum(pairs) < 0.05 * 4_000 * 4_000
    pairs.clear()
    fitted.set_params(bandwidth=10.0).fit(X, X[:, 0]).predict(X)
    assert max(pairs) <= 10_000
    assert sum(pairs) == 4_000 * 4_000


def leave_one_out_by_refitting(X, y, bandwidth, rows):
    errors = []
    for i in rows:
        rest = np.arange(len(X)) != i
        guess = NadarayaWatson(bandwidth).fit(X[rest], y[rest]).predict(X[i : i + 1])
        errors.append((guess - y[i : i + 1]) ** 2)
    return float(np.mean(errors))


@pytest.mark.parametrize("n_targets", [None, 2])
@pytest.mark.parametrize("chunk_elements", [1, 300, 2**20])
def test_leave_one_out_equals_refitting_without_the_point(n_targets, chunk_elements):
    X, y = some_data(40, 2, n_targets)
    X[7] = X[3]  # a twin: it stays when the other is left out
    fitted = NadarayaWatson(chunk_elements=chunk_elements).fit(X, y)
    assert fitted.loo_error_ == pytest.approx(leave_one_out_by_refitting(X, y, fitted.bandwidth_, range(40)), rel=1e-9)


@pytest.mark.parametrize("company", [[], [20.0, 0.1]], ids=["alone", "in company"])
@pytest.mark.parametrize("factor", [1e-3, 0.05, 0.5, 20.0])
def test_every_candidate_is_judged_by_its_own_error(factor, company):
    X, y = some_data(30, 2)
    X[11] = 1_000  # nothing is near it, and it is predicted all the same
    fitted = NadarayaWatson(1.0, chunk_elements=200).fit(X, y)
    judged = fitted._loo_errors(X.std(0), np.array([factor, *company]))
    assert judged[0] == pytest.approx(leave_one_out_by_refitting(X, y, factor * X.std(0), range(30)), rel=1e-9)


def test_the_chosen_bandwidth_is_as_good_as_a_fine_grid():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 6, size=(150, 1))
    y = np.sin(2 * X[:, 0]) + rng.normal(0, 0.2, size=150)
    fitted = NadarayaWatson().fit(X, y)
    np.testing.assert_allclose(fitted.bandwidth_ / fitted.bandwidth_[0] * X.std(0)[0], X.std(0))
    grid = np.geomspace(0.01, 5, 60)
    weights = [np.where(np.eye(150, dtype=bool), 0, by_hand(X, X, h)) for h in grid]
    errors = [np.mean((w @ y / w.sum(1) - y) ** 2) for w in weights]
    assert fitted.loo_error_ <= min(errors) * 1.002
    assert 0.05 < fitted.bandwidth_[0] < 0.5


def test_leaving_out_a_part_keeps_all_the_others():
    X, y = some_data(50, 1)
    fitted = NadarayaWatson(loo_points=6).fit(X, y)
    rows = np.round(np.linspace(0, 49, 6)).astype(int)
    assert fitted.loo_error_ == pytest.approx(leave_one_out_by_refitting(X, y, fitted.bandwidth_, rows), rel=1e-9)
    assert fitted.loo_error_ != NadarayaWatson(loo_points=7).fit(X, y).loo_error_


def test_features_that_never_vary_are_ignored():
    X, y = some_data(40, 2)
    wide = np.insert(X, 1, 0.1, axis=1)
    fitted, plain = NadarayaWatson().fit(wide, y), NadarayaWatson().fit(X, y)
    assert np.isinf(fitted.bandwidth_).tolist() == [False, True, False]
    assert np.isfinite(fitted.loo_error_)
    query = X[:5] + 0.1
    for value in (0.1, 1e12):
        given = NadarayaWatson([*plain.bandwidth_[:1], 1e-9, *plain.bandwidth_[1:]]).fit(wide, y)
        expected = NadarayaWatson(plain.bandwidth_).fit(X, y).predict(query)
        np.testing.assert_allclose(given.predict(np.insert(query, 1, value, axis=1)), expected, rtol=1e-9)
    same = NadarayaWatson().fit(np.ones((4, 2)), [1.0, 2.0, 3.0, 6.0])
    np.testing.assert_allclose(same.predict([[5.0, 5.0]]), [3.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_query_far_from_everything_gets_the_nearest_value(dtype):
    X, y = np.array([[0.0], [1.0], [2.5]], dtype=dtype), np.array([1.0, 2.0, 4.0], dtype=dtype)
    fitted = NadarayaWatson(0.1).fit(X, y)
    biggest = np.finfo(dtype).max / 4
    far = np.array([[1e3], [1e9], [1e18], [biggest], [-1e3], [-1e18], [-biggest]], dtype=dtype)
    assert fitted.predict(far).tolist() == [4, 4, 4, 4, 1, 1, 1]
    assert NadarayaWatson(0.1, chunk_elements=2).fit(X, y).predict(far).tolist() == [4, 4, 4, 4, 1, 1, 1]
    np.testing.assert_array_equal(fitted.weights(far).sum(1), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bandwidth", [1e-4, 1e-30, 1e-300])
def test_a_tiny_bandwidth_is_the_nearest_neighbour(bandwidth, dtype):
    X, y = some_data(60, 1, dtype=dtype)
    query = some_data(30, 1, dtype=dtype, seed=5)[0]
    expected = KNeighborsRegressor(1).fit(X, y).predict(query)
    for chunk_elements in (100, 2**20):
        fitted = NadarayaWatson(bandwidth, chunk_elements=chunk_elements).fit(X, y)
        np.testing.assert_allclose(fitted.predict(query), expected, rtol=1e-6)


def test_a_huge_bandwidth_is_the_mean():
    X, y = some_data(60, 3, 2)
    for bandwidth in (1e9, np.inf):
        np.testing.assert_allclose(NadarayaWatson(bandwidth).fit(X, y).predict(X[:4]), np.tile(y.mean(0), (4, 1)))


def test_moving_all_points_changes_nothing():
    X, y = some_data(60, 2)
    query = X[:10] + 0.3
    for bandwidth in ("loo", 0.5):
        here = NadarayaWatson(bandwidth).fit(X, y)
        there = NadarayaWatson(bandwidth).fit(X + 1e6, y)
        np.testing.assert_allclose(there.predict(query + 1e6), here.predict(query), rtol=1e-6)
        np.testing.assert_allclose(there.bandwidth_, here.bandwidth_, rtol=1e-6)


def test_points_far_from_zero_keep_their_digits_in_single_precision():
    X, y = np.arange(60, dtype=np.float32)[:, None] / 8, np.sin(np.arange(60, dtype=np.float32))
    far = X + np.float32(2**20)  # still exact: eighths are what single precision resolves there
    here, there = (NadarayaWatson(0.3).fit(points, y).predict(points) for points in (X, far))
    np.testing.assert_allclose(there, here, atol=1e-6)


def test_numpy_in_numpy_out_and_nothing_borrowed():
    X, y = some_data(20, 2)
    fitted = NadarayaWatson(1.0).fit(X, y)
    before = fitted.predict(X)
    assert type(before) is np.ndarray
    assert type(fitted.weights(X)) is np.ndarray
    X0 = X.copy()
    X += 100
    y += 100
    np.testing.assert_array_equal(fitted.predict(X0), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X0), before)
    assert all(isinstance(v, np.ndarray | int | float | None) for v in vars(fitted).values())


def test_a_given_bandwidth_forgets_the_error_of_the_last_fit():
    X, y = some_data(20, 2)
    fitted = NadarayaWatson().fit(X, y)
    assert fitted.loo_error_ > 0
    assert fitted.set_params(bandwidth=2.0).fit(X, y).loo_error_ is None
    assert fitted.bandwidth_.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("bandwidth", [0, -1.5, float("nan"), "silverman", None, [1.0, -2.0], [[1.0], [2.0, 3.0]]])
def test_a_bad_bandwidth_is_named(bandwidth):
    with pytest.raises(UsageError, match="'loo' or greater than 0") as error:
        NadarayaWatson(bandwidth).fit(*some_data(5, 2))
    assert repr(bandwidth) in str(error.value)


def test_what_does_not_fit_is_said():
    X, y = some_data(5, 2)
    with pytest.raises(UsageError, match=r"shape \(3,\) does not fit 2 features"):
        NadarayaWatson([1.0, 2.0, 3.0]).fit(X, y)
    with pytest.raises(UsageError, match="at least two training points, got n_samples = 1") as error:
        NadarayaWatson().fit(X[:1], y[:1])
    assert "as a number" in error.value.hint
    for name, value in [("chunk_elements", 0), ("loo_points", 1.5), ("loo_points", True)]:
        with pytest.raises(UsageError, match=f"{name} is a whole number from 1 up, not {value}"):
            NadarayaWatson(**{name: value}).fit(X, y)
    with pytest.raises(NotFittedError):
        NadarayaWatson(1.0).predict(X)
    with pytest.raises(ValueError, match="3 features, but NadarayaWatson is expecting 2"):
        NadarayaWatson(1.0).fit(X, y).predict(np.ones((1, 3)))
