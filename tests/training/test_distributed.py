"""Several processes: the same loss and the same weights as one."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import nn

from regard.config.training import TrainConfig
from regard.errors import ConfigError
from regard.tasks.recipes import find_recipe, make_recipe
from regard.training.distributed import Lost, ProcessGroup, _find_launcher, agree_on_start
from regard.training.reduction import GradientReducer
from regard.training.sharding import check_parallel
from tiny_tasks import write_labels

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
activation = "gelu"  # smooth: at a kink, rounding would decide which way a gradient goes
[data]
synthetic = "dates"
n_train = 90
n_valid = 6
n_test = 4
[tokenizer]
size = 300
dropout = 0.1
[train]
steps = 14
batch_tokens = 150
accumulate = 2
warmup = 2
clip = 1.0
lr = 0.005
epsilon = 1e-3  # else noise in gradients that are zero in theory is blown up to a step
ema = 0.8
eval_every = 7
save_every = 5
log_every = 2
device = "cpu"
layout = "LAYOUT"
[decode]
max_length = 12
"""


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A group of one, which goes through all the motions."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def launch(recipe: Path, out: Path, *overrides: str, processes: int) -> str:
    how = [] if processes == 1 else ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    command = [sys.executable, "-m", *how, "regard", "train", str(recipe), *overrides, "--out", str(out), "--resume"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def reports(run: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


def assert_close_runs(one: Path, other: Path) -> None:
    mine, theirs = reports(one), reports(other)
    assert len(mine) == len(theirs) == 9
    for a, b in zip(mine, theirs, strict=True):
        assert a == pytest.approx(b, rel=1e-6, abs=1e-12)
    for name in ("model.safetensors", "checkpoints/step-00000014/model.safetensors"):
        tensors, others = load_file(one / name), load_file(other / name)
        for key in tensors | others:
            torch.testing.assert_close(tensors[key], others[key], rtol=1e-6, atol=1e-6, msg=f"{name} {key}")
    facts = [json.loads((run / "run.json").read_text()) for run in (one, other)]
    first, second = (run["metrics"]["test"] for run in facts)
    assert first.pop("loss")["value"] == pytest.approx(second.pop("loss")["value"], rel=1e-6)  # of the weights above
    assert first == second
    assert facts[0]["training"]["tokens"] == facts[1]["training"]["tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_two_processes_train_as_one(tmp_path: Path, layout: str) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.replace("LAYOUT", layout))
    launch(recipe, tmp_path / "one", processes=1)
    talk = launch(recipe, tmp_path / "two", "train.steps=6", processes=2)
    assert talk.count("step 2/6") == 1  # one process speaks
    talk = launch(recipe, tmp_path / "two", processes=2)  # and they go on together
    assert talk.count("going on after step 6") == 1
    assert_close_runs(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_one_process_plans_for_all(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'task = "labels"\n[data]\ntrain = ["{write_labels(tmp_path)}"]\n')
    talk = launch(recipe, tmp_path / "two", "train.device=cpu", "--minutes", "0.1", processes=2)
    assert talk.count("→ classifier") == 1
    launch(recipe, tmp_path / "one", "train.device=cpu", "train.steps=3", processes=1)
    one, two = (make_recipe(find_recipe(str(tmp_path / name / "config.toml"))) for name in ("one", "two"))
    assert one.model == two.model
    assert json.loads((tmp_path / "two" / "run.json").read_text())["training"]["step"] <= two.train.steps


def test_one_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    for size in (None, "1"):
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        if size:
            monkeypatch.setenv("WORLD_SIZE", size)
        world = ProcessGroup.join(torch.device("cpu"))
        assert world == ProcessGroup(0, 1)
        assert world.first
        assert world.total(3) == 3
        world.wait()
        world.leave(orderly=True)
    assert not dist.is_initialized()


def test_one_process_of_a_launcher_notices_that_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "some")
    world = ProcessGroup.join(torch.device("cpu"))
    assert (world.rank, world.size, world.abandoned) == (0, 1, False)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert world.abandoned


def test_a_launcher_that_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as launcher:
        monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(launcher.getsockname()[1]))
        _find_launcher()
    with pytest.raises(Lost, match="the launcher of this training is gone"):
        _find_launcher(seconds=0.1)


def test_those_of_one_start_find_each_other_among_what_earlier_ones_left() -> None:
    store, found = dist.HashStore(), {}

    def meet(turn: int, rank: int) -> None:
        time.sleep(0.05 * (rank % 2))
        found[turn, rank] = agree_on_start(store, rank, 3, pause=0.001)

    for turn in range(3):
        if turn == 1:  # one that says hello and is lost before anybody answers
            store.set("regard-hello-2", "nobody")
        threads = [Thread(target=meet, args=(turn, rank)) for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
        assert len({found[turn, rank] for rank in range(3)}) == 1
    assert len({found[turn, 0] for turn in range(3)}) == 3


def test_only_rank_zero_is_first() -> None:
    assert [ProcessGroup(rank, 3).first for rank in range(3)] == [True, False, False]


class Doubled:
    """A second process with the same gradients is played by doubling whatever is sent."""

    def __init__(self) -> None:
        self.sent: list[torch.Tensor] = []

    def __call__(self, tensor: torch.Tensor, group: Any = None, async_op: bool = False) -> Any:
        self.sent.append(tensor.clone())
        tensor.mul_(2)
        return SimpleNamespace(wait=lambda: None)


def test_gradients_are_sent_while_others_are_computed(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last layer's bucket is sent before the first layer's gradients are there."""
    doubled = Doubled()
    monkeypatch.setattr(dist, "all_reduce", doubled)
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    there: list[int] = []
    model[0].weight.register_post_accumulate_grad_hook(lambda _: there.append(len(doubled.sent)))
    reducer = GradientReducer(model.parameters(), ProcessGroup(0, 2), bucket_bytes=16)
    inputs = torch.tensor([[1.0, 2.0]])
    model(inputs).sum().backward()  # one that is not the step's last
    assert not doubled.sent
    reducer.arm()
    model(inputs).sum().backward()
    assert there[-1] >= 1
    reducer.finish()
    assert [len(tensor) for tensor in doubled.sent] == [4, 3, 6]
    own = {name: parameter.grad for name, parameter in model.named_parameters()}
    expected = deepcopy(model)
    expected.zero_grad()
    (4 * expected(inputs).sum()).backward()
    for name, parameter in expected.named_parameters():
        torch.testing.assert_close(own[name], parameter.grad)


def test_what_has_no_gradient_counts_as_zeros(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    doubled = Doubled()
    monkeypatch.setattr(dist, "all_reduce", doubled)
    model = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(3, 1).double(), "unused": nn.Linear(1, 1)})
    for parameter in [*model["a"].parameters(), *model["b"].parameters()]:
        parameter.grad = torch.arange(parameter.numel(), dtype=parameter.dtype).view_as(parameter)
    GradientReducer(model.parameters(), ProcessGroup(0, 2)).finish()
    assert [(tensor.dtype, len(tensor)) for tensor in doubled.sent] == [
        (torch.float32, 2), (torch.float64, 4), (torch.float32, 9),
    ]  # fmt: skip
    for parameter in [*model["a"].parameters(), *model["b"].parameters()]:
        expected = 2 * torch.arange(parameter.numel(), dtype=parameter.dtype).view_as(parameter)
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, expected)
    assert all(p.grad is not None and not p.grad.any() for p in model["unused"].parameters())
    assert ProcessGroup(0, 2).total(2.5) == 5.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard": "full", "replicas": 2}, "train.replicas is 2, and 3 processes"),
        ({"shard": "full", "compile": "on"}, "train.compile=on"),
        ({"cuda_graphs": "on"}, "train.cuda_graphs=on"),
    ],
)
def test_what_several_processes_cannot_do_is_refused(options: dict[str, Any], message: str) -> None:
    config = TrainConfig(**options)
    with pytest.raises(ConfigError, match=message):
        check_parallel(config, ProcessGroup(0, 3), sharded=config.shard == "full")


def test_replicas_are_of_parts() -> None:
    with pytest.raises(ConfigError, match=r"train\.replicas is 2 and train\.shard off"):
        TrainConfig(shard="off", replicas=2)
