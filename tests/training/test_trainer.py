"""The loop: accumulated is one big batch, stopped is uninterrupted, the best is kept, and nonsense is not saved."""

import json
import math
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.checkpoints.weights import read_tensors
from regard.config.training import TrainConfig
from regard.data.batching.plan import Position
from regard.data.io.hashes import record_hashes
from regard.errors import CheckpointError, EnvironmentProblem
from regard.tasks.translation.training import PairTraining
from regard.training.prefetch import Prefetcher
from regard.training.progress import Progress, Window
from regard.training.signals import Interrupted
from regard.training.trainer import Trainer, _seed
from small_training import Numbers, Scripted, context_in, model_for, pair_task, scripted_trainer

UNEQUAL = ([0], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [12, 13], [14, 15, 16, 17, 18, 19, 20])


class Given:
    """A task with batches of our choice."""

    objective = "bleu"
    unit = "tokens"

    def __init__(self, task: PairTraining, groups: tuple[list[int], ...]) -> None:
        self.task, self.groups = task, groups
        self.loss, self.evaluate, self.samples = task.loss, task.evaluate, task.samples

    def batches(self, position: Position, *, rank: int = 0, world: int = 1) -> Iterator[tuple[Position, Any]]:
        for place, group in enumerate(self.groups, 1):
            yield Position(0, place), self.task.batch(torch.tensor(group).numpy(), epoch=0)


class Recorder:
    """Instead of an optimizer: remembers the gradients and the rates."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.gradients, self.rates = model, dict[str, Tensor](), list[float]()

    def set_rate(self, rate: float) -> None:
        self.rates.append(rate)

    def apply(self) -> None:
        self.gradients = {name: p.grad.clone() for name, p in self.model.named_parameters() if p.grad is not None}

    def zero_grad(self) -> None:
        self.model.zero_grad()


def gradients(
    task: PairTraining, groups: tuple[list[int], ...], folder: Path, **options: Any
) -> tuple[dict[str, Tensor], list[float]]:
    model = model_for(task, dropout=0.0).double()
    config = TrainConfig(device="cpu", accumulate=len(groups), **options)
    trainer = Trainer(Given(task, groups), model, config, context_in(folder))
    recorder = Recorder(model)
    trainer.optimizer = recorder  # type: ignore[assignment]
    window = Window(0.0)
    trainer.model.train()
    trainer._step(iter(trainer._batches()), window)
    return recorder.gradients, window.total()


def recorded(folder: Path, n_steps: int, **options: Any) -> Recorder:
    """What an optimizer is given in so many steps of a line y = x + 1 that is to become y = 3 x."""
    trainer = scripted_trainer(folder, Scripted(), **options)
    with torch.no_grad():
        trainer.model.weight.fill_(1.0)  # type: ignore[union-attr, operator]
        trainer.model.bias.fill_(1.0)  # type: ignore[union-attr, operator]
    recorder = Recorder(trainer.model)
    trainer.optimizer = recorder  # type: ignore[assignment]
    batches = iter(trainer._batches())
    for _ in range(n_steps):
        trainer._step(batches, Window(0.0))
    return recorder


@pytest.mark.parametrize(
    ("clip", "share"), [(0.0, 1.0), (1.0, 9 / math.sqrt(724)), (2.9, 2.9 * 9 / math.sqrt(724)), (3.0, 1.0)]
)
def test_gradients_are_clipped_to_their_norm(tmp_path: Path, clip: float, share: float) -> None:
    # At x = -1, -1/3, 1/3, 1 the line is 1 - 2 x too high: the mean of 2 x (1 - 2 x) is -20/9, of 2 (1 - 2 x) it is 2,
    # and the norm of both is the root of 724 over 9, about 2.99.
    found = recorded(tmp_path, 1, clip=clip).gradients
    assert found["weight"].item() == pytest.approx(-20 / 9 * share, rel=1e-5)
    assert found["bias"].item() == pytest.approx(2 * share, rel=1e-5)


def test_every_step_has_its_own_rate(tmp_path: Path) -> None:
    found = recorded(tmp_path, 6, schedule="linear", lr=0.8, warmup=2, steps=6)
    assert found.rates == pytest.approx([0.4, 0.8, 0.6, 0.4, 0.2, 0.0])


@pytest.mark.parametrize("options", [{}, {"clip": 0.05}], ids=["plain", "clipped"])
@pytest.mark.parametrize("packed", [False, True])
def test_accumulated_is_one_big_batch(tmp_path: Path, packed: bool, options: dict[str, float]) -> None:
    task = pair_task(tmp_path, packed=packed, label_smoothing=0.1, budget_tokens=600)
    parts, sums = gradients(task, UNEQUAL, tmp_path / "parts", **options)
    whole, sum_ = gradients(task, ([i for group in UNEQUAL for i in group],), tmp_path / "whole", **options)
    assert sums == pytest.approx(sum_, rel=1e-12)
    assert parts.keys() == whole.keys()
    assert max(float(g.abs().max()) for g in whole.values()) > 1e-3
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-9, atol=1e-10, msg=name)


def test_gradients_are_those_of_the_mean_over_tokens(tmp_path: Path) -> None:
    task = pair_task(tmp_path)
    found, _ = gradients(task, UNEQUAL, tmp_path / "run")
    model = model_for(task, dropout=0.0).double()
    losses = [task.loss(model, task.batch(torch.tensor(group).numpy(), epoch=0)) for group in UNEQUAL]  # type: ignore[arg-type]
    total = sum((loss.total for loss in losses), torch.tensor(0.0)) / sum(int(loss.n_tokens) for loss in losses)
    total.backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-9, atol=1e-10, msg=name)


CASES: dict[str, dict[str, Any]] = {
    "padded": {},
    "packed": {"packed": True},
    "muon and ema": {"train": {"optimizer": "muon", "ema": 0.9, "weight_decay": 0.01}},
    "average": {"train": {"average": 2, "clip": 0.5}},
    "recurrent": {"model": "recurrent"},
    "two passes, new cuts": {"task": {"r_drop": 0.5, "piece_dropout": 0.1, "label_smoothing": 0.1}},
    "packed new cuts": {"packed": True, "task": {"piece_dropout": 0.2}},
    "accumulated": {"train": {"accumulate": 3}},
}


def trainer_for(case: dict[str, Any], folder: Path, out: Path, *, steps: int) -> Trainer:
    task = pair_task(folder, packed=case.get("packed", False), **case.get("task", {}))
    settings = {"device": "cpu", "warmup": 2, "eval_every": 4, "save_every": 3, "log_every": 5, "lr": 0.01}
    config = TrainConfig(**settings | {"steps": steps} | case.get("train", {}))
    return Trainer(task, model_for(task, case.get("model", "transformer")), config, context_in(out))


def lines(trainer: Trainer) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in trainer.run.metrics.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in found]


@pytest.mark.parametrize("name", CASES)
def test_resumed_is_uninterrupted(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    whole = trainer_for(case, tmp_path / "a", tmp_path / "whole", steps=9)
    whole.fit()
    trainer_for(case, tmp_path / "b", tmp_path / "parts", steps=4).fit()
    resumed = trainer_for(case, tmp_path / "c", tmp_path / "parts", steps=9)
    assert resumed.restore()
    assert resumed.progress.step == 4
    resumed.fit()
    for key, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[key]), key
    states = [t.optimizer.state_tensors() for t in (whole, resumed)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    if whole.averager and resumed.averager:
        means = whole.averager.state_tensors(), resumed.averager.state_tensors()
        assert all(torch.equal(means[0][key], means[1][key]) for key in means[0] | means[1])
    assert lines(whole) == lines(resumed)
    assert (whole.progress.position, whole.progress.tokens) == (resumed.progress.position, resumed.progress.tokens)


def test_every_step_and_seed_and_process_draws_its_own_numbers(tmp_path: Path) -> None:
    draws = []
    for seed in (0, 1, 2, 20170612):
        task = Scripted([0.0] * 9)
        scripted_trainer(tmp_path / str(seed), task, steps=5, seed=seed).fit()
        draws += task.draws
    assert len(set(draws)) == 20
    streams = {_seed(seed, step, rank) & 0xFFFFFFFF for seed in range(8) for step in range(50) for rank in range(4)}
    assert len(streams) == 8 * 50 * 4  # the low bits alone tell them apart
    assert all(0 <= _seed(2**70, step, 0) < 2**63 for step in range(5))


def test_the_best_weights_are_kept_and_training_stops(tmp_path: Path) -> None:
    task = Scripted([1, 5, 3, 4, 2, 9, 9])
    trainer = scripted_trainer(tmp_path, task, patience=3, keep_best=2)
    progress = trainer.fit()
    assert (progress.step, progress.done, progress.since_best) == (10, True, 3)
    assert progress.best == {4: 5, 8: 4}
    assert trainer.run.steps() == [4, 8, 10]
    kept = read_tensors(trainer.run.weights)
    assert all(torch.equal(kept[name], task.evaluated[1][name]) for name in kept)
    assert not torch.equal(kept["weight"], trainer.model.state_dict()["weight"])
    best, _ = trainer.run.read(4, ["model"])
    assert torch.equal(best["model"]["weight"], kept["weight"])


def test_an_equal_score_is_not_a_better_one(tmp_path: Path) -> None:
    task = Scripted([2, 2, 2, 2])
    trainer = scripted_trainer(tmp_path, task, patience=2)
    assert trainer.fit().step == 6
    assert torch.equal(read_tensors(trainer.run.weights)["weight"], task.evaluated[0]["weight"])


def test_without_patience_nothing_stops_and_without_keep_best_only_the_last_two_stay(tmp_path: Path) -> None:
    trainer = scripted_trainer(tmp_path, Scripted(range(10, 0, -1)), keep_best=0)
    assert trainer.fit().step == 20
    assert trainer.run.steps() == [18, 20]  # the one before, for the case that the last is damaged


def test_what_is_evaluated_and_kept_is_the_average(tmp_path: Path) -> None:
    task = Scripted([1, 2, 3])
    trainer = scripted_trainer(tmp_path, task, steps=6, average=2, keep_best=9)
    trainer.fit()
    own = [trainer.run.read(step, ["model"])[0]["model"]["weight"] for step in (2, 4, 6)]
    torch.testing.assert_close(task.evaluated[0]["weight"], own[0])
    torch.testing.assert_close(task.evaluated[1]["weight"], (own[0] + own[1]) / 2)
    torch.testing.assert_close(task.evaluated[2]["weight"], (own[1] + own[2]) / 2)
    assert torch.equal(read_tensors(trainer.run.weights)["weight"], task.evaluated[2]["weight"])
    assert torch.equal(trainer.model.state_dict()["weight"], own[2])


def test_a_run_that_gave_up_goes_on_with_more_patience(tmp_path: Path) -> None:
    assert scripted_trainer(tmp_path, Scripted([3, 1, 1, 1]), patience=2).fit().step == 6
    again = scripted_trainer(tmp_path, Scripted(), patience=2)
    assert again.restore()
    assert again.fit().step == 6
    patient = scripted_trainer(tmp_path, Scripted([1, 1, 9, 1, 1, 1, 1]), patience=5)
    assert patient.restore()
    assert patient.fit().best == {12: 9}


def test_evaluation_may_begin_late(tmp_path: Path) -> None:
    task = Scripted([1] * 9)
    scripted_trainer(tmp_path, task, eval_from=11, steps=16).fit()
    assert len(task.evaluated) == 3


def test_a_loss_that_is_no_number_is_an_error_and_is_not_saved(tmp_path: Path) -> None:
    trainer = scripted_trainer(tmp_path, Scripted([1] * 9, spoil_at=6), log_every=100)
    with pytest.raises(EnvironmentProblem, match="the loss is nan at step 8") as problem:
        trainer.fit()
    assert problem.value.hint
    assert "train.lr" in problem.value.hint
    assert trainer.run.steps()[-1] == 6
    saved, _ = trainer.run.read(6, ["model"])
    assert torch.isfinite(saved["model"]["weight"]).all()


def test_a_stop_saves_once_and_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scripted_trainer(tmp_path / "whole", Scripted([1] * 9), eval_every=50)
    whole.fit()
    for stop_after in (7, 8):  # between two checkpoints, and at one
        trainer = scripted_trainer(tmp_path / str(stop_after), Scripted(), eval_every=50, save_every=8)
        save, saved = trainer.run.write_checkpoint, list[int]()

        def note(step: int, save: Any = save, saved: list[int] = saved, **files: Any) -> Path:
            saved.append(step)
            return save(step, **files)

        monkeypatch.setattr(trainer.run, "write_checkpoint", note)
        stopping = Event()
        step = trainer._step

        def stop(
            *args: Any, trainer: Trainer = trainer, step: Any = step, n: int = stop_after, at: Event = stopping
        ) -> None:
            step(*args)
            if trainer.progress.step == n:
                at.set()

        monkeypatch.setattr(trainer, "_step", stop)
        with pytest.raises(Interrupted, match=f"stopped after step {stop_after}") as wish:
            trainer._run(iter(trainer._batches()), stopping)
        assert wish.value.exit_code == 130
        assert saved == [stop_after]
        resumed = scripted_trainer(tmp_path / str(stop_after), Scripted(), eval_every=50)
        assert resumed.restore()
        resumed.fit()
        assert torch.equal(resumed.model.state_dict()["weight"], whole.model.state_dict()["weight"])


def test_signals_are_given_back_after_training(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    scripted_trainer(tmp_path, Scripted([1] * 9), steps=2).fit()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    trainer = scripted_trainer(tmp_path, Scripted([1] * 9), steps=2)
    trainer.fit()
    folder = trainer.run.checkpoints / "step-00000002"
    (folder / "state.json").write_text('{"step": 2}')
    record_hashes(folder, ["state.json"])
    with pytest.raises(CheckpointError, match=r"step-00000002: its state\.json is of another version"):
        scripted_trainer(tmp_path, Scripted()).restore()


def test_progress_goes_to_json_and_back() -> None:
    progress = Progress(7, Position(1, 3), 99, {4: 0.1, 6: 1 / 3}, 2, 1.5, True, [0.1, 0.2, 3.0, 4.0])
    assert Progress.of(json.loads(json.dumps(progress.facts()))) == progress


def test_batches_come_in_order_and_their_errors_too() -> None:
    def some() -> Iterator[tuple[Position, Numbers]]:
        for place in range(9):
            yield Position(0, place), Numbers(torch.zeros(1), torch.zeros(1))
        raise CheckpointError("no more")

    ahead = Prefetcher(some, pinned=False)
    assert [next(ahead)[0].batch for _ in range(9)] == list(range(9))
    with pytest.raises(CheckpointError, match="no more"):
        next(ahead)
    ahead.close()
    assert not ahead._thread.is_alive()


def test_a_full_queue_is_closed_without_waiting() -> None:
    def endless() -> Iterator[tuple[Position, Numbers]]:
        while True:
            yield Position(), Numbers(torch.zeros(1), torch.zeros(1))

    ahead = Prefetcher(endless, pinned=False)
    next(ahead)
    ahead.close()
    assert not ahead._thread.is_alive()


def test_reports_are_means_over_all_tokens_since_the_last(tmp_path: Path) -> None:
    task = Scripted([1] * 9)
    trainer = scripted_trainer(tmp_path, task, steps=10, lr=1e-30, eval_every=3, log_every=5)
    sums, counts = [0.0, 0.0], [0, 0]
    with torch.no_grad():
        for number, (_, batch) in zip(range(10), task.batches(Position()), strict=False):
            sums[number // 5] += float(task.loss(trainer.model, batch).total)
            counts[number // 5] += batch.n_tokens
    trainer.fit()
    told = [line["loss"] for line in lines(trainer) if "loss" in line]
    assert told == pytest.approx([total / count for total, count in zip(sums, counts, strict=True)], rel=1e-6)
    assert math.isfinite(sum(told))
