"""Captured steps: they come to what uncaptured ones come to, and another shape is no trouble."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.config.training import TrainConfig
from regard.data.batching.tensors import TensorBatch
from regard.fast.gpu.captured_step import CapturedStep, _noticing
from regard.training.progress import Window
from regard.training.protocol import Losses
from regard.training.trainer import Trainer
from small_training import context_in, model_for, pair_task

GPU = torch.cuda.is_available()
CASES: dict[str, dict[str, Any]] = {
    "adamw": {},
    "muon, ema, clipped": {"optimizer": "muon", "ema": 0.9, "weight_decay": 0.1, "clip": 0.5},
}


def trainer_for(folder: Path, **train: Any) -> Trainer:
    task = pair_task(folder / "data", packed=True, label_smoothing=0.1)
    config = TrainConfig(steps=100, lr=0.01, warmup=3, eval_every=1000, compile="off", **train)
    return Trainer(task, model_for(task, dropout=0.2), config, context_in(folder / "run", device="auto"))


def trained(trainer: Trainer, steps: int) -> tuple[list[float], dict[str, Tensor]]:
    """What some steps lost, and the weights after them, averaged where there is an average."""
    trainer.model.train()
    batches, found = trainer._batches(), []
    for _ in range(steps):
        trainer._step(batches, window := Window(0.0))
        found.append(window.total()[0])
    weights = trainer.averager.average() if trainer.averager else dict(trainer.model.named_parameters())
    return found, weights


@pytest.mark.parametrize("name", CASES)
def test_a_step_in_one_piece_is_the_step(tmp_path: Path, name: str) -> None:
    plain = trainer_for(tmp_path / "a", device="cpu", **CASES[name])
    whole = trainer_for(tmp_path / "b", device="cpu", **CASES[name])
    whole._captured = CapturedStep(whole._whole, torch.device("cpu"))
    (losses, weights), (others, same) = trained(plain, 6), trained(whole, 6)
    assert losses == others
    assert all(torch.equal(weights[key], same[key]) for key in weights)


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("name", CASES)
def test_captured_and_uncaptured_agree_on_a_gpu(tmp_path: Path, name: str) -> None:
    options = {"device": "cuda", "precision": "fp32"} | CASES[name]
    losses, weights = trained(trainer_for(tmp_path / "a", cuda_graphs="off", **options), 12)
    others, same = trained(trainer_for(tmp_path / "b", **options), 12)
    assert len(set(losses)) == 12
    assert others == pytest.approx(losses, rel=1e-3)  # sums of gradients are added in another order each time
    for key in weights:
        ours, theirs = weights[key], same[key]
        if key.endswith("query_key_value.bias"):  # a key's bias moves no softmax: its gradient is rounding alone
            width = len(ours) // 3
            ours, theirs = (torch.cat((each[:width], each[2 * width :])) for each in (ours, theirs))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0.02, msg=key)


@dataclass(frozen=True)
class Numbers(TensorBatch):
    """A batch with one tensor, and what may be known of it."""

    tensor: Tensor
    n_tokens: int
    fact: Any = None


def test_a_batch_has_the_shape_of_its_tensors_and_facts() -> None:
    one, two = torch.zeros(2), torch.zeros(3)
    assert Numbers(one, 5).shape() == Numbers(one + 1, 6).shape()
    assert len({Numbers(one, 5).shape(), Numbers(two, 5).shape(), Numbers(one, 5, fact=70).shape()}) == 3
    assert Numbers(one, 5, fact=[1, 2]).shape() is None


def test_each_shape_is_done_for_itself_and_what_cannot_be_compared_as_it_is() -> None:
    seen: list[tuple[int, ...]] = []

    def work(batch: Any, n_tokens: Tensor) -> Losses:
        seen.append(tuple(batch.tensor.tolist()))
        return Losses(batch.tensor.sum() / n_tokens, batch.tensor.sum(), n_tokens)

    step = CapturedStep(work, torch.device("cpu"))
    given = [((1.0, 2.0), None), ((3.0, 4.0), None), ((5.0,), None), ((6.0, 7.0), [1]), ((8.0, 9.0), None)]
    batches = [Numbers(torch.tensor(values), len(values), fact) for values, fact in given]
    totals = [float(step(batch, batch.n_tokens).total) for batch in batches]
    assert seen == [values for values, _ in given]
    assert totals == [1.5, 3.5, 5.0, 6.5, 8.5]
    assert len(step._graphs) == 2


def test_waiting_for_the_device_is_noticed_and_other_warnings_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[Any] = []
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def work() -> list[str]:
        with _noticing() as waits:
            warnings.warn("called a synchronizing CUDA operation (Triggered internally at ...)", stacklevel=1)
            warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=1)
            warnings.warn("something else", stacklevel=1)
        return waits

    with pytest.warns(UserWarning, match="something else") as told:
        waits = work()
    assert len(waits) == len(told) == 1
    assert modes == ["warn", 0]


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("asks", [False, True])
def test_work_that_waits_is_not_captured(asks: bool) -> None:
    total = torch.zeros((), device="cuda")

    def work(batch: Any, n_tokens: Tensor) -> Losses:
        total.add_(batch.tensor.sum() if not asks or float(batch.tensor[0]) > 0 else 0.0)
        return Losses(total / n_tokens, total.clone(), n_tokens)

    step = CapturedStep(work, torch.device("cuda"))
    found = [float(step(Numbers(torch.tensor([n, 1.0]), 1), 1.0).nll) for n in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    assert found == [2.0, 5.0, 9.0, 14.0, 20.0, 27.0]
    assert step._waits == asks
    assert len(step._graphs) == (0 if asks else 1)


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_graphs_of_many_shapes_share_their_memory() -> None:
    weight = torch.zeros(1000, device="cuda", requires_grad=True)

    def work(batch: Any, n_tokens: Tensor) -> Losses:
        rows = batch.tensor[:, None].expand(-1, 1000).contiguous()  # some megabytes that go away again
        total = (rows * (weight + 1)).sum()
        total.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            weight.add_(weight.grad, alpha=1e-3)
        weight.grad = None
        return Losses(total.detach() / n_tokens, total.detach(), n_tokens)

    def run(step: Any) -> list[float]:
        with torch.no_grad():
            weight.zero_()
        sizes = [n for _ in range(6) for n in (5000, 1000, 4000, 3000)]
        batches = [Numbers(torch.linspace(-1, 1.1, n) / n, n) for n in sizes]
        return [float(step(batch, 1.0).nll) for batch in batches]

    plainly = run(lambda batch, n: work(batch.to(torch.device("cuda")), torch.ones((), device="cuda")))
    captured = CapturedStep(work, torch.device("cuda"))
    before = torch.cuda.memory_reserved()
    assert run(captured) == pytest.approx(plainly, rel=1e-4)
    assert len(captured._graphs) == 4
    assert torch.cuda.memory_reserved() - before < 2.5 * 3 * 4 * 5000 * 1000  # of the largest, not of all
