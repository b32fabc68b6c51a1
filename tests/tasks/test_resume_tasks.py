"""Ctrl-C in the middle of every task on single texts: the run goes on as if nothing had happened, to the last bit."""

import json
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tiny_runs
import tiny_tasks
from regard.tasks.answers.training import AnswerTraining
from regard.tasks.labels.training import LabelTraining
from regard.tasks.language.training import LanguageTraining
from regard.tasks.masked.training import MaskedTraining

TRAININGS = {
    "language": LanguageTraining,
    "masked": MaskedTraining,
    "labels": LabelTraining,
    "answers": AnswerTraining,
}
SHORT = ["train.epochs=0", "train.steps=14", "train.eval_every=7", "train.save_every=7", "model.dropout=0.1"]
TIMES = {"seconds", "tokens_per_second", "time", "wall", "hardware", "commit"}


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in TIMES and "second" not in key}
    return value


@pytest.mark.parametrize("task", TRAININGS)
def test_interrupted_and_resumed_is_the_whole(task: str, tmp_path: Path, capsys, monkeypatch) -> None:
    command = tiny_runs.Command(capsys, monkeypatch)
    given = [*tiny_tasks.TASKS[task](tmp_path), *SHORT]
    assert command("train", *given, "--out", tmp_path / "whole").code == 0
    calls, loss = [], TRAININGS[task].loss

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 10:
            signal.raise_signal(signal.SIGINT)
        return loss(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(TRAININGS[task], "loss", interrupted)
        stopped = command("train", *given, "--out", tmp_path / "parts")
    assert stopped.code == 130
    assert f"hint: go on with: regard train --resume --out {tmp_path / 'parts'}" in stopped.err
    assert command("train", "--resume", "--out", tmp_path / "parts").code == 0
    ends = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    facts = [timeless(json.loads((tmp_path / name / "run.json").read_text())["metrics"]) for name in ("whole", "parts")]
    assert facts[0] == facts[1]


@pytest.mark.parametrize("task", TRAININGS)
def test_a_run_cannot_go_on_with_other_data(task: str, tmp_path: Path, capsys, monkeypatch) -> None:
    command = tiny_runs.Command(capsys, monkeypatch)
    given = [*tiny_tasks.TASKS[task](tmp_path), *SHORT, "train.steps=1", "train.eval_every=1", "train.save_every=1"]
    assert command("train", *given, "--out", tmp_path / "run").code == 0
    again = command("train", *given, "--out", tmp_path / "run")
    assert again.code == 2
    assert "there is a run already" in again.err
    other = command("train", *given, 'data.valid=["x"]', "--resume", "--out", tmp_path / "run")
    assert other.code == 2
    assert "data.valid: " in other.err
    assert "→" in other.err
