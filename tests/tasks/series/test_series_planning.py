"""What is planned for series: how far ahead and back by their dates and their number, and that few rows are enough."""

from datetime import datetime, timedelta
from math import sin
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoints.run import RunFolder
from regard.errors import DataError
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.series.planning import plan_series
from regard.tasks.training import train, with_plan
from regard.training.plan import Plan
from regard.training.setup import RunContext

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def written(folder: Path, n: int, *, step: timedelta | None = None, columns: int = 1, monthly: bool = False) -> Path:
    path = folder / "series.csv"
    names = [f"c{i}" for i in range(columns)]
    lines = [",".join((["date"] if step or monthly else []) + names)]
    for row in range(n):
        values = [f"{10 + i + sin(row / 3) + row % 7 / 10:.3f}" for i in range(columns)]
        when = f"{1990 + row // 12}-{row % 12 + 1:02d}-01" if monthly else ""
        when = str(datetime(2020, 1, 1) + row * step) if step else when
        lines.append(",".join(([when] if when else []) + values))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def planned(path: Path, *given: str, device: str = "cpu") -> Plan:
    recipe = make_recipe(find_recipe("series") | {"data": {"train": [str(path)]}}, given)
    plan = plan_series(recipe, RunContext(RunFolder(path.parent / "run"), device=torch.device(device)))
    with_plan(recipe, plan)  # it is a recipe
    return plan


def asked(plan: Plan) -> tuple[Any, Any]:
    return plan.settings["data"]["horizon"], plan.settings["data"]["context"]


def test_months_are_asked_for_by_the_year(tmp_path: Path) -> None:
    plan = planned(written(tmp_path, 120, monthly=True))
    assert plan.data == "120 monthly rows of one series"
    assert asked(plan) == (12, 36)
    assert plan.settings["data"]["split"] == [0.6, 0.2, 0.2]


def test_days_by_weeks_and_hours_by_days(tmp_path: Path) -> None:
    horizon, context = asked(planned(written(tmp_path, 700, step=DAY)))
    assert (horizon, context % 7) == (14, 0)
    assert asked(planned(written(tmp_path, 1500, step=DAY)))[0] == 28
    assert asked(planned(written(tmp_path, 3000, step=HOUR))) == (24, 168)


def test_many_hours_are_read_as_the_literature_does(tmp_path: Path) -> None:
    plan = planned(written(tmp_path, 12_000, step=HOUR, columns=7), "data.horizon=96")
    assert plan.data == "12,000 hourly rows of 7 series"
    assert asked(plan) == (96, 336)
    assert "split" not in plan.settings["data"]
    assert plan.settings["model"]["size"] == "tiny"
    assert plan.settings["train"] == {"batch_examples": 128, "lr": 3e-5}


def test_much_of_it_has_a_wide_model_on_a_gpu(tmp_path: Path) -> None:
    path = written(tmp_path, 5000, step=HOUR, columns=110)
    assert planned(path, device="cuda").settings["model"]["size"] == "base"
    assert planned(path).settings["model"]["size"] == "tiny"


def test_a_series_told_from_others_has_a_model_that_reads_them(tmp_path: Path) -> None:
    path = written(tmp_path, 300, step=DAY, columns=3)
    plan = planned(path, "data.together=true", 'data.targets=["c0"]', 'data.inputs=["c1","c2"]')
    assert plan.settings["model"]["name"] == "series-transformer"
    assert asked(plan) == (1, 5)


def test_what_is_given_holds(tmp_path: Path) -> None:
    path = written(tmp_path, 400, step=DAY)
    plan = planned(path, "data.context=40", "data.split=[200,100,100]")
    assert plan.settings["model"]["patch"] <= 40
    assert "split" not in plan.settings["data"]


@pytest.mark.parametrize("n", [5, 8, 12, 40])
@pytest.mark.parametrize("step", [None, DAY])
def test_few_rows_are_enough(tmp_path: Path, n: int, step: timedelta | None) -> None:
    path = written(tmp_path, n, step=step)
    given = ["train.device=cpu", "train.steps=2", "train.n_samples=0"]
    recipe = make_recipe(find_recipe("series") | {"data": {"train": [str(path)]}}, given)
    said: list[str] = []
    facts = train(recipe, tmp_path / "run", data_root=None, resume=False, say=said.append)
    assert any(line.startswith(f"{n} ") and "loss no longer falls" in line for line in said)
    assert "test" in facts["metrics"]


def test_two_rows_are_not(tmp_path: Path) -> None:
    recipe = make_recipe(find_recipe("series") | {"data": {"train": [str(written(tmp_path, 2))]}}, ["train.device=cpu"])
    with pytest.raises(DataError, match="rows in the"):
        train(recipe, tmp_path / "run", data_root=None, resume=False, say=lambda _: None)
