"""Labelling as something to train: one loss however it is batched, figures on validation data, and it learns."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import Rows
from regard.data.batching.plan import Position
from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example
from regard.errors import ConfigError
from regard.fast.cpu.packed_linear import pack_linears
from regard.tasks.labels.labeller import Labeller
from regard.tasks.labels.metrics import label_metrics
from regard.tasks.labels.training import LabelBatch, LabelTraining
from regard.tasks.templates import TextTemplate
from tiny_labels import classes, make_model, make_task, tokenizer

SOME = np.array([3, 17, 4, 30, 21])
CASES = [
    ("bert", "pairs", {}),
    ("bert", "classes", {"label_smoothing": 0.2}),
    ("bert", "numbers", {}),
    ("gpt", "pairs", {"lm_weight": 0.5, "closing": True}),
    ("gpt", "numbers", {"lm_weight": 2.0, "closing": True}),
    ("bert", "pairs", {"r_drop": 1.0}),
    ("gpt", "classes", {"lm_weight": 0.5, "closing": True, "r_drop": 1.0}),
]


def gradients(task: LabelTraining, backbone: str, *batches: LabelBatch) -> tuple[float, dict[str, Tensor]]:
    """Of several batches, as the trainer accumulates them: divided by all of their examples."""
    model = make_model(task, backbone).double()
    n, total = sum(batch.n_tokens for batch in batches), 0.0
    for batch in batches:
        losses = task.loss(model, batch)
        assert int(losses.n_tokens) == batch.n_tokens
        (losses.total / n).backward()  # type: ignore[no-untyped-call]
        total += losses.total.item() / n
    return total, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def equal(one: tuple[float, dict[str, Tensor]], other: tuple[float, dict[str, Tensor]]) -> None:
    assert one[0] == pytest.approx(other[0], rel=1e-10)
    assert one[1].keys() == other[1].keys()
    for name, gradient in one[1].items():
        torch.testing.assert_close(gradient, other[1][name], rtol=1e-7, atol=1e-9, msg=name)


@pytest.mark.parametrize(("backbone", "kind", "options"), CASES)
def test_accumulated_packed_and_shared_are_one_big_batch(backbone: str, kind: str, options: dict[str, Any]) -> None:
    padded, packed = make_task(kind, **options), make_task(kind, packed=True, **options)
    whole = gradients(padded, backbone, padded.batch(SOME))
    equal(whole, gradients(padded, backbone, padded.batch(SOME[:1]), padded.batch(SOME[1:])))
    equal(whole, gradients(packed, backbone, packed.batch(SOME)))
    equal(whole, gradients(packed, backbone, packed.batch(SOME[:3]), packed.batch(SOME[3:])))


@pytest.mark.parametrize(("backbone", "kind", "options"), CASES)
def test_to_be_recorded_batches_have_few_lengths_and_lose_the_same(
    backbone: str, kind: str, options: dict[str, Any]
) -> None:
    task = make_task(kind, batch_examples=5, **options)
    before = task.batch(SOME)
    assert task.record()
    after = task.batch(SOME)
    assert before.ids.shape[1] < after.ids.shape[1] == after.segments.shape[1] <= task.template.max_tokens
    assert len({batch.ids.shape for _, batch in islice(task.batches(Position()), 20)}) <= 4
    equal(gradients(task, backbone, before), gradients(task, backbone, after))


def test_batches_of_any_number_are_not_recorded_and_rows_stay_within_the_model() -> None:
    assert not make_task("classes").record()
    task = make_task("classes", batch_examples=5, max_tokens=11)
    task.record()
    assert {batch.ids.shape[1] for _, batch in islice(task.batches(Position()), 20)} <= {11}


@pytest.mark.parametrize(("backbone", "kind", "options"), CASES)
def test_the_loss_is_what_it_says_text_by_text(backbone: str, kind: str, options: dict[str, Any]) -> None:
    task = make_task(kind, **options)
    model = make_model(task, backbone).double()
    smoothing, weight = options.get("label_smoothing", 0.0), options.get("lm_weight", 0.0)
    mean_length = float((task.rows.lengths - 1).mean())
    expected, plain = 0.0, 0.0
    for i in SOME.tolist():
        ids = torch.from_numpy(task.rows.ids(i).astype(np.int64))[None]
        scores = model(Rows(ids), segments=torch.from_numpy(task.rows.segments(i).astype(np.int64))[None])
        if kind == "numbers":
            own = smoothed = (scores[0, 0] - torch.tensor(task.targets[i])).square()
        else:
            target = torch.tensor([task.targets[i]])
            own = F.cross_entropy(scores, target)
            smoothed = F.cross_entropy(scores, target, label_smoothing=smoothing)
        expected, plain = expected + smoothed.item(), plain + own.item()
        if weight:
            words = model.backbone(ids)[0, :-1]
            expected += weight / mean_length * F.cross_entropy(words, ids[0, 1:], reduction="sum").item()
    losses = task.loss(model, task.batch(SOME))
    assert losses.total.item() == pytest.approx(expected, rel=1e-10)
    assert float(losses.nll) == pytest.approx(plain, rel=1e-10)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_two_readings_have_to_be_right_and_to_agree(kind: str, packed: bool) -> None:
    plain, twice = (make_task(kind, packed=packed, r_drop=r_drop) for r_drop in (0.0, 2.0))
    model = make_model(twice, dropout=0.5).double()
    batch = twice.batch(SOME)
    calm = plain.loss(model.eval(), batch), twice.loss(model, batch)
    assert calm[1].total.item() == pytest.approx(calm[0].total.item(), rel=1e-12)
    seen: list[Tensor] = []
    hook = model.output.register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    losses = twice.loss(model.train(), batch)
    hook.remove()
    first, second = (half[batch.real] for half in seen[0].chunk(2))
    targets = batch.targets[batch.real]
    assert not torch.equal(first, second)
    if kind == "numbers":
        own, apart = (
            [(half[:, 0] - targets).square().sum() for half in (first, second)],
            (first - second).square().sum(),
        )
    else:
        own = [F.cross_entropy(half, targets, reduction="sum") for half in (first, second)]
        p, q = first.softmax(1), second.softmax(1)
        apart = ((p - q) * (p / q).log()).sum() / 2
    assert losses.total.item() == pytest.approx(float(sum(own) / 2 + 2.0 * apart), rel=1e-9)
    assert float(losses.nll) == pytest.approx(float(sum(own) / 2), rel=1e-9)


def test_batches_of_so_many_examples_are_drawn_at_random() -> None:
    task = make_task("classes", n=37, batch_examples=8)
    epoch = task.plan.epoch(0)
    assert sorted(len(batch) for batch in epoch) == [5, 8, 8, 8, 8]
    assert sorted(np.concatenate(epoch).tolist()) == list(range(37))
    like = make_task("classes", n=37).plan.epoch(0)
    spread = [[float(np.ptp(task.rows.lengths[batch])) for batch in batches] for batches in (epoch, like)]
    assert np.mean(spread[0]) > 2 * np.mean(spread[1])
    widths = {batch.ids.shape[1] == int(batch.lengths.max()) for _, batch in islice(task.batches(Position()), 5)}
    assert widths == {True}


@pytest.mark.parametrize("packed", [False, True])
def test_shares_together_are_the_batch_and_batches_resume(packed: bool) -> None:
    task = make_task("classes", n=37, packed=packed)
    whole = list(islice(task.batches(Position()), 12))
    seen = sum(batch.n_tokens for _, batch in islice(task.batches(Position()), len(task.plan.epoch(0))))
    assert seen == 37
    for rank in range(3):
        for (after, batch), (other, share) in zip(whole, task.batches(Position(), rank=rank, world=3), strict=False):
            assert after == other
            assert share.n_tokens == len(range(rank, batch.n_tokens, 3))
            assert share.targets[share.real].tolist() == batch.targets[batch.real][rank::3].tolist()
    again = list(islice(task.batches(whole[4][0]), 7))
    for (after, batch), (other, same) in zip(whole[5:], again, strict=True):
        assert after == other
        assert torch.equal(batch.ids, same.ids)


def test_packed_batches_have_one_shape_even_without_examples() -> None:
    task = make_task("classes", packed=True)
    assert task.static_shapes
    shapes = {tuple(batch.ids.shape) + tuple(batch.targets.shape) for _, batch in islice(task.batches(Position()), 9)}
    empty = task.batch(SOME[:0])
    assert shapes == {(*empty.ids.shape, *empty.targets.shape)}
    assert int(empty.real.sum()) == empty.n_tokens == 0


def test_moving_a_batch_moves_all_of_it() -> None:
    batch = make_task("pairs", lm_weight=1.0).batch(SOME)
    moved = batch.to(torch.device("meta"))
    assert {tensor.device.type for tensor in vars(moved).values() if isinstance(tensor, Tensor)} == {"meta"}
    assert moved.following is not None


def fit(task: LabelTraining, backbone: str, *, steps: int, lr: float, **options: Any) -> dict[str, float]:
    model = make_model(task, backbone, **options).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _, batch in islice(task.batches(Position()), steps):
        losses = task.loss(model, batch)
        (losses.total / batch.n_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    return task.evaluate(model.eval())


@pytest.mark.parametrize("backbone", ["bert", "gpt", "recurrent-encoder"])
def test_it_learns_to_tell_texts_apart(backbone: str) -> None:
    task = make_task("classes", n=300, closing=backbone == "gpt", lm_weight=0.2 if backbone == "gpt" else 0.0,
                     packed=backbone == "bert", budget_tokens=300)  # fmt: skip
    found = fit(task, backbone, steps=90, lr=1e-2)
    assert set(found) == {"valid_loss", "accuracy", "f1", "macro_f1", "matthews"}
    assert found["accuracy"] > 0.95
    assert task.objective == "accuracy"


def test_it_learns_numbers() -> None:
    task = make_task("numbers", n=300, budget_tokens=300)
    found = fit(task, "recurrent-encoder", steps=200, lr=2e-2, pooling="last")
    assert set(found) == {"valid_loss", "pearson", "spearman", "rmse"}
    assert found["pearson"] > 0.95
    assert found["rmse"] < 60
    assert task.objective == "pearson"


def test_evaluation_is_what_the_labeller_says() -> None:
    task = make_task("pairs")
    model = make_model(task).eval()
    texts = [(example.text, example.pair or "") for example in task.valid]
    labeller = Labeller(model, task.template, task.space, batch_tokens=64)
    said = labeller(texts)
    found = task.evaluate(model)
    right = np.mean([one.label == example.label for one, example in zip(said, task.valid, strict=True)])
    assert found["accuracy"] == pytest.approx(float(right))
    nll = -np.mean([np.log(one.probabilities[e.label]) for one, e in zip(said, task.valid, strict=True)])
    assert found["valid_loss"] == pytest.approx(float(nll), rel=1e-5)
    alone = labeller([texts[5]])[0]
    assert alone.probability == pytest.approx(said[5].probability, rel=1e-5)
    outputs = labeller.outputs(task.valid_rows)
    measured = label_metrics(task.space, outputs, task.valid, resamples=50)
    assert {name: metric.value for name, metric in measured.items()} == pytest.approx(
        {name: value for name, value in found.items() if name != "valid_loss"}
    )


@pytest.mark.parametrize("pooling", ["first", "mean", "attention"])
def test_packed_models_read_texts_end_to_end(pooling: str) -> None:
    task = make_task("pairs")
    model = make_model(task, "bert", pooling=pooling, transform="none").eval()
    expected, found = (
        Labeller(one, task.template, task.space).outputs(task.valid_rows) for one in (model, pack_linears(model))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_labelling_names_all_labels() -> None:
    task = make_task("classes")
    said = Labeller(make_model(task), task.template, task.space)(["", "a dog 🐕", "dog " * 10_000])
    for one in said:
        assert sorted(one.probabilities) == ["dog", "none"]
        assert sum(one.probabilities.values()) == pytest.approx(1)
        assert one.probability == max(one.probabilities.values()) == one.probabilities[one.label]
        assert next(iter(one.probabilities)) == one.label == one.plain()
        assert one.record() == {"label": one.label, "probability": one.probability, "probabilities": one.probabilities}
    assert Labeller(make_model(task), task.template, task.space)([]) == []


def test_a_number_comes_back_in_its_unit() -> None:
    task = make_task("numbers")
    said = Labeller(make_model(task), task.template, task.space)(["red dog"])[0]
    assert said.value == pytest.approx(task.space.mean, abs=task.space.scale)
    assert said.record() == {"value": said.value}
    assert said.plain() == f"{said.value:.4g}"


def test_samples_show_text_label_and_guess() -> None:
    task = make_task("pairs")
    samples = task.samples(make_model(task).eval(), 3)
    assert [sample[0] for sample in samples] == [f"{e.text} ⏎ {e.pair}" for e in task.valid[:3]]
    assert [sample[1] for sample in samples] == [e.label for e in task.valid[:3]]
    assert {sample[2] for sample in samples} <= {"same", "other"}


def test_objectives_are_figures_that_rise() -> None:
    assert make_task("classes", objective="matthews").objective == "matthews"
    with pytest.raises(ConfigError, match=r"data.objective is 'rmse'; allowed: pearson, spearman"):
        make_task("numbers", objective="rmse")
    with pytest.raises(ConfigError, match=r"data.objective is 'bleu'; allowed: accuracy, matthews, macro_f1, f1"):
        make_task("classes", objective="bleu")


def test_three_classes_have_no_positive_one() -> None:
    train = [*classes(20), Example("bird", None, "bird", 0)]
    task = LabelTraining(TextTemplate(tokenizer()), LabelSpace.of(train), train, train, budget_tokens=200, seed=1)
    assert set(task.evaluate(make_model(task))) == {"valid_loss", "accuracy", "macro_f1", "matthews"}
