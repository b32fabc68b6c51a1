"""Nadaraya–Watson at size: many points, many queries, little memory, beside numpy in chunks and nearest neighbours.

    python benchmarks/nadaraya_watson.py [--points 100000] [--queries 100000] [--features 1] [--dtype float32] [--save]

Two bandwidths: a narrow one, as leave-one-out chooses it, and one so wide that every point counts for every query.
numpy computes the same function, written as well as we can: one feature, in place, and no further than weights reach.
Both are timed in turns, with and without our `fit`, which finds the bandwidth; numpy is given it. Where every pair
counts numpy is timed on fewer queries and scaled up. Nearest neighbours are another regressor with another answer: what
people would use instead. Memory is the peak of this process so far (it never falls), so regard is measured first.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

import regard
from record import row, save

WIDE = 1.0  # as wide as the data: every point counts for every query
NEIGHBOURS = 100
BLOCK = 2**18  # numbers of numpy's work at a time


def made_up(n_points: int, n_queries: int, *, n_features: int, dtype: str, seed: int):
    """A noisy wave over a unit cube, and places to ask about."""
    rng = np.random.default_rng(seed)
    X, query = (rng.uniform(size=(n, n_features)).astype(dtype) for n in (n_points, n_queries))
    y = (np.sin(12 * X[:, 0]) + rng.normal(0, 0.3, n_points)).astype(dtype)
    return X, y, query, np.sin(12 * query[:, 0])


def plain_numpy(X: np.ndarray, y: np.ndarray, query: np.ndarray, *, bandwidth: float | list[float]) -> np.ndarray:
    """The definition in numpy for any number of features, as many queries at a time as make about a million pairs."""
    output = np.empty(len(query), dtype=y.dtype)
    size = max(1, 2**20 // len(X))
    for i in range(0, len(query), size):
        scores = -0.5 * np.square((query[i : i + size, None] - X[None]) / np.asarray(bandwidth, X.dtype)).sum(-1)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        output[i : i + size] = weights @ y / weights.sum(1)
    return output


def good_numpy(X: np.ndarray, y: np.ndarray, query: np.ndarray, *, bandwidth: float | list[float]) -> np.ndarray:
    """The peer: one feature, in place, in blocks that stay in the cache; points whose weight is nothing are left out.

    Points and queries are sorted, so that a block of queries needs a stretch of the points: those within so many
    bandwidths that exp() of the rest is zero in this precision.
    """
    if X.shape[1] > 1:
        return plain_numpy(X, y, query, bandwidth=bandwidth)
    width = float(np.ravel(bandwidth)[0])
    order, asked = np.argsort(X[:, 0]), np.argsort(query[:, 0])
    x, y, at = X[order, 0], y[order], query[asked, 0]
    reach = width * np.sqrt(-2 * np.log(np.finfo(X.dtype).smallest_subnormal))
    output, i = np.empty(len(at), dtype=y.dtype), 0
    block = np.empty(BLOCK, dtype=x.dtype)
    while i < len(at):
        n = max(1, min(64, len(at) - i))
        low, high = np.searchsorted(x, [at[i] - reach, at[i + n - 1] + reach])
        if high - low < 2:  # far from everything: nearest points decide
            low, high = max(0, low - 2), min(len(x), high + 2)
        n = max(1, min(n, BLOCK // (high - low)))
        scores = np.ndarray((n, high - low), x.dtype, buffer=block) if n * (high - low) <= BLOCK else None
        scores = np.subtract(at[i : i + n, None], x[None, low:high], out=scores)
        np.multiply(scores, scores, out=scores)
        scores *= -0.5 / width**2
        scores -= scores.max(1, keepdims=True)
        np.exp(scores, out=scores)
        output[i : i + n] = scores @ y[low:high] / scores.sum(1)
        i += n
    found = np.empty_like(output)
    found[asked] = output
    return found


def timed(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    begin = time.perf_counter()
    output = call()
    return time.perf_counter() - begin, output


def peak_gib() -> float:
    """The largest resident size of this process so far."""
    unit = 2**30 if sys.platform == "darwin" else 2**20  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--peer-queries", type=int, default=1_000, help="for numpy where every pair counts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--features", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", action="store_true", help="keep the figures in results/nadaraya_watson.json")
    return parser.parse_args()


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Seconds, gigabytes and errors of every way, regard first; medians of rounds taken in turns."""
    X, y, query, truth = made_up(args.points, args.queries, n_features=args.features, dtype=args.dtype, seed=args.seed)
    few = query[: args.peer_queries]
    scale = len(query) / len(few)
    found = {"start_gib": peak_gib()}
    wide = regard.NadarayaWatson(WIDE).fit(X, y)
    found["wide_s"], ours_wide = timed(lambda: wide.predict(query))
    narrow = regard.NadarayaWatson()
    rounds: dict[str, list[float]] = {name: [] for name in ("fit_s", "narrow_s", "numpy_narrow_s", "numpy_wide_s")}
    for turn in range(args.rounds):
        fit_s, _ = timed(lambda: narrow.fit(X, y).bandwidth_)
        narrow_s, ours = timed(lambda: narrow.predict(query))
        found["peak_gib"] = found.get("peak_gib", peak_gib())
        bandwidth = narrow.bandwidth_.tolist()
        numpy_s, theirs = timed(lambda b=bandwidth: good_numpy(X, y, query, bandwidth=b))
        wide_s, theirs_wide = timed(lambda: good_numpy(X, y, few, bandwidth=WIDE))
        for name, seconds in zip(rounds, (fit_s, narrow_s, numpy_s, wide_s * scale), strict=True):
            rounds[name].append(seconds)
        if turn == 0:
            found["narrow_gap"] = float(np.abs(theirs - ours).max())
            found["wide_gap"] = float(np.abs(theirs_wide - ours_wide[: len(few)]).max())
    found |= {name: float(np.median(values)) for name, values in rounds.items()}
    neighbours = KNeighborsRegressor(NEIGHBOURS)
    found["neighbours_s"], others = timed(lambda: neighbours.fit(X, y).predict(query))
    rmse = {"rmse": ours, "neighbours_rmse": others}
    return found | {name: float(np.sqrt(np.mean((guess - truth) ** 2))) for name, guess in rmse.items()}


def show(found: dict[str, float], args: argparse.Namespace) -> None:
    print(f"{args.points:,} points × {args.queries:,} queries, {args.features} feature(s), {args.dtype}\n")
    print(f"{'predict':<34}{'regard':>10}{'numpy':>10}{'ratio':>8}{'largest gap':>14}")
    for name, key in (("bandwidth by leave-one-out", "narrow"), ("every pair counts", "wide")):
        ours, theirs = found[f"{key}_s"], found[f"numpy_{key}_s"]
        print(f"{name:<34}{ours:>8.2f} s{theirs:>8.1f} s{theirs / ours:>7.1f}×{found[f'{key}_gap']:>14.1e}")
    print(f"\n{'':<34}{'time':>10}{'rmse':>10}")
    print(f"{'regard, bandwidth by leave-one-out':<34}{found['narrow_s']:>8.2f} s{found['rmse']:>10.4f}")
    print(f"{f'{NEIGHBOURS} nearest neighbours':<34}{found['neighbours_s']:>8.2f} s{found['neighbours_rmse']:>10.4f}")
    print(f"\nleave-one-out took {found['fit_s']:.2f} s")
    print(f"memory: {found['start_gib']:.2f} GiB before, {found['peak_gib']:.2f} GiB at the peak of regard\n")


def rows(found: dict[str, float], args: argparse.Namespace) -> list[dict[str, object]]:
    size = f"{args.points} × {args.queries}, {args.features} feature(s), {args.dtype}"
    more = {"n": args.rounds, "seeds": [args.seed], "deterministic": True}
    against = more | {"unit": "×", "peer": "numpy, in place, no further than weights reach", "peer_value": 1.0}
    narrow, wide = f"NadarayaWatson, leave-one-out bandwidth, {size}", f"NadarayaWatson, every pair counts, {size}"
    whole = found["fit_s"] + found["narrow_s"]
    given = {"unlike": "numpy is given the bandwidth that our fit finds"}
    fewer = {"unlike": f"numpy's time is that of {args.peer_queries} queries, scaled up"}
    return [
        row(f"{narrow}, fit counted", "speed", round(found["numpy_narrow_s"] / whole, 2), **against, **given),
        row(narrow, "speed", round(found["numpy_narrow_s"] / found["narrow_s"], 2), **against),
        row(wide, "speed", round(found["numpy_wide_s"] / found["wide_s"], 2), **against, **fewer),
        row(wide, "peak memory", round(found["peak_gib"], 2), unit="GiB", **more),
    ]


def main() -> None:
    args = parsed()
    found = measure(args)
    show(found, args)
    measured = rows(found, args)
    if args.save:
        save("nadaraya_watson", measured)
    print(json.dumps({"rows": measured}, ensure_ascii=False))


if __name__ == "__main__":
    main()
