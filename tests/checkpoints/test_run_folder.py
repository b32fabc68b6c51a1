"""The run folder: whole or absent at any instant, and whatever is wrong with it is said by name."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoints import weights
from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import read_tensors
from regard.errors import CheckpointError, EnvironmentProblem

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(7)}


def saved(folder: Path, *steps: int) -> RunFolder:
    run = RunFolder(folder)
    for step in steps:
        run.save(step, files={"model": TENSORS, "optimizer": {}}, facts={"step": step})
    return run


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    run = saved(tmp_path, 12, 3)
    assert run.steps() == [3, 12]
    tensors, facts = run.read(12, ["model", "optimizer"])
    assert facts == {"step": 12}
    assert tensors["optimizer"] == {}
    assert tensors["model"].keys() == TENSORS.keys()
    assert all(torch.equal(tensors["model"][name], TENSORS[name]) for name in TENSORS)
    assert RunFolder(tmp_path / "none").steps() == []


def test_a_draft_left_by_a_kill_is_ignored_and_replaced(tmp_path: Path) -> None:
    run = saved(tmp_path, 3)
    draft = run.checkpoints / ".draft-step-00000006"
    draft.mkdir()
    (draft / "model.safetensors").write_bytes(b"half")
    (run.checkpoints / ".draft-old-step-00000001").mkdir()
    (run.checkpoints / "step-7").mkdir()  # not a name that `save` gives
    assert run.steps() == [3]
    saved(tmp_path, 6)
    assert run.steps() == [3, 6]
    assert run.read(6, ["model"])[1] == {"step": 6}
    run.keep([6])
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["step-00000006", "step-7"]


class Dying:
    """Counts operations on the disk, and lets number `last` be none."""

    def __init__(self, last: int) -> None:
        self.left = last

    def before(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return operation(*args, **options)

        return counted


def test_whenever_saving_breaks_off_a_whole_checkpoint_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = [(os, "fsync"), (weights, "save_file"), (Path, "mkdir"), (Path, "rename"), (shutil, "rmtree"),
                  (json, "dump"), (Path, "open")]  # fmt: skip
    outcomes = set()
    for last in range(1, 30):
        run, dying = saved(tmp_path / str(last), 3), Dying(last)
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            for owner, name in operations:
                patched.setattr(owner, name, dying.before(getattr(owner, name)))
            run.save(6, files={"model": TENSORS, "optimizer": {}}, facts={"step": 6})
            run.keep([6])
        newest = run.steps()[-1]
        tensors, facts = run.read(newest, ["model", "optimizer"])
        assert facts == {"step": newest}
        assert torch.equal(tensors["model"]["a"], TENSORS["a"])
        outcomes.add((newest, dying.left > 0))
    assert outcomes == {(3, False), (6, False), (6, True)}  # early, late, and not at all


def test_whenever_replacing_breaks_off_the_old_or_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only checkpoint there is is written anew; then the next training begins."""
    outcomes = set()
    for last in range(1, 30):
        run, dying = saved(tmp_path / str(last), 3), Dying(last)
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            for owner, name in ((os, "fsync"), (Path, "mkdir"), (Path, "rename"), (shutil, "rmtree"), (Path, "open")):
                patched.setattr(owner, name, dying.before(getattr(owner, name)))
            run.save(3, files={"model": {"a": torch.ones(2)}}, facts={"step": "anew"})
        run.clear_drafts()
        assert [path.name for path in run.checkpoints.iterdir()] == ["step-00000003"]
        tensors, facts = run.read(3, ["model"])
        assert torch.equal(tensors["model"]["a"], torch.ones(2) if facts["step"] == "anew" else TENSORS["a"])
        outcomes.add((facts["step"], dying.left > 0))
    assert outcomes == {(3, False), ("anew", False), ("anew", True)}  # early, late, and not at all


def test_where_the_new_one_cannot_take_its_place_the_old_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, rename = saved(tmp_path, 3), Path.rename

    def refused(path: Path, target: Path) -> Path:
        if path.name.startswith(".draft-step"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refused)
        with pytest.raises(EnvironmentProblem, match=r"step-00000003: cannot be written .*Input/output error"):
            run.save(3, files={"model": {}}, facts={"step": "anew"})
    assert [path.name for path in run.checkpoints.iterdir()] == ["step-00000003"]
    assert run.read(3, ["model"])[1] == {"step": 3}


def test_a_full_disk_leaves_what_was_saved_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = saved(tmp_path, 3)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for write in (
            lambda: run.save(6, files={"model": TENSORS}, facts={}),
            lambda: run.write_weights(TENSORS),
            lambda: run.write_text("config.toml", "a = 1"),
        ):
            with pytest.raises(EnvironmentProblem, match=r"cannot be written .*No space left on device") as problem:
                write()
            assert problem.value.hint
            assert "free some disk space" in problem.value.hint
    assert run.steps() == [3]
    assert not run.weights.exists()
    assert not run.exists()


def test_weights_are_replaced_whole(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_weights(TENSORS)
    pid = os.fork()
    if pid == 0:  # dies between the draft and its renaming
        Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]
        run.write_weights({"a": torch.zeros(2, 3)})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert torch.equal(read_tensors(run.weights)["a"], TENSORS["a"])
    run.write_weights({"a": torch.ones(2, 3)})
    assert torch.equal(read_tensors(run.weights)["a"], torch.ones(2, 3))


def test_keep_keeps_the_named_ones(tmp_path: Path) -> None:
    run = saved(tmp_path, 2, 4, 6, 8)
    run.keep([8, 4, 5])
    assert run.steps() == [4, 8]
    assert run.read(4, ["model"])[1] == {"step": 4}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_files_cut_short_are_named(tmp_path: Path, share: float) -> None:
    saved(tmp_path, 3)
    run = RunFolder(tmp_path, check=False)  # as those of older versions, which have no hashes
    folder = run.checkpoints / "step-00000003"
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    for name, others in (
        ("state.json", "not a whole checkpoint"),
        ("model.safetensors", "not a whole safetensors file"),
    ):
        path = folder / name
        path.write_bytes(whole[path][: int(share * len(whole[path]))])
        with pytest.raises(CheckpointError, match=others) as problem:
            run.read(3, ["model"])
        assert "step-00000003" in str(problem.value)
        path.write_bytes(whole[path])
    assert run.read(3, ["model"])[1] == {"step": 3}


def test_missing_files_are_named(tmp_path: Path) -> None:
    run = saved(tmp_path, 3)
    with pytest.raises(CheckpointError, match=r"average\.safetensors: there is no such file"):
        run.read(3, ["model", "average"])
    with pytest.raises(CheckpointError, match="step-00000009: not a whole checkpoint"):
        run.read(9, ["model"])


def test_facts_come_back_and_are_checked(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(CheckpointError, match=r"run\.json: there is no such file"):
        run.read_facts()
    run.write_facts({"task": "translation", "name": "Zürich"})
    assert run.read_facts() == {"format": 1, "task": "translation", "name": "Zürich"}
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text[: len(text) // 2])
    with pytest.raises(CheckpointError, match=r"run\.json: not a JSON file"):
        run.read_facts()
    for nonsense in ("[]", "null", '"text"', '{"format": "new"}'):
        (tmp_path / "run.json").write_text(nonsense)
        with pytest.raises(CheckpointError, match=r"run\.json: not a regard run"):
            run.read_facts()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_facts({})
    (tmp_path / "run.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(
        CheckpointError, match=r"written by a newer regard \(format 2, this one reads up to 1\)"
    ) as problem:
        run.read_facts()
    assert problem.value.hint == "upgrade regard"


def test_configs_come_back_and_are_checked(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "new")
    assert not run.exists()
    with pytest.raises(CheckpointError, match=r"new: not a run folder \(it has no config\.toml\)"):
        run.read_config()
    run.write_config({"task": "translation", "train": {"lr": 1e-9, "betas": [0.9, 0.98]}})
    assert run.exists()
    assert run.read_config() == {"task": "translation", "train": {"lr": 1e-9, "betas": [0.9, 0.98]}}
    (run.path / "config.toml").write_text("task = ")
    with pytest.raises(CheckpointError, match=r"config\.toml: not a TOML file"):
        run.read_config()
    assert sorted(path.name for path in run.path.iterdir()) == ["config.toml", "hashes.json"]
