"""Series so small and plain that a forecaster learns them in seconds.

wave      a sine of 12 steps with a trend, and a noisy twin
echo      b is noise, and a is b four steps later: a's own past says nothing, b's past says all
twin      b is noise, and a is made of b at the same time, not linearly
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

HOURS = np.datetime64("2020-01-01T00:00:00") + np.arange(4000) * np.timedelta64(1, "h")


def write_csv(path: Path, columns: dict[str, np.ndarray], *, dates: bool = True) -> Path:
    """A CSV file with these columns."""
    n = len(next(iter(columns.values())))
    head = ["date"] * dates + list(columns)
    rows = [[str(HOURS[i]).replace("T", " ")] * dates + [repr(float(c[i])) for c in columns.values()] for i in range(n)]
    path.write_text("\n".join(",".join(row) for row in [head, *rows]) + "\n", encoding="utf-8")
    return path


def wave(n: int = 400, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Two columns that repeat every 12 steps, with a trend."""
    chance, t = np.random.default_rng(seed), np.arange(n)
    one = 10 + 3 * np.sin(2 * np.pi * t / 12) + 0.01 * t
    return {"one": one, "two": -2 * one + 0.05 * chance.standard_normal(n)}


def echo(n: int = 500, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Noise, and the same four steps later."""
    b = np.random.default_rng(seed).standard_normal(n)
    return {"b": b, "a": 5 + 2 * np.roll(b, 4)}


def twin(n: int = 500, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Noise, and what follows from it at once."""
    b = np.random.default_rng(seed).standard_normal(n)
    return {"b": b, "a": 5 + b + b * b}


QUICK = ["train.plan=off", "train.device=cpu", "train.n_samples=1", "train.log_every=1000", "train.batch_examples=32"]


def series(folder: Path) -> list[str]:
    """Arguments of `regard train` for a forecaster."""
    path = write_csv(folder / "wave.csv", wave())
    shape = ["data.context=24", "data.horizon=6", "model.patch=6", "model.stride=3", "model.dropout=0.0"]
    return ["series", f'data.train=["{path}"]', *shape, *QUICK, "train.epochs=6", "train.lr=0.005"]


def train_series(folder: Path, *given: str) -> Path:
    """A run of a tiny forecaster, made through the same functions as the command."""
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.training import train

    recipe = make_recipe(find_recipe("series"), [*QUICK, *given])
    train(recipe, folder / "run", data_root=None, resume=False, say=lambda _: None)
    return folder / "run"
