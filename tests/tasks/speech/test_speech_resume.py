"""Ctrl-C in the middle of training on speech: the run goes on as if nothing had happened, to the last bit."""

import signal

import pytest
import torch
from safetensors.torch import load_file

import tiny_runs
import tiny_speech
from regard.tasks.speech.training import SpeechTraining

SHORT = ["train.steps=10", "train.eval_every=5", "train.save_every=5", "model.dropout=0.1", "train.noise=1.0",
         "train.speed=0.1", "train.warp=0.1", "train.time_masks=2"]  # fmt: skip


@pytest.mark.parametrize("model", tiny_speech.MODELS)
def test_interrupted_and_resumed_is_the_whole(model, tmp_path, capsys, monkeypatch):
    command = tiny_runs.Command(capsys, monkeypatch)
    given = [*tiny_speech.speech(tmp_path, model), *SHORT]
    assert command("train", *given, "--out", tmp_path / "whole").code == 0
    calls, loss = [], SpeechTraining.loss

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 7:
            signal.raise_signal(signal.SIGINT)
        return loss(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(SpeechTraining, "loss", interrupted)
        stopped = command("train", *given, "--out", tmp_path / "parts")
    assert stopped.code == 130
    assert command("train", "--resume", "--out", tmp_path / "parts").code == 0
    ends = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts")]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_shares_of_processes_make_up_the_batch(tmp_path):
    from regard.checkpoints.run import RunFolder
    from regard.data.batching.plan import Position
    from regard.tasks.recipes import find_recipe, make_recipe
    from regard.tasks.speech.setup import SpeechSetup
    from regard.training.setup import RunContext

    arguments = tiny_speech.speech(tmp_path)
    recipe, cpu = make_recipe(find_recipe(arguments[0]), arguments[1:]), torch.device("cpu")
    task = SpeechSetup(recipe, RunContext(RunFolder(tmp_path / "run"))).task
    _, whole = next(task.batches(Position(0, 2)))
    shares = [next(task.batches(Position(0, 2), rank=rank, world=2))[1] for rank in range(2)]
    assert sum(share.n_tokens for share in shares) == whole.n_tokens
    assert torch.equal(shares[1].lengths, whole.lengths[1::2])
    assert shares[0].drawn[0][:5] == whole.drawn[0][:5]
    assert next(task.batches(Position(0, 2), rank=500, world=501))[1].n_tokens == 0
    assert whole.to(cpu).n_tokens == whole.n_tokens
