"""BERT's two objectives: the loss worked by hand, batches that add up, and a toy language that is learnt."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tokenizers import processors
from torch import Tensor

from regard.attention import Rows
from regard.checkpoints.run import RunFolder
from regard.config.training import TrainConfig
from regard.data.batching.plan import Position
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.errors import ConfigError, DataError
from regard.models.bert import Bert
from regard.tasks.masked.batches import FOLLOWS, RANDOM, MaskedBatch
from regard.tasks.masked.config import MaskedData
from regard.tasks.masked.masking import UNUSED
from regard.tasks.masked.sentence_pairs import Examples
from regard.tasks.masked.training import MaskedTraining
from regard.training.setup import RunContext
from regard.training.trainer import Trainer
from tiny_masked import make_model, make_task, toy_corpus, toy_tokenizer


def first_examples(task: MaskedTraining) -> Examples:
    return next(task.plan.epoch(0))


def gradients(task: MaskedTraining, model: Bert, batches: list[MaskedBatch]) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients of some batches, divided by the tokens of all, as the trainer does it."""
    model.zero_grad()
    n, total = sum(batch.n_tokens for batch in batches), 0.0
    for batch in batches:
        if batch.n_tokens:
            loss = task.loss(model, batch).total / n
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
    return total, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def examples_in(batch: MaskedBatch) -> list[tuple[list[int], list[int], int, dict[int, int]]]:
    """Ids, segments, next-sentence label and what is asked where, for every example of a batch."""
    flat, found = batch.ids.flatten(), []
    asked = {int(p): int(w) for p, w in zip(batch.places, batch.labels, strict=True) if int(w) != UNUSED}
    width = batch.ids.shape[1]
    starts = [i * width for i in range(len(batch.ids))]
    if batch.longest is not None:
        starts = (batch.lengths.cumsum(0) - batch.lengths).tolist()
    for start, length, label in zip(starts, batch.lengths.tolist(), batch.nexts.tolist(), strict=True):
        if label != UNUSED:
            here = {p - start: w for p, w in asked.items() if start <= p < start + length}
            piece = slice(start, start + length)
            found.append((flat[piece].tolist(), batch.segments.flatten()[piece].tolist(), label, here))
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_the_loss_is_cross_entropy_example_by_example(tmp_path: Path, packed: bool) -> None:
    task = make_task(tmp_path, packed=packed)
    model = make_model(task.tokenizer)
    batch = task.batch(first_examples(task), epoch=0)
    guesses, judgements, n = 0.0, 0.0, 0
    for ids, segments, label, asked in examples_in(batch):
        encoded = model.encode(Rows(torch.tensor([ids])), segments=torch.tensor([segments]))
        logits = model.unembed(model.mlm_hidden(encoded))[0]
        for place, piece in asked.items():
            guesses += F.cross_entropy(logits[place], torch.tensor(piece)).item()
        judgements += F.cross_entropy(model.next_sentence(encoded), torch.tensor([label])).item()
        n += len(asked)
    losses = task.loss(model, batch)
    assert int(losses.n_tokens) == batch.n_tokens == n
    assert float(losses.nll) == pytest.approx(guesses, rel=1e-9)
    assert losses.total.item() == pytest.approx(guesses + task.nsp_weight * judgements, rel=1e-9)
    means = guesses / n + judgements / len(examples_in(batch))
    assert losses.total.item() / n == pytest.approx(means, rel=0.2)  # w is the usual, not this batch's number


@pytest.mark.parametrize("packed", [False, True])
def test_examples_are_framed_and_hidden(tmp_path: Path, packed: bool) -> None:
    task = make_task(tmp_path, packed=packed)
    tokenizer, corpus = task.tokenizer, task.plan.corpus
    shapes, kinds = set(), []
    for examples in task.plan.epoch(0):
        batch = task.batch(examples, epoch=0)
        shapes.add((batch.ids.shape, batch.lengths.shape, batch.places.shape, batch.nexts.shape))
        found = examples_in(batch)
        assert len(found) == len(examples)
        for i, (ids, segments, label, asked) in enumerate(found):
            whole = [asked.get(place, index) for place, index in enumerate(ids)]
            a, b = int(examples.a_starts[i]), int(examples.b_starts[i])
            first = corpus.ids[a : a + examples.a_lengths[i]].tolist()
            second = corpus.ids[b : b + examples.b_lengths[i]].tolist()
            assert whole == [2, *first, 3, *second, 3]
            assert segments == [0] * (len(first) + 2) + [1] * (len(second) + 1)
            assert label == (FOLLOWS if examples.follows[i] else RANDOM)
            assert len(asked) == max(1, int((len(ids) - 3) * 0.15 + 0.5))
            kinds += [ids[place] == tokenizer.mask_id for place in asked]
        assert int(batch.lengths.sum()) == batch.ids.numel() or not packed
    assert len(shapes) == 1  # static
    assert np.mean(kinds) == pytest.approx(0.8, abs=0.12)


@pytest.mark.parametrize("packed", [False, True])
def test_accumulated_and_shared_is_one_big_batch(tmp_path: Path, packed: bool) -> None:
    task = make_task(tmp_path, packed=packed)
    big = make_task(tmp_path, packed=packed, budget_tokens=400)
    assert big.nsp_weight == task.nsp_weight
    model = make_model(task.tokenizer)
    examples = Examples.joined(list(islice(task.plan.epoch(0), 3)))
    whole = gradients(big, model, [big.batch(examples, epoch=0)])
    counts = [len(some) for some in islice(task.plan.epoch(0), 3)]
    parts = np.split(np.arange(len(examples)), np.cumsum(counts)[:-1])
    accumulated = gradients(task, model, [task.batch(examples[part], epoch=0) for part in parts])
    shared = [big.batch(examples[rank::5], epoch=0, world=5) for rank in range(5)]
    for loss, grads in (accumulated, gradients(big, model, shared)):
        assert loss == pytest.approx(whole[0], rel=1e-10)
        assert grads.keys() == whole[1].keys() == dict(model.named_parameters()).keys()
        for name, gradient in grads.items():
            torch.testing.assert_close(gradient, whole[1][name], rtol=1e-7, atol=1e-10, msg=name)


@pytest.mark.parametrize("packed", [False, True])
def test_shares_together_are_the_batch(tmp_path: Path, packed: bool) -> None:
    task = make_task(tmp_path, n=7, packed=packed)
    n = len(list(task.plan.epoch(0))) + 3
    whole = list(islice(task.batches(Position()), n))
    shares = [list(islice(task.batches(Position(), rank=rank, world=4), n)) for rank in range(4)]
    empty = 0
    for (after, batch), *parts in zip(whole, *shares, strict=True):
        assert {position for position, _ in parts} == {after}
        assert sum(part.n_tokens for _, part in parts) == batch.n_tokens
        together = [example for _, part in parts for example in examples_in(part)]
        assert sorted(map(repr, together)) == sorted(map(repr, examples_in(batch)))
        empty += sum(part.n_tokens == 0 for _, part in parts)
        assert len({part.ids.shape for _, part in parts}) == 1
    assert empty  # the last batch of an epoch is too small for all


def test_packed_is_padded(tmp_path: Path) -> None:
    padded, packed = (make_task(tmp_path, packed=packed) for packed in (False, True))
    examples = first_examples(padded)
    model = make_model(padded.tokenizer)
    found = [gradients(task, model, [task.batch(examples, epoch=0)]) for task in (padded, packed)]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-10)
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(gradient, found[1][1][name], rtol=1e-7, atol=1e-10, msg=name)


@pytest.mark.parametrize("packed", [False, True])
def test_batches_go_on_where_they_stopped(tmp_path: Path, packed: bool) -> None:
    whole = list(islice(make_task(tmp_path, packed=packed).batches(Position()), 60))
    assert whole[-1][0].epoch >= 1
    for start in (1, 20, 50):
        again = islice(make_task(tmp_path, packed=packed).batches(whole[start - 1][0]), 9)
        for (after, batch), (other, same) in zip(whole[start:], again, strict=False):
            assert after == other
            assert batch.examples.digest() == same.examples.digest()
            for name, value in vars(batch).items():
                if isinstance(value, Tensor):
                    assert torch.equal(value, vars(same)[name])
                elif name != "examples":
                    assert value == vars(same)[name]


def test_each_epoch_hides_anew(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    examples = first_examples(task)
    first, again, second = (task.batch(examples, epoch=epoch) for epoch in (0, 0, 1))
    assert torch.equal(first.places, again.places)
    assert not torch.equal(first.places, second.places)
    per_epoch = len(list(task.plan.epoch(0)))
    walk = list(islice(task.batches(Position()), per_epoch + 1))
    expected = task.batch(next(task.plan.epoch(1)), epoch=1)
    assert torch.equal(walk[-1][1].ids, expected.ids)


@pytest.mark.parametrize("packed", [False, True])
def test_without_next_sentences(tmp_path: Path, packed: bool) -> None:
    task = make_task(tmp_path, next_sentence=False, packed=packed)
    model = make_model(task.tokenizer, pooler=False, nsp=False, n_segments=0)
    batch = task.batch(first_examples(task), epoch=0)
    losses = task.loss(model, batch)
    assert losses.total.item() == float(losses.nll)
    assert all(ids[-1] == 3 and ids.count(3) == 1 for ids, *_ in examples_in(batch))
    assert task.evaluate(model).keys() == {"mlm_loss", "mlm_accuracy"}


def test_an_evaluation_is_that_of_each_example(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    model = make_model(task.tokenizer)
    figures = task.evaluate(model)
    guesses, right, judgements, judged, n, pairs = 0.0, 0, 0.0, 0, 0, 0
    for batch in task.valid.batches():
        for ids, segments, label, asked in examples_in(batch):
            encoded = model.encode(torch.tensor([ids]), segments=torch.tensor([segments]))
            logits, verdict = model.unembed(model.mlm_hidden(encoded))[0], model.next_sentence(encoded)
            for place, piece in asked.items():
                guesses += F.cross_entropy(logits[place], torch.tensor(piece)).item()
                right += int(logits[place].argmax()) == piece
            judgements += F.cross_entropy(verdict, torch.tensor([label])).item()
            judged += int(verdict.argmax()) == label
            n, pairs = n + len(asked), pairs + 1
    expected = {
        "mlm_loss": guesses / n,
        "mlm_accuracy": right / n,
        "nsp_loss": judgements / pairs,
        "nsp_accuracy": judged / pairs,
    }
    assert figures == pytest.approx(expected, rel=1e-5)
    assert task.objective in figures
    assert task.evaluate(model) == figures
    other = make_task(tmp_path, seed=9, packed=True).evaluate(model)  # how it was trained changes nothing
    assert other == figures


def test_samples_show_what_was_hidden(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    model = make_model(task.tokenizer)
    samples = task.samples(model, 2)
    assert len(samples) == 2
    for hidden, whole, filled in samples:
        parts = [part.strip() for part in hidden.split("<mask>")]
        assert len(parts) > 1
        assert len(whole.split()) == len(hidden.split()) >= len(filled.split())
        assert all(part in whole for part in parts)
    assert task.samples(model, 0) == []


def test_what_cannot_be_trained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a batch has 19 tokens, one example 20"):
        make_task(tmp_path, budget_tokens=19)
    tokenizer = toy_tokenizer()
    one = toy_corpus(tmp_path / "one", tokenizer, n=1)
    some = toy_corpus(tmp_path / "some", tokenizer, n=4)
    for train, valid in ((one, some), (some, one)):
        with pytest.raises(DataError, match="one: one document only"):
            MaskedTraining(tokenizer, train, valid, data=MaskedData(length=32), budget_tokens=64, seed=0)


def test_it_compiles_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(tmp_path)
    model, batch = make_model(task.tokenizer, n_layers=1), task.batch(first_examples(task), epoch=0)
    plain = gradients(task, model, [batch])
    compiled = torch.compile

    def eagerly(function: Any, **options: Any) -> Any:
        assert options == {"dynamic": False}
        return compiled(function, backend="aot_eager", fullgraph=True, dynamic=False)

    monkeypatch.setattr(torch, "compile", eagerly)
    task.compile()
    again = gradients(task, model, [batch])
    assert again[0] == pytest.approx(plain[0], rel=1e-10)
    for name, gradient in plain[1].items():
        torch.testing.assert_close(again[1][name], gradient, rtol=1e-7, atol=1e-10, msg=name)


def test_a_toy_language_is_learnt(tmp_path: Path) -> None:
    """Who it is about stands everywhere, and what comes next is certain."""
    task = make_task(tmp_path, budget_tokens=512)
    model = make_model(task.tokenizer, spread=1.0, d_model=32, n_heads=4, n_layers=1).float()
    with torch.no_grad():
        model.output_bias.zero_()
    before, steps = task.evaluate(model), 250
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=5e-3, betas=(0.9, 0.98))
    for step, (_, batch) in enumerate(islice(task.batches(Position()), steps)):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min((step + 1) / 30, (steps - step) / (steps - 30))
        optimizer.zero_grad()
        (task.loss(model, batch).total / batch.n_tokens).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    after = task.evaluate(model.eval())
    assert before["mlm_accuracy"] < 0.2
    assert after["mlm_accuracy"] > 0.65, after  # always the commonest word: 0.25
    assert after["nsp_accuracy"] > 0.9, after  # always the same answer: 0.5


def test_a_run_that_was_stopped_is_the_run(tmp_path: Path) -> None:
    """The trainer accumulates two batches a step; where it goes on after step 3 nothing differs, to the last bit."""
    weights = []
    for stops in ((8,), (3, 8)):
        run = RunFolder(tmp_path / f"run-{len(stops)}")
        for steps in stops:
            task = make_task(tmp_path)
            model = make_model(task.tokenizer, dropout=0.1).float()
            config = TrainConfig(
                steps=steps, accumulate=2, eval_every=3, save_every=3, schedule="constant", warmup=0, device="cpu"
            )
            trainer = Trainer(task, model, config, RunContext(run))
            assert trainer.restore() == (steps != stops[0])
            trainer.fit()
        weights.append(model.state_dict())
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


def test_frames_of_others(tmp_path: Path) -> None:
    """Batches are framed as their tokenizer says, here with two marks between the texts and one segment."""
    core = toy_tokenizer().core
    core.post_processor = processors.RobertaProcessing(("</s>", 3), ("<s>", 2))
    tokenizer = Tokenizer.foreign(core, special_tokens=SpecialTokens.ours(mask=True))
    corpus = toy_corpus(tmp_path / "c", tokenizer)
    for pairs in (True, False):
        data = MaskedData(length=20, next_sentence=pairs)
        task = MaskedTraining(tokenizer, corpus, corpus, data=data, budget_tokens=100, seed=0)
        batch, examples = task.batch(first_examples(task), epoch=0), first_examples(task)
        for i, (ids, segments, _, asked) in enumerate(examples_in(batch)):
            a, b = int(examples.a_starts[i]), int(examples.b_starts[i])
            first, second = corpus.ids[a : a + examples.a_lengths[i]], corpus.ids[b : b + examples.b_lengths[i]]
            framed = tokenizer.frame(first.tolist(), second.tolist() if pairs else None)
            assert framed.ids.count(3) == (3 if pairs else 1)
            assert [asked.get(place, index) for place, index in enumerate(ids)] == framed.ids
            assert segments == framed.segments
