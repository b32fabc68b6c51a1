"""Checkpoints written in the background: of the moment they were asked for, one at a time, and no failure is lost."""

import os
import signal
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from regard.checkpoints.run import RunFolder
from regard.errors import EnvironmentProblem
from regard.training.distributed import ProcessGroup
from regard.training.saving import CheckpointSaver
from small_training import Scripted, scripted_trainer


def saver_in(folder: Path) -> CheckpointSaver:
    return CheckpointSaver(RunFolder(folder), ProcessGroup(), sharded=False)


def held_up(saver: CheckpointSaver, monkeypatch: pytest.MonkeyPatch) -> Event:
    """The disk takes its time until the event is set."""
    write, go = saver.run.write_checkpoint, Event()

    def slowly(*args: Any, **kwargs: Any) -> Path:
        assert go.wait(20)
        return write(*args, **kwargs)

    monkeypatch.setattr(saver.run, "write_checkpoint", slowly)
    return go


def test_what_is_written_is_of_the_moment_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saver, weights = saver_in(tmp_path), torch.ones(3)
    go = held_up(saver, monkeypatch)
    saver.save(1, {"model": {"w": weights}}, facts={"step": 1}, kept=[])
    weights += 1
    assert not saver.run.steps()
    go.set()
    saver.wait()
    assert saver.run.read(1, ["model"])[0]["model"]["w"].tolist() == [1, 1, 1]


def test_one_is_on_its_way_at_a_time_and_the_one_before_stays(tmp_path: Path) -> None:
    saver = saver_in(tmp_path)
    for step in range(1, 5):
        saver.save(step, {"model": {"w": torch.ones(3)}}, facts={"step": step}, kept=[1])
        assert saver.run.steps()[-1:] in ([step - 1], [step], [])
    saver.wait()
    assert saver.run.steps() == [1, 3, 4]


@pytest.mark.parametrize("ask", ["save", "wait", "check", "leave"])
def test_a_failure_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    saver = saver_in(tmp_path)
    failed = EnvironmentProblem("the disk is full")

    def fail(*args: Any, **kwargs: Any) -> Path:
        raise failed

    monkeypatch.setattr(saver.run, "write_checkpoint", fail)
    saver.save(1, {}, facts={}, kept=[])
    until = time.monotonic() + 20
    while saver._thread is not None and saver._thread.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    ways: dict[str, Any] = {
        "save": lambda: saver.save(2, {}, facts={}, kept=[]),
        "wait": saver.wait,
        "check": saver.check,
        "leave": lambda: saver.__exit__(None),
    }
    with pytest.raises(EnvironmentProblem, match="the disk is full"):
        ways[ask]()
    saver.wait()  # said once


def test_a_failure_ends_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = scripted_trainer(tmp_path, Scripted([1] * 99), steps=2000, eval_every=5000)

    def fail(*args: Any, **kwargs: Any) -> Path:
        raise EnvironmentProblem("the disk is full")

    monkeypatch.setattr(trainer.run, "write_checkpoint", fail)
    with pytest.raises(EnvironmentProblem, match="the disk is full"):
        trainer.fit()
    assert trainer.progress.step < 2000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_during_a_save_leaves_a_loadable_run(tmp_path: Path) -> None:
    """The child is killed in the middle of writing its second checkpoint."""
    pid = os.fork()
    if not pid:
        try:
            trainer = scripted_trainer(tmp_path, Scripted([1] * 99), steps=4, eval_every=50)
            end = trainer.run.end_checkpoint

            def die(step: int, *args: Any) -> None:
                if step == 4:
                    os.kill(os.getpid(), signal.SIGKILL)
                end(step, *args)

            trainer.run.end_checkpoint = die  # type: ignore[method-assign]
            trainer.fit()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "checkpoints" / ".draft-step-00000004").exists()
    whole = scripted_trainer(tmp_path / "whole", Scripted([1] * 99), steps=4, eval_every=50)
    whole.fit()
    resumed = scripted_trainer(tmp_path, Scripted([1] * 99), steps=4, eval_every=50)
    assert resumed.restore()
    assert resumed.progress.step == 2
    resumed.fit()
    assert torch.equal(resumed.model.state_dict()["weight"], whole.model.state_dict()["weight"])
    assert not list((tmp_path / "checkpoints").glob(".draft*"))
