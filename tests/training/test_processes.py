"""One to four processes, with a copy of the model each or a part, and every random draw on: the same losses of the same
examples, and checkpoints for any number.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parents[1] / "support"
TASKS = ("translation", "language", "labels", "images")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All trainings, in one group of four processes."""
    folder = tmp_path_factory.mktemp("processes")
    command = [sys.executable, str(SUPPORT / "process_jobs.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
    assert done.returncode == 0, logs + done.stderr
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def apart(one: list[float], other: list[float]) -> float:
    """How far two courses are apart at most."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def assert_same(results: dict[str, Any], name: str, other: str, *, within: float = 1e-9) -> None:
    """The same losses, of the same examples."""
    assert len(results[name]) == len(results[other])
    assert apart(results[name], results[other]) < within
    assert int(results[f"{name} seen"], 16) > 0
    assert results[f"{name} seen"] == results[f"{other} seen"]


@pytest.mark.slow
@pytest.mark.parametrize("shard", ["off", "full"])
@pytest.mark.parametrize("task", TASKS)
def test_any_number_of_processes_has_the_same_losses(results: dict[str, Any], task: str, shard: str) -> None:
    alone = results[f"{task} off 1 fp64"]
    assert len(alone) == 60
    assert alone[-1] < alone[0]
    for size in (2, 3, 4):
        assert_same(results, f"{task} off 1 fp64", f"{task} {shard} {size} fp64")


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_single_precision_stays_close(results: dict[str, Any], task: str) -> None:
    assert len(results[f"{task} off 1 fp32"]) == 60
    assert apart(results[f"{task} off 1 fp32"], results[f"{task} off 1 fp64"]) > 1e-9
    assert_same(results, f"{task} off 1 fp32", f"{task} full 4 fp32", within=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixed off 3", "mixed full 3", "mixed mesh 4"])
def test_muon_averages_accumulation_clipping_and_meshes(results: dict[str, Any], name: str) -> None:
    assert_same(results, "mixed plain 1", name)
    assert results[f"{name} score"] == pytest.approx(results["mixed plain 1 score"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ema", "average"])
def test_saved_by_four_and_gone_on_with_by_others(results: dict[str, Any], kind: str) -> None:
    whole = results[f"saved {kind}"][5:]
    for name in ("full 4", "full 3", "full 2", "off 1", "off 3"):
        assert apart(whole, results[f"resumed {kind} {name}"]) < 1e-9
        assert results[f"resumed {kind} {name} seen"] == results[f"saved {kind} seen"]
    assert len(results[f"back {kind}"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("shard", ["off", "full"])
def test_who_has_no_share_of_a_batch_goes_along(results: dict[str, Any], shard: str) -> None:
    assert_same(results, "empty shares off 1", f"empty shares {shard} 4")


@pytest.mark.slow
def test_a_quarter_of_everything_is_held_by_each_of_four(results: dict[str, Any]) -> None:
    assert results["parameters"] == 124_439_808
    assert max(results["shares"]) <= 0.25 * 1.05
    assert results["state share"] <= 0.25 * 1.05
