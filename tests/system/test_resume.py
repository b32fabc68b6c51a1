"""Stopped, killed, and started again: what comes out is what an uninterrupted run gives, to the bit."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.config.recipe import read_recipe
from regard.tasks.recipes import make_recipe
from regard.tasks.training import train

# All that has a state: dropout, new cuts each epoch, smoothing, an average of snapshots, reports across checkpoints.
RECIPE = """
task = "translation"
[model]
name = "transformer"
d_model = 16
n_heads = 2
d_feedforward = 32
n_encoder_layers = 1
n_decoder_layers = 1
dropout = 0.2
[data]
synthetic = "dates"
n_train = 200
n_valid = 8
n_test = 8
[tokenizer]
size = 300
dropout = 0.1
[train]
steps = 60
batch_tokens = 400
lr = 0.02
warmup = 4
label_smoothing = 0.1
average = 3
eval_every = 4
save_every = 2
log_every = 3
device = "cpu"
[decode]
max_length = 20
"""
TIMES = {"tokens_per_second", "seconds", "unreported", "date"}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As the processes that are compared with."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def write_recipe(folder: Path, **train: int) -> Path:
    text = RECIPE
    for key, value in train.items():
        text = re.sub(rf"{key} = \d+", f"{key} = {value}", text)
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def run_here(recipe: Path, out: Path, *overrides: str, resume: bool = False) -> None:
    train(make_recipe(read_recipe(recipe), overrides), out, data_root=None, resume=resume, say=lambda _: None)


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in TIMES}
    return value


def reports(run: Path) -> list[Any]:
    return [timeless(json.loads(line)) for line in (run / "metrics.jsonl").read_text().splitlines()]


def files_of(run: Path, pattern: str) -> dict[str, Path]:
    return {str(path.relative_to(run)): path for path in sorted(run.glob(pattern))}


def assert_same_run(one: Path, other: Path) -> None:
    """Every tensor, every figure and every text of two runs, times aside."""
    tensors, others = files_of(one, "**/*.safetensors"), files_of(other, "**/*.safetensors")
    assert tensors.keys() == others.keys()
    assert len(tensors) > 3
    for name, path in tensors.items():
        mine, theirs = load_file(path), load_file(others[name])
        assert mine.keys() == theirs.keys(), name
        for key in mine:
            assert torch.equal(mine[key], theirs[key]), (name, key)
    assert reports(one) == reports(other)
    states = [
        {n: timeless(json.loads(p.read_text())) for n, p in files_of(r, "**/*.json").items() if p.name != "hashes.json"}
        for r in (one, other)
    ]
    assert states[0] == states[1]
    texts = [{name: p.read_text() for name, p in files_of(r, "samples/*").items()} for r in (one, other)]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_killed_at_any_instant_it_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "support" / "killing.py"
    command = [sys.executable, str(program), str(write_recipe(tmp_path)), str(tmp_path), "28"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stderr + logs[-2000:]
    died_at = json.loads(done.stdout)["died_at"]
    assert len(died_at) >= 20, died_at
    assert len(set(died_at)) >= 4, died_at  # while preparing, and in several parts of the training
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    assert not list((tmp_path / "killed" / "checkpoints").glob(".*"))


def start_and_signal(recipe: Path, out: Path, number: signal.Signals) -> tuple[int, str]:
    """Begin on the command line, and send a signal once there is a checkpoint."""
    command = [sys.executable, "-c", "from regard.cli.main import run; run()", "train", str(recipe), "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    until = time.monotonic() + 60
    while not list(out.glob("checkpoints/step-*")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    process.send_signal(number)
    _, talk = process.communicate(timeout=60)
    return process.returncode, talk


@pytest.mark.slow
def test_signals_save_and_the_run_goes_on(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=120, save_every=50, eval_every=15)
    run_here(recipe, tmp_path / "whole")
    recipe_saving_early = write_recipe(tmp_path, steps=120, save_every=5, eval_every=15)
    for number in (signal.SIGTERM, signal.SIGINT):
        out = tmp_path / number.name
        code, talk = start_and_signal(recipe_saving_early, out, number)
        assert code == 130, talk
        assert re.search(r"^hint: go on with.* --resume", talk, re.MULTILINE)
        assert "Traceback" not in talk
        found = re.search(r"stopped after step (\d+)", talk)
        assert found
        step = int(found[1])
        assert 5 <= step < 120
        assert (out / "checkpoints" / f"step-{step:08d}" / "state.json").exists()
        run_here(write_recipe(tmp_path, steps=120, save_every=50, eval_every=15), out, resume=True)
        ends = [
            load_file(run / "checkpoints" / "step-00000120" / "model.safetensors") for run in (tmp_path / "whole", out)
        ]
        assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
        assert reports(tmp_path / "whole") == reports(out)


def test_the_resolved_config_is_the_run(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=4)
    run_here(recipe, tmp_path / "one", "train.seed=20170612", "train.warmup=3")
    run_here(tmp_path / "one" / "config.toml", tmp_path / "other")
    assert (tmp_path / "one" / "config.toml").read_text() == (tmp_path / "other" / "config.toml").read_text()
    assert_same_run(tmp_path / "one", tmp_path / "other")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_killed_on_a_gpu_it_ends_with_the_same_loss(tmp_path: Path) -> None:
    """To the bit where two runs that nobody disturbs are equal: sums of a GPU may depend on which part comes first."""
    recipe = write_recipe(tmp_path, steps=200, save_every=10, eval_every=40)
    recipe.write_text(recipe.read_text().replace('device = "cpu"', 'device = "cuda"'))
    for name in ("whole", "again"):
        run_here(recipe, tmp_path / name)
    code, talk = start_and_signal(recipe, tmp_path / "killed", signal.SIGKILL)
    assert code == -signal.SIGKILL, talk
    run_here(recipe, tmp_path / "killed", resume=True)
    losses = {
        name: [report["valid_nll"] for report in reports(tmp_path / name) if "valid_nll" in report]
        for name in ("whole", "again", "killed")
    }
    assert len(losses["whole"]) == len(losses["killed"]) == 5
    assert losses["killed"] == pytest.approx(losses["whole"], rel=2e-2)
    weights = {name: load_file(tmp_path / name / "model.safetensors") for name in losses}
    equal = {
        name: all(torch.equal(mine, weights["whole"][key]) for key, mine in weights[name].items()) for name in weights
    }
    assert equal["killed"] or not equal["again"], losses
