"""A lost process costs the steps since the last save: torchrun starts all again, and they go on by themselves."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

RECIPE = """
task = "translation"
[model]
name = "transformer"
d_model = 16
n_heads = 2
d_feedforward = 32
n_encoder_layers = 1
n_decoder_layers = 1
dropout = 0.0
activation = "gelu"
[data]
synthetic = "dates"
n_train = 90
n_valid = 6
n_test = 4
[tokenizer]
size = 300
[train]
steps = 120
batch_tokens = 150
warmup = 2
lr = 0.005
epsilon = 1e-3
eval_every = 60
save_every = 10
log_every = 10
device = "cpu"
[decode]
max_length = 12
"""
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def workers_of(agent: int) -> list[int]:
    """The processes that a launcher started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found += [int(path.parent.name)] if int(fields[1]) == agent else []
    return found


def reports(run: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


def agents(recipe: Path, out: Path, *overrides: str) -> list[subprocess.Popen[str]]:
    """Two launchers of one process each, as on two machines."""
    place = ["--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=dates"]
    how = ["-m", "torch.distributed.run", *place, f"--rdzv-endpoint=127.0.0.1:{free_port()}", "-m", "regard"]
    command = [sys.executable, *how, "train", str(recipe), *overrides, "--out", str(out)]
    return [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) for _ in range(2)]


@pytest.mark.slow
def test_a_killed_process_costs_the_steps_since_the_last_save(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(tmp_path / "alone")]
    subprocess.run(command, check=True, env=ENVIRONMENT, timeout=120, capture_output=True)
    out = tmp_path / "together"
    launchers = agents(recipe, out, "train.shard=full")
    try:
        until = time.monotonic() + 90
        while not list(out.glob("checkpoints/step-*")) and time.monotonic() < until:
            time.sleep(0.02)
        killed = workers_of(launchers[1].pid)
        assert len(killed) == 1
        os.kill(killed[0], signal.SIGKILL)
        talk = [launcher.communicate(timeout=150)[1] for launcher in launchers]
    finally:
        for launcher in launchers:
            launcher.kill()
    assert [launcher.returncode for launcher in launchers] == [0, 0], talk
    assert any("going on after step" in text for text in talk)
    assert not (out / ".lock").exists()
    mine, theirs = reports(tmp_path / "alone"), reports(out)
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-9)
