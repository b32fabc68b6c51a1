"""Recorded steps: they come to what unrecorded ones come to, and another shape is no trouble."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import model_for, pair_task, run_folder
from torch import Tensor

from regard.tasks.protocol import Losses
from regard.training.config import TrainConfig
from regard.training.loop import Trainer
from regard.training.progress import Window
from regard.training.recorded import RecordedStep

GPU = torch.cuda.is_available()
CASES: dict[str, dict[str, Any]] = {
    "adamw": {},
    "muon, ema, clipped": {"optimizer": "muon", "ema": 0.9, "weight_decay": 0.1, "clip": 0.5},
}


def trainer_for(folder: Path, **train: Any) -> Trainer:
    task = pair_task(folder / "data", packed=True, label_smoothing=0.1)
    config = TrainConfig(steps=100, lr=0.01, warmup=3, eval_every=1000, compile="off", **train)
    return Trainer(task, model_for(task, dropout=0.2), config, run_folder(folder / "run"))


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
    whole._recorded = RecordedStep(whole._whole, torch.device("cpu"))
    (losses, weights), (others, same) = trained(plain, 6), trained(whole, 6)
    assert losses == others
    assert all(torch.equal(weights[key], same[key]) for key in weights)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("name", CASES)
def test_recorded_and_unrecorded_agree_on_a_gpu(tmp_path: Path, name: str) -> None:
    options = {"device": "cuda", "precision": "fp32"} | CASES[name]
    losses, weights = trained(trainer_for(tmp_path / "a", graphs="off", **options), 12)
    others, same = trained(trainer_for(tmp_path / "b", **options), 12)
    assert len(set(losses)) == 12
    assert others == pytest.approx(losses, rel=1e-3)  # sums of gradients are added in another order each time
    for key in weights:
        torch.testing.assert_close(weights[key], same[key], rtol=0, atol=0.02, msg=key)


def test_a_batch_of_another_shape_is_done_as_it_is() -> None:
    seen: list[tuple[int, ...]] = []

    class Two:
        """A batch with one tensor."""

        def __init__(self, tensor: Tensor) -> None:
            self.tensor, self.n_tokens = tensor, len(tensor)

        def to(self, device: torch.device) -> "Two":
            return self

        def pin_memory(self) -> "Two":
            return self

        def fill(self, other: "Two") -> bool:
            if other.tensor.shape != self.tensor.shape:
                return False
            self.tensor = other.tensor
            return True

    def work(batch: Any, n_tokens: Tensor) -> Losses:
        seen.append(tuple(batch.tensor.tolist()))
        return Losses(batch.tensor.sum() / n_tokens, batch.tensor.sum(), n_tokens)

    step = RecordedStep(work, torch.device("cpu"))
    tensors = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([5.0]), torch.tensor([6.0, 7.0])]
    totals = [float(step(Two(tensor), len(tensor)).total) for tensor in tensors]
    assert seen == [(1, 2), (3, 4), (5,), (6, 7)]
    assert totals == [1.5, 3.5, 5.0, 6.5]
