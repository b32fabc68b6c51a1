"""A batch in one piece or in several: the same loss and gradients, with every random draw on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.checkpoints.run import RunFolder
from regard.config.training import TrainConfig
from regard.data.batching.plan import Position
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.registry import resolve, task_spec
from regard.training.draws import draws_of
from regard.training.progress import Progress
from regard.training.setup import RunContext
from tiny_captions import captions
from tiny_images import images
from tiny_series import series
from tiny_speech import speech
from tiny_tasks import answers, labels, language, masked

CPU = torch.device("cpu")
DROPPED = ["model.dropout=0.2", "model.attention_dropout=0.2"]
BERT = "n_layers = 1, d_model = 32, n_heads = 2, d_feedforward = 64, dropout = 0.2, attention_dropout = 0.2"
READ_TWICE = [f'model.backbone={{ name = "bert", {BERT} }}', "model.dropout=0.2", "train.r_drop=0.5"]
TRANSLATION = [
    "translation", "data.synthetic=dates", "data.n_train=60", "data.n_valid=4", "data.n_test=4", "tokenizer.size=300",
    "tokenizer.dropout=0.1", "model.name=transformer", "model.d_model=16", "model.n_heads=2", "model.d_feedforward=32",
    "model.n_encoder_layers=1", "model.n_decoder_layers=1", *DROPPED, "train.batch_tokens=150", "train.plan=off",
    "train.device=cpu",
]  # fmt: skip
RECURRENT = [
    "translation", "data.synthetic=dates", "data.n_train=60", "data.n_valid=4", "data.n_test=4", "tokenizer.size=300",
    "model.name=recurrent", "model.d_embedding=12", "model.d_hidden=12", "model.n_layers=2", "model.dropout=0.2",
    "train.batch_tokens=150", "train.plan=off", "train.device=cpu",
]  # fmt: skip
MIXED = ["train.mixup=0.3", "train.cutmix=1.0", "train.erase=0.5", "train.operations=2", "train.crop=0.2"]
NOISY = ["train.noise=0.7", "train.speed=0.1", "train.warp=0.1", "train.time_masks=1", "model.dropout=0.2"]
KINDS: dict[str, tuple[Callable[[Path], list[str]], list[str]]] = {
    "padded": (lambda _: TRANSLATION, ["train.layout=padded", "train.r_drop=0.5"]),
    "packed": (lambda _: TRANSLATION, ["train.layout=packed", "train.r_drop=0.5"]),
    "recurrent": (lambda _: RECURRENT, ["train.r_drop=0.5"]),
    "language": (language, DROPPED),
    "masked": (masked, DROPPED),
    "masked packed": (masked, [*DROPPED, "train.layout=packed"]),
    "labels": (labels, [*READ_TWICE, "train.layout=padded"]),
    "labels packed": (
        labels,
        [*READ_TWICE, "train.layout=packed"],
    ),
    "answers": (answers, READ_TWICE),
    "images": (images, [*MIXED, *DROPPED, "model.stochastic_depth=0.3"]),
    "captions": (captions, ["model.dropout=0.2", "model.norm=group"]),
    "speech": (speech, NOISY),
    "las": (lambda folder: speech(folder, "las"), [*NOISY, "model.n_speller_layers=2"]),
    "series": (series, ["model.dropout=0.2", "model.norm=layer"]),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """A task with a model for it in double precision."""
    arguments, more = KINDS[request.param]
    name, *given = arguments(tmp_path)
    recipe = make_recipe(find_recipe(name), [*given, *more])
    setup = resolve(task_spec(recipe.task).setup)(recipe, RunContext(RunFolder(tmp_path / "run")))
    setup.task.draw_by_example()
    return setup.task, setup.model.double().train()


def sums(task: Any, model: Any, *, world: int) -> tuple[float, dict[str, Tensor]]:
    """The loss of the first batch and its gradients, by so many processes."""
    config, loss = TrainConfig(seed=3, same_draws=True), 0.0
    model.zero_grad()
    for rank in range(world):
        _, batch = next(task.batches(Position(), rank=rank, world=world))
        if batch.n_tokens:
            with draws_of(batch, config, CPU):
                total = task.loss(model, batch).total
                total.backward()
            loss += float(total.detach())
    return loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def seen(task: Any, *, world: int, begin: Position = Position(), n: int = 7) -> Progress:  # noqa: B008 - frozen
    """What is learnt from in so many batches, by so many processes."""
    progress = Progress()
    for rank in range(world):
        for after, batch in islice(task.batches(begin, rank=rank, world=world), n):
            progress.saw([batch])
            progress.position = after
    return progress


def test_shares_add_up_to_the_whole(kind: tuple[Any, Any]) -> None:
    """For as many processes as there are examples at most, or more: some then have nothing."""
    task, model = kind
    loss, gradients = sums(task, model, world=1)
    assert loss == sums(task, model, world=1)[0]
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for world in (2, 3, 4, 40):
        other, shared = sums(task, model, world=world)
        assert other == pytest.approx(loss, rel=1e-9), world
        for name, gradient in gradients.items():
            assert float((shared[name] - gradient).abs().max()) < 1e-9 * largest, (world, name)


def test_the_digest_says_what_was_learnt_from_in_which_order(kind: tuple[Any, Any]) -> None:
    task, _ = kind
    whole = seen(task, world=1)
    assert all(seen(task, world=world).examples == whole.examples for world in (2, 3, 4))
    half = seen(task, world=2, n=3)
    rest = seen(task, world=3, begin=half.position, n=4)
    assert (half.examples + rest.examples) % 2**64 == whole.examples
    assert seen(task, world=1, begin=half.position).examples != whole.examples


def test_digests_of_all_processes_are_exact() -> None:
    parts = [Progress(examples=number) for number in (2**64 - 1, 2**63 + 12345678901, 7)]
    halves = [sum(divmod(part.examples, 2**32)[side] for part in parts) for side in (0, 1)]
    totals = iter(map(float, halves))
    assert parts[0].examples_of_all(lambda _: next(totals)) == sum(part.examples for part in parts) % 2**64
