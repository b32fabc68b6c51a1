"""Nine in ten of what comes lie within bounds of 90 %, on windows of real series that no bound was taken from."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from regard.tasks.recipes import make_recipe
from regard.tasks.series.baselines import Ridge
from regard.tasks.series.data import SeriesFiles
from regard.tasks.series.intervals import rolling_offsets, scores_of

DATA = Path(os.environ.get("REGARD_DATA", "data"))
HOURS = ["data.split=[8640, 2880, 2880]", "data.context=48", "data.horizon=24", "data.targets=OT,HUFL"]
FAR = ["data.split=[8640, 2880, 2880]", "data.context=192", "data.horizon=96", "data.targets=OT,HUFL"]
DAYS = ["data.split=[0.6, 0.2, 0.2]", "data.context=20", "data.horizon=5", "data.targets=close", "data.steps=any"]
STOCKS = 12  # one has 50 weeks to judge by, too few for two per cent


def unpacked(archive: Path, folder: Path) -> list[Path]:
    """The first stocks of the archive, by name."""
    with tarfile.open(archive) as files:
        names = sorted(name for name in files.getnames() if name.endswith(".csv"))[:STOCKS]
        for name in names:
            member = files.extractfile(name)
            assert member is not None
            (folder / Path(name).name).write_bytes(member.read())
    return [folder / Path(name).name for name in names]


def covered(path: Path, given: list[str]) -> float:
    """The share of what came that lay within bounds, each by windows that were over at its time."""
    recipe = make_recipe({"task": "series"}, [f'data.train=["{path}"]', *given])
    sets = SeriesFiles(recipe.data).read()
    ridge = Ridge.fit(sets.train, sets.valid)
    held, test = (
        scores_of(ridge(part), part.cut(np.arange(len(part))).future) for part in (sets.test.preceding(), sets.test)
    )
    offsets, _ = rolling_offsets(test, horizon=recipe.data.horizon, share=0.9, before=held)
    assert np.isfinite(offsets).all()
    return float(np.mean(test <= offsets))


@pytest.mark.parametrize(
    ("file", "given"), [("ett/ETTh1.csv.gz", HOURS), ("ett/ETTh1.csv.gz", FAR), ("stocks/stocks.tar.gz", DAYS)]
)
def test_ninety_per_cent_are_eighty_eight_to_ninety_two(file: str, given: list[str], tmp_path: Path) -> None:
    path = DATA / file
    if not path.exists():
        pytest.skip(f"no {file} in REGARD_DATA")
    paths = unpacked(path, tmp_path) if file.endswith(".tar.gz") else [path]
    assert 0.88 <= np.mean([covered(each, given) for each in paths]) <= 0.92
