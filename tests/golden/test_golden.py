"""Runs that version 0.1.0 wrote open, go on and say the same for good, however the code behind the command line moves.

`make.py` says how they were made, `expected.json` holds what version 0.1.0 said about them. Texts have to be the same,
numbers within 1e-5, and a record may have got new fields, but none may have gone. One answer was written anew: what is
drawn with a seed depends on its own text now, and no longer on its place in the list.
"""

from __future__ import annotations

import json
import math
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
FINISHED, STOPPED = EXPECTED["finished"], EXPECTED["stopped"]
TASKS = ("translation", "language", "masked", "labels", "answers", "images", "captions", "speech", "series", "words")
NEAR = 1e-5
MOST_BYTES = 2_000_000


class Answer(NamedTuple):
    """What a command left: its data, and its talk."""

    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`python -m regard …` within this process, whatever modules are behind it; it has to end well."""

    def run(*words: str) -> Answer:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["regard", *words])
        with pytest.raises(SystemExit) as left:
            runpy.run_module("regard", run_name="__main__")
        answer = Answer(*capsys.readouterr())
        assert not left.value.code, answer.err
        return answer

    return run


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As when the runs were made: sums have one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of the data and the runs, where commands are given: names in a config.toml are relative."""
    for name in ("data", "finished", "stopped"):
        shutil.copytree(HERE / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return tmp_path


def assert_same(found: Any, expected: Any, where: str) -> None:
    """Texts exactly, numbers nearly; objects may have got new fields."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        for key, value in expected.items():
            assert key in found, f"{where}: {key} is gone"
            assert_same(found[key], value, f"{where}: {key}")
    elif isinstance(expected, list):
        assert isinstance(found, list), where
        assert len(found) == len(expected), where
        for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            assert_same(mine, theirs, f"{where}: {i}")
    elif isinstance(expected, float):
        assert isinstance(found, int | float), where
        assert math.isclose(found, expected, rel_tol=NEAR, abs_tol=NEAR), f"{where}: {found} for {expected}"
    else:
        assert found == expected, f"{where}: {found!r} for {expected!r}"


def assert_says_as_before(command: Command, run: str, expected: dict[str, Any]) -> None:
    """What `predict` and `evaluate` say about a run."""
    for verb in ("predict", "evaluate"):
        for asked in expected[verb]:
            given = [verb, run, *asked["arguments"]]
            answer = command(*given, "--json", "--device", "cpu")
            assert_same([json.loads(line) for line in answer.out.splitlines()], asked["records"], " ".join(given))


def assert_ends_as_before(name: str, run: Path) -> None:
    """The weights that a run ends with, when it is stopped on its way and when it is not."""
    mine, theirs = load_file(run / "model.safetensors"), load_file(HERE / "ends" / f"{name}.safetensors")
    assert mine.keys() == theirs.keys()
    for key, tensor in theirs.items():
        torch.testing.assert_close(mine[key], tensor, rtol=NEAR, atol=NEAR, msg=lambda told, key=key: f"{key}: {told}")


def test_every_task_has_a_run() -> None:
    assert {run["task"] for run in FINISHED.values()} == set(TASKS)
    for kind, runs in EXPECTED.items():
        assert {folder.name for folder in (HERE / kind).iterdir()} == set(runs)


def test_the_runs_are_small() -> None:
    files = [path for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


@pytest.mark.parametrize("name", FINISHED)
def test_a_run_opens_and_says_what_it_said(command: Command, name: str) -> None:
    assert_says_as_before(command, f"finished/{name}", FINISHED[name])


@pytest.mark.parametrize("name", FINISHED)
def test_its_recipe_trains_as_it_did(command: Command, copy: Path, name: str) -> None:
    """A few steps by its config.toml, and the sum and the norm of every tensor after them."""
    expected = FINISHED[name]["again"]
    command("train", f"finished/{name}/config.toml", *expected["arguments"], "--out", "again")
    tensors = {key: tensor.double() for key, tensor in load_file(copy / "again" / "model.safetensors").items()}
    assert tensors.keys() == expected["weights"].keys()
    found = {key: [float(tensor.sum()), float(tensor.norm())] for key, tensor in tensors.items()}
    assert_same(found, expected["weights"], name)


@pytest.mark.parametrize("name", STOPPED)
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(command: Command, copy: Path, name: str) -> None:
    answer = command("train", "--resume", "--out", f"stopped/{name}")
    assert "going on after" in answer.err
    assert_ends_as_before(name, copy / "stopped" / name)
    assert_says_as_before(command, f"stopped/{name}", STOPPED[name])


@pytest.mark.parametrize("name", STOPPED)
def test_its_config_gives_the_same_run(command: Command, copy: Path, name: str) -> None:
    command("train", f"stopped/{name}/config.toml", "--out", "new")
    assert_ends_as_before(name, copy / "new")
