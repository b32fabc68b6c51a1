"""Whole runs with dropout by one, two and three processes: equal in double precision."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close

from tiny_tasks import language

STEPS = [
    "train.steps=60", "train.eval_every=60", "train.save_every=30", "train.log_every=10", "train.same_draws=true",
    "train.precision=fp64", "train.epsilon=1e-6", "train.plan=off", "train.device=cpu", "train.n_samples=1",
]  # fmt: skip
SMALL = ["model.d_model=16", "model.n_heads=2", "model.dropout=0.2", "model.attention_dropout=0.2"]
DATES = [
    "translation", "data.synthetic=dates", "data.n_train=90", "data.n_valid=4", "data.n_test=4", "tokenizer.size=300",
    "tokenizer.dropout=0.1", "model.name=transformer", *SMALL, "model.d_feedforward=32", "model.n_encoder_layers=1",
    "model.n_decoder_layers=1", "train.batch_tokens=120", "train.accumulate=2", "train.clip=1.0", "train.warmup=5",
    "decode.max_length=8",
]  # fmt: skip


def launch(arguments: list[str], out: Path, *, processes: int) -> None:
    how = [] if processes == 1 else ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    command = [sys.executable, "-m", *how, "regard", "train", *arguments, *STEPS, "--out", str(out), "--resume"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr


def facts(run: Path) -> tuple[list[float], dict[str, Any]]:
    """The losses that were reported, and where the last checkpoint stands."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    state = json.loads((run / "checkpoints/step-00000060/state.json").read_text())
    return [line["loss"] for line in lines if "loss" in line], state


def weights(run: Path) -> dict[str, Tensor]:
    """The last weights, as they were trained."""
    return load_file(run / "checkpoints/step-00000060/model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize(("task", "numbers"), [("translation", (2, 3)), ("language", (2,))])
def test_any_number_of_processes_is_the_same_run(tmp_path: Path, task: str, numbers: tuple[int, ...]) -> None:
    arguments = DATES if task == "translation" else [*language(tmp_path), *SMALL, "train.batch_tokens=112"]
    launch(arguments, tmp_path / "1", processes=1)
    losses, state = facts(tmp_path / "1")
    assert len(losses) == 6
    assert state["examples"]
    for processes in numbers:
        launch(arguments, tmp_path / str(processes), processes=processes)
        others, other = facts(tmp_path / str(processes))
        assert others == pytest.approx(losses, rel=1e-7)  # as they are rounded
        assert_close(weights(tmp_path / str(processes)), weights(tmp_path / "1"), rtol=1e-9, atol=1e-9)
        assert [other[name] for name in ("examples", "position", "tokens")] == [
            state[name] for name in ("examples", "position", "tokens")
        ]
