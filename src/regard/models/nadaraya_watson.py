"""Nadaraya–Watson regression: attention before it had the name, as a scikit-learn estimator.

    ŷ(x) = Σᵢ wᵢ yᵢ,    w = softmax(−‖(x − xᵢ) / h‖² / 2)        (Nadaraya 1964, Watson 1964)

Queries are the points asked about, keys the training points, values their targets, and h the bandwidth, one a feature.

    query (T, D)   key (S, D)   value (S, K)   output (T, K)

`predict` holds no (T, S) matrix. The keys are sorted along their most telling feature, and a chunk of neighbouring
queries attends only to the keys near enough to weigh anything: what is left out sums to less than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from regard.attention import Dense, Gaussian, Prepared, attend, attention_weights
from regard.errors import UsageError

Array = npt.NDArray[Any]

_N_GRID, _N_REFINED, _REFINEMENTS = 20, 7, 2  # candidates of the first sweep, of each finer one, and how many of those
_N_TOGETHER = 7  # candidates tried at once: they share distances, and the window of the widest


class NadarayaWatson(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn carries no annotations
    """Predict by averaging the known targets, each weighted by how near its point lies.

    The lectures' first table: cities of 60 000, 70 000 and 85 000 people made these profits; what will 65 000 make?

    >>> known = NadarayaWatson(bandwidth=5_000).fit([[60_000], [70_000], [85_000]], [175_000, 200_000, 210_000])
    >>> known.weights([[65_000]]).round(3)
    array([[0.5, 0.5, 0. ]])
    >>> known.predict([[65_000]]).round()
    array([187506.])

    Their second, softmax(−(x − xᵢ)²), is a bandwidth of 1/√2 (the slide's "x = 5" is x = 15):

    >>> NadarayaWatson(bandwidth=2**-0.5).fit([[10], [20], [30]], [1, 2, 3]).weights([[15]]).round(3)
    array([[0.5, 0.5, 0. ]])

    Parameters
    ----------
    bandwidth : a number greater than 0, one such number a feature, or "loo"
        How far a point reaches. "loo" takes the common multiple of the features' standard deviations that predicts
        each training point best from all the others (mean squared error over points and targets). An infinite
        bandwidth ignores its feature; "loo" gives it to features that never vary.
    loo_points : int
        At most so many training points are left out in turn, evenly spaced in the order given, each predicted from
        *all* the others: with no more training points than that, leave-one-out is exact; with more, its cost grows
        with the number of points and not with its square.
    chunk_elements : int
        How many query–key pairs are weighed at a time. It bounds the memory and changes nothing but the speed.

    Attributes
    ----------
    bandwidth_ : (n_features,) the bandwidths in use
    loo_error_ : the leave-one-out mean squared error of `bandwidth_`, or None where the bandwidth was given
    X_, y_ : the training points and targets, in single precision if X came so, in double precision otherwise

    """

    def __init__(
        self, bandwidth: float | npt.ArrayLike = "loo", *, loo_points: int = 2_000, chunk_elements: int = 2**20
    ) -> None:
        self.bandwidth = bandwidth
        self.loo_points = loo_points
        self.chunk_elements = chunk_elements

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> NadarayaWatson:
        """Remember points X (n, n_features) and targets y (n,) or (n, n_targets), and settle the bandwidth."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        _check_count(self.loo_points, "loo_points")
        _check_count(self.chunk_elements, "chunk_elements")
        self.X_ = np.array(X)
        self.y_ = check_array(y, dtype=self.X_.dtype, ensure_2d=False, copy=True)
        self.loo_error_: float | None = None
        if isinstance(self.bandwidth, str) and self.bandwidth == "loo":
            self.bandwidth_, self.loo_error_ = self._leave_one_out()
        else:
            self.bandwidth_ = _as_bandwidth(self.bandwidth, self.X_.shape[1])
        return self

    def predict(self, X: npt.ArrayLike) -> Array:
        """Average the known targets for each row of X: (n_queries,) or (n_queries, n_targets), as y was."""
        query, score = self._query(X), self._score()
        keys, values = score.prepare(self._keys()).keys, self._values()
        if len(query) * len(keys) <= self.chunk_elements:
            output = attend(query, Prepared(keys), values, score=score)
        else:
            feature, order = _sorting(keys)
            keys, values = keys[order], values[order]
            places = score.prepare(query).keys
            asked = places[:, feature].argsort()
            above = torch.searchsorted(keys[:, feature].contiguous(), places[asked, feature])
            windows = _windows(places[asked], keys, feature=feature, neighbours=(above - 1, above))
            output = values.new_empty(len(query), values.shape[1])
            for part, near in _chunks(*windows, limit=self.chunk_elements):
                rows = asked[part]
                output[rows] = attend(query[rows], Prepared(keys[near]), values[near], score=score)
        return output.numpy().reshape(len(query), *self.y_.shape[1:])

    def weights(self, X: npt.ArrayLike) -> Array:
        """How much each training point counts for each row of X: (n_queries, n_train), rows that sum to one."""
        query, keys, score = self.compared(X)
        return attention_weights(query, keys, score=score).numpy()

    def compared(self, X: npt.ArrayLike) -> tuple[Tensor, Tensor, Gaussian]:
        """What `weights` are computed from: the queries (T, D), the keys (S, D) and the score that compares them."""
        return self._query(X), self._keys(), self._score()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _leave_one_out(self) -> tuple[Array, float]:
        """The bandwidths that predict left-out points best, and their error: a geometric grid, then finer ones."""
        n_points, n_features = self.X_.shape
        if n_points < 2:
            raise UsageError(
                f"leaving one out takes at least two training points, got n_samples = {n_points}",
                hint="give the bandwidth as a number",
            )
        spread = _spread(self.X_)
        # From well below the distance of neighbours to where all points weigh the same; the smoothest first, so that
        # it wins where candidates are equally good.
        widest, narrowest = 10 * math.sqrt(n_features), 0.25 * n_points ** (-1 / n_features)
        factors = np.geomspace(widest, narrowest, _N_GRID)
        errors = self._loo_errors(spread, factors)
        best = int(errors.argmin())
        for _ in range(_REFINEMENTS):
            around = factors[max(best - 1, 0)], factors[min(best + 1, len(factors) - 1)]
            finer = np.geomspace(*around, _N_REFINED + 2)[1:-1]
            errors = np.append(errors, self._loo_errors(spread, finer))
            factors = np.append(factors, finer)
            order = factors.argsort()[::-1]
            factors, errors = factors[order], errors[order]
            best = int(errors.argmin())
        return factors[best] * spread, float(errors[best])

    def _loo_errors(self, spread: Array, factors: Array) -> Array:
        """The mean squared error of left-out points for each candidate factor times the spread: (C,)."""
        keys = Gaussian(torch.from_numpy(spread)).prepare(self._keys()).keys
        feature, order = _sorting(keys)
        keys, values = keys[order], self._values()[order]
        n_left_out = min(len(keys), self.loo_points)
        left_out = torch.linspace(0, len(keys) - 1, n_left_out, dtype=torch.float64).round().long()
        left_out = order.argsort()[left_out].sort().values
        around = (left_out - 1).where(left_out > 0, 1), (left_out + 1).where(left_out < len(keys) - 1, left_out - 1)
        errors = []
        for some in np.array_split(factors, math.ceil(len(factors) / _N_TOGETHER)):
            score = _Candidates(torch.from_numpy(some))
            windows = _windows(keys[left_out], keys, feature=feature, neighbours=around, bandwidth=some.max())
            error = np.zeros(len(some))
            for part, near in _chunks(*windows, limit=self.chunk_elements // len(some)):
                rows = left_out[part]
                others = Dense(torch.arange(near.start, near.stop) != rows[:, None])
                guess = attend(keys[rows], Prepared(keys[near]), values[near], score=score, mask=others)  # (C, T, K)
                error += (guess - values[rows]).double().square().sum((1, 2)).numpy()
            errors.append(error / (n_left_out * values.shape[1]))
        return np.concatenate(errors)

    def _score(self) -> Gaussian:
        """The Gaussian score, its bandwidths kept to what floating point can tell apart.

        A feature that never varied moves all scores alike, so it is ignored. Below the floor, even points that differ
        in their last digit only are thousands of bandwidths apart: the nearest neighbour has all the weight already.
        """
        span, limits = np.ptp(self.X_, axis=0), np.finfo(self.X_.dtype)
        floor = np.maximum(span * limits.eps**1.5, limits.tiny)
        return Gaussian(torch.from_numpy(np.where(span > 0, np.maximum(self.bandwidth_, floor), np.inf)))

    def _query(self, X: npt.ArrayLike) -> Tensor:
        """The rows of X as queries, those beyond all bounds pulled in along their direction.

        At 1/√ε times the reach of the keys a query already sees nothing but the nearest; much farther out its squared
        distances would lose the difference between keys, and overflow in the end.
        """
        check_is_fitted(self)
        points: Array = validate_data(self, X, reset=False, dtype=self.X_.dtype)
        query, bandwidth = points.astype(np.float64) - self._centre(), self._score().bandwidth.numpy()
        reach = np.ptp(self.X_, axis=0).astype(np.float64) / bandwidth
        farthest = (1 + reach.max()) / math.sqrt(np.finfo(self.X_.dtype).eps)
        with np.errstate(over="ignore"):
            distance = np.nan_to_num(np.abs(query / bandwidth)).max(1, keepdims=True)
        return torch.from_numpy((query * np.minimum(1, farthest / np.maximum(distance, 1))).astype(self.X_.dtype))

    def _keys(self) -> Tensor:
        """The training points around zero, so that points far from it keep their digits: (S, D)."""
        return torch.from_numpy((self.X_ - self._centre()).astype(self.X_.dtype))

    def _values(self) -> Tensor:
        return torch.tensor(self.y_.reshape(len(self.y_), -1))

    def _centre(self) -> Array:
        """The middle of the training points; exactly the value itself for a feature that never varied."""
        centre: Array = self.X_.min(0) / 2 + self.X_.max(0) / 2
        return centre


class _Candidates(Gaussian):
    """The score at several bandwidths, from distances measured once: scores (C, T, S)."""

    def __init__(self, bandwidths: Tensor) -> None:
        super().__init__(1.0)
        self.bandwidths = bandwidths

    def compare(self, query: Tensor, prepared: Prepared) -> Tensor:
        """The scores at bandwidth 1, divided by the square of each."""
        return super().compare(query, prepared) * self.bandwidths.pow(-2).to(query)[:, None, None]


def _sorting(keys: Tensor) -> tuple[int, Tensor]:
    """The feature in which keys are farthest apart, in bandwidths, and the order they have there."""
    feature = int((keys.amax(0) - keys.amin(0)).argmax())
    return feature, keys[:, feature].argsort()


def _windows(
    query: Tensor, keys: Tensor, *, feature: int, neighbours: tuple[Tensor, Tensor], bandwidth: float = 1.0
) -> tuple[Array, Array]:
    """Where the run of sorted keys that can matter to each query starts and ends.

    With any key at distance d, the keys farther than √(d² + 2h² ln(S/ε)) weigh less than ε together.
    `neighbours` are two such keys, cut to those that exist.
    """
    near = [(query - keys[i.clamp(0, len(keys) - 1)]).double().square().sum(1) for i in neighbours]
    slack = 2 * bandwidth**2 * math.log(len(keys) / torch.finfo(keys.dtype).eps)
    reach = (torch.minimum(*near) + slack).sqrt() * 1.0001  # a little more, for the rounding of what is compared
    along, at = keys[:, feature].double().contiguous(), query[:, feature].double().contiguous()
    starts, ends = torch.searchsorted(along, at - reach), torch.searchsorted(along, at + reach, right=True)
    return starts.numpy(), ends.numpy()


def _keep_memory() -> None:
    """Have the C library keep freed blocks for the next chunk: giving them back each time takes longer than attending.

    Freeing one large block raises glibc's threshold for that, up to 32 MiB; elsewhere it does nothing.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def _chunks(starts: Array, ends: Array, *, limit: int) -> Iterator[tuple[slice, slice]]:
    """Cut the queries into runs whose joint window holds at most `limit` pairs, or into single queries."""
    _keep_memory()
    first = 0
    while first < len(starts):
        most = max(1, limit // int(ends[first] - starts[first]))
        start = np.minimum.accumulate(starts[first : first + most])
        end = np.maximum.accumulate(ends[first : first + most])
        n_queries = max(1, int(((end - start) * np.arange(1, len(start) + 1) <= limit).sum()))
        yield slice(first, first + n_queries), slice(int(start[n_queries - 1]), int(end[n_queries - 1]))
        first += n_queries


def _spread(X: Array) -> Array:
    """Each feature's standard deviation, infinite where all that varies is rounding: (n_features,)."""
    spread = X.std(0, dtype=np.float64)
    return np.where(spread > 10 * np.finfo(X.dtype).eps * np.abs(X).max(0), spread, np.inf)


def _as_bandwidth(bandwidth: object, n_features: int) -> Array:
    """One bandwidth a feature from what the caller gave."""
    try:
        numbers = np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if not (numbers > 0).all():
        raise UsageError(f"a bandwidth is 'loo' or greater than 0, one number or one a feature, not {bandwidth!r}")
    if numbers.shape not in ((), (1,), (n_features,)):
        raise UsageError(f"a bandwidth of shape {numbers.shape} does not fit {n_features} features: {bandwidth!r}")
    return np.broadcast_to(numbers, n_features).copy()


def _check_count(value: object, name: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name} is a whole number from 1 up, not {value!r}")
