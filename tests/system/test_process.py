"""Whatever regard does, the process it runs in stays as it was: flags, threads, random numbers, warnings, signals."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tiny_captions
import tiny_images
import tiny_runs
import tiny_series
import tiny_speech
import tiny_tasks
from process_state import changed, precisions, process_state
from regard.config.devices import quick_products
from regard.config.process import seed_torch, unchanged
from regard.exhibits.exhibit import Scale
from regard.exhibits.gallery import find
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train
from regard.training.prefetch import Prefetcher
from regard.training.signals import Interrupted
from regard.training.trainer import Trainer

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))["finished"]
TRAINED: dict[str, Callable[[Path], list[str]]] = {
    **tiny_tasks.TASKS,
    "translation": tiny_runs.settings,
    "images": tiny_images.images,
    "captions": tiny_captions.captions,
    "series": tiny_series.series,
    "speech": tiny_speech.speech,
}
CPU = torch.device("cpu")


def tiny_recipe(task: str, folder: Path) -> Any:
    """A recipe of a tiny model, for two steps."""
    name, *given = TRAINED[task](folder)
    given = [one for one in given if not one.startswith(("train.epochs", "train.steps", "train.eval", "train.save"))]
    return make_recipe(find_recipe(name), [*given, "train.steps=2", "train.eval_every=1", "train.save_every=2"])


def train_words(folder: Path) -> None:
    given = [f'data.train=["{tiny_tasks.write_texts(folder)}"]', "data.min_count=1", "train.plan=off", "train.epochs=1"]
    train(make_recipe(find_recipe("words"), given), folder / "run", data_root=None, resume=False, say=lambda _: None)


def begin(folder: Path, task: str = "language") -> None:
    train(tiny_recipe(task, folder), folder / "run", data_root=None, resume=False, say=lambda _: None)


@pytest.fixture(autouse=True)
def own_state(seeds: int) -> None:
    """Random numbers that no seed begins with, so that a seed would be seen."""
    torch.rand(3), np.random.rand(3), random.random()


@pytest.mark.parametrize("task", [*TRAINED, "words"])
def test_training(tmp_path: Path, task: str) -> None:
    before = process_state()
    if task == "words":
        train_words(tmp_path)
    else:
        begin(tmp_path, task)
    now = changed(before)
    now.pop("environment", None)  # packages that are first imported meanwhile set variables of their own
    assert not now


def test_training_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Trainer, *arguments: Any) -> None:
        torch.manual_seed(1)
        raise ValueError("broken")

    begin(tmp_path / "first")
    before = process_state()
    monkeypatch.setattr(Trainer, "_evaluate", fail)
    with pytest.raises(ValueError, match="broken"):
        begin(tmp_path / "second")
    assert not changed(before)


@pytest.mark.parametrize("times", [1, 2])
def test_training_that_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    def interrupt(self: Trainer) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)

    begin(tmp_path / "first")
    before = process_state()
    monkeypatch.setattr(Trainer, "_evaluate", interrupt)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        begin(tmp_path / "second")
    assert not changed(before)


@pytest.mark.parametrize("name", EXPECTED)
def test_predicting_looking_and_scoring(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tiny_runs.Command
) -> None:
    for folder in ("data", f"finished/{name}"):
        shutil.copytree(GOLDEN / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    run, asked = f"finished/{name}", EXPECTED[name]["predict"][0]["arguments"]
    verbs = [["predict", run, *asked], ["evaluate", run], ["verify", run]]
    if name not in ("words", "language-recurrent"):  # nothing to look at
        verbs.append(["look", run, asked[0], "--out", "seen.html"])
    command("info", run)
    before = process_state()
    for verb in verbs:
        answer = command(*verb)
        assert answer.code == 0, answer.err
        now = changed(before)
        now.pop("environment", None)
        assert not now, verb[0]


def test_a_prediction_that_fails(monkeypatch: pytest.MonkeyPatch, command: tiny_runs.Command) -> None:
    command("predict", GOLDEN / "finished" / "images", "nowhere.png")
    before = process_state()
    assert command("predict", GOLDEN / "finished" / "images", "nowhere.png").code
    assert not changed(before)


FRESH = """
import sys, warnings, random, torch, numpy
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import tiny_tasks
from process_state import changed, process_state
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train
import regard

name, *given = tiny_tasks.labels(Path("."))
recipe = make_recipe(find_recipe(name), given)
torch.rand(3), numpy.random.rand(3), random.random()
before = process_state()
train(recipe, Path("run"), data_root=None, resume=False, say=lambda _: None)
model = regard.load("run")
model(["the cat sees a dog .", "a dog"])
model.look("the cat sees a dog .").page("seen.html")
now = changed(before)
now.pop("environment", None)
assert not now, now
"""


def test_a_process_in_which_everything_is_imported_on_the_way(tmp_path: Path) -> None:
    support = str(Path(tiny_tasks.__file__).parent)
    command = [sys.executable, "-c", FRESH, support]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr


def test_an_exhibit() -> None:
    find("scaling").run(Scale(small=True))
    before = process_state()
    find("scaling").run(Scale(small=True))
    find("order").run(Scale(small=True))
    assert not changed(before)


def test_what_comes_next_and_which_warnings_are_shown() -> None:
    before = process_state()

    def fail() -> None:
        with unchanged(CPU):
            seed_torch(1, CPU), np.random.seed(1), random.seed(1)
            warnings.simplefilter("error")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert not changed(before)


def test_a_seed_is_torchs_own() -> None:
    seed_torch(7, CPU)
    drawn = torch.rand(5)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(5), drawn)


@pytest.mark.parametrize("theirs", ["highest", "high", "medium"])
def test_quick_products_are_for_a_scope(theirs: str) -> None:
    """The flags can be set where there is no GPU."""

    def fail() -> None:
        with quick_products(torch.device("cuda")):
            assert torch.get_float32_matmul_precision() == "high"
            assert torch.backends.cuda.matmul.allow_tf32
            raise ValueError("broken")

    usual = precisions()
    try:
        if theirs != "highest":
            torch.set_float32_matmul_precision(theirs)
        before = process_state()
        with pytest.raises(ValueError, match="broken"):
            fail()
        assert not changed(before)
        with quick_products(CPU):
            assert not changed(before)
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision = usual[1], usual[6]


def test_quick_products_of_somebody_who_sets_each_backend() -> None:
    """PyTorch refuses to be asked for its one setting then."""
    usual = precisions()
    try:
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        before = precisions()
        with quick_products(torch.device("cuda")):
            assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        assert precisions() == before
    finally:
        torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision = usual[1], usual[6]
    torch.get_float32_matmul_precision()


class _Pinned:
    def pin_memory(self) -> _Pinned:
        return self


def _prefetcher(*, pinned: bool) -> Prefetcher:
    return Prefetcher(lambda: iter([(None, _Pinned())]), pinned=pinned)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_turns_are_short_for_a_gpu_and_then_as_they_were(order: tuple[int, int]) -> None:
    usual = sys.getswitchinterval()
    both = [_prefetcher(pinned=True), _prefetcher(pinned=True)]
    assert sys.getswitchinterval() < usual
    for place in order:
        both[place].close()
    assert sys.getswitchinterval() == usual


def test_turns_stay_as_they_are_for_a_processor() -> None:
    usual = sys.getswitchinterval()
    batches = _prefetcher(pinned=False)
    assert sys.getswitchinterval() == usual
    batches.close()


def test_turns_that_somebody_else_has_set_meanwhile_are_kept() -> None:
    usual = sys.getswitchinterval()
    batches = _prefetcher(pinned=True)
    try:
        sys.setswitchinterval(0.01)
        batches.close()
        assert sys.getswitchinterval() == 0.01
    finally:
        sys.setswitchinterval(usual)
