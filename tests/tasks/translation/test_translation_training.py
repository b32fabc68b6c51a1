"""Translation as something to train: right marks, one loss for padded and packed, fair shares, cuts that repeat."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention import Rows
from regard.data.batching.plan import Position
from regard.data.batching.ragged import Ragged
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.translation.batches import PairBatch, batch_of
from regard.tasks.translation.bpe_dropout_corpus import BpeDropoutCorpus, fitting
from regard.tasks.translation.training import PairTraining, pair_loss
from tiny_pairs import make_model, make_task

SOME = np.array([3, 17, 4, 40, 21])


def split(row: Tensor, lengths: Tensor) -> list[list[int]]:
    return [part.tolist() for part in row.split(lengths.tolist())]


def rows_in(batch: PairBatch) -> list[tuple[list[int], list[int], list[int]]]:
    """Source, fed and said ids of every example, padded or packed."""
    if batch.longest is not None:
        parts = [split(batch.source, batch.source_lengths), split(batch.target, batch.target_lengths)]
        parts.append(split(batch.labels, batch.target_lengths))
        return [row for row in zip(*parts, strict=True) if row[1] and row[1][0] != 0]
    lengths = zip(batch.source_lengths.tolist(), batch.target_lengths.tolist(), strict=True)
    return [
        (batch.source[i, :s].tolist(), batch.target[i, :t].tolist(), batch.labels[i, :t].tolist())
        for i, (s, t) in enumerate(lengths)
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_marks_stand_where_they_belong(tmp_path: Path, packed: bool) -> None:
    task = make_task(tmp_path, packed=packed)
    batch = task.batch(SOME, epoch=0)
    found = rows_in(batch)
    assert len(found) == len(SOME)
    for index, (read, fed, said) in zip(SOME.tolist(), found, strict=True):
        source, target = task.corpus.source(index).tolist(), task.corpus.target(index).tolist()
        assert (read, fed, said) == ([*source, 3], [2, *target], [*target, 3])
    assert batch.n_tokens == sum(len(said) for _, _, said in found) == int((batch.labels != 0).sum())
    if packed:
        assert int(batch.source_lengths.sum()) == int(batch.target_lengths.sum()) == 150
        assert batch.source.shape == batch.target.shape == batch.labels.shape == (150,)
    else:
        assert bool((batch.labels[torch.arange(batch.labels.shape[1]) >= batch.target_lengths[:, None]] == 0).all())


def gradients(task: PairTraining, batch: PairBatch) -> tuple[float, dict[str, Tensor]]:
    model = make_model(task.languages)
    losses = task.loss(model, batch)
    assert int(losses.n_tokens) == batch.n_tokens
    losses.total.backward()  # type: ignore[no-untyped-call]
    assert isinstance(model, nn.Module)
    return losses.total.item(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"r_drop": 0.5, "label_smoothing": 0.2}])
def test_packed_and_padded_have_one_loss(tmp_path: Path, options: dict[str, float]) -> None:
    found = []
    for packed in (False, True):
        task = make_task(tmp_path / str(packed), packed=packed, **options)
        found.append(gradients(task, task.batch(SOME, epoch=0)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)
    assert found[0][1].keys() == found[1][1].keys()
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(gradient, found[1][1][name], rtol=1e-8, atol=1e-9, msg=name)


@pytest.mark.parametrize("name", ["transformer", "recurrent"])
def test_the_loss_is_cross_entropy_sentence_by_sentence(tmp_path: Path, name: str) -> None:
    task = make_task(tmp_path, label_smoothing=0.1)
    model = make_model(task.languages, name)
    expected, plain = 0.0, 0.0
    for index in SOME.tolist():
        source, target = task.corpus.source(index).tolist(), task.corpus.target(index).tolist()
        logits = model.forward(Rows(torch.tensor([[*source, 3]])), Rows(torch.tensor([[2, *target]])))[0]
        labels = torch.tensor([*target, 3])
        expected += F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum").item()
        plain += F.cross_entropy(logits, labels, reduction="sum").item()
    losses = task.loss(model, task.batch(SOME, epoch=0))
    assert losses.total.item() == pytest.approx(expected, rel=1e-10)
    assert float(losses.nll) == pytest.approx(plain, rel=1e-10)


@pytest.mark.parametrize("packed", [False, True])
def test_without_dropout_two_passes_are_one(tmp_path: Path, packed: bool) -> None:
    batch = make_task(tmp_path, packed=packed).batch(SOME, epoch=0)
    (plain, gradient), (double, other) = (
        gradients(make_task(tmp_path, packed=packed, r_drop=r_drop), batch) for r_drop in (0.0, 3.0)
    )
    assert double == pytest.approx(plain, rel=1e-12)
    for name in gradient:
        torch.testing.assert_close(gradient[name], other[name], rtol=1e-8, atol=1e-9, msg=name)


def test_with_dropout_disagreement_costs(tmp_path: Path) -> None:
    losses = []
    for r_drop in (1e-9, 5.0):
        task = make_task(tmp_path, r_drop=r_drop)
        model = make_model(task.languages, dropout=0.3)
        assert isinstance(model, nn.Module)
        model.train()
        torch.manual_seed(1)
        losses.append(task.loss(model, task.batch(SOME, epoch=0)))
    assert losses[1].total.item() > losses[0].total.item() + 1
    assert float(losses[0].nll) == float(losses[1].nll)


@pytest.mark.parametrize("piece_dropout", [0.0, 0.3])
@pytest.mark.parametrize("packed", [False, True])
def test_shares_together_are_the_batch(tmp_path: Path, packed: bool, piece_dropout: float) -> None:
    task = make_task(tmp_path, n=23, packed=packed, piece_dropout=piece_dropout)
    n = 3 * len(task.plan.epoch(0))
    whole = list(islice(task.batches(Position()), n))
    model = make_model(task.languages)
    shares = [list(islice(task.batches(Position(), rank=rank, world=16), n)) for rank in range(16)]
    sizes = set()
    for (after, batch), *parts in zip(whole, *shares, strict=True):
        assert {position for position, _ in parts} == {after}
        assert sum(part.n_tokens for _, part in parts) == batch.n_tokens
        assert sorted(row for _, part in parts for row in rows_in(part)) == sorted(rows_in(batch))
        sizes |= {part.n_tokens == 0 for _, part in parts}
        total = sum(task.loss(model, part).total.item() for _, part in parts if part.n_tokens)
        assert total == pytest.approx(task.loss(model, batch).total.item(), rel=1e-10)
    assert sizes == {True, False}  # some batches are too small for all


@pytest.mark.parametrize("packed", [False, True])
def test_batches_go_on_where_they_stopped(tmp_path: Path, packed: bool) -> None:
    task = make_task(tmp_path, packed=packed, piece_dropout=0.2)
    whole = list(islice(task.batches(Position()), 25))
    assert whole[-1][0].epoch >= 1
    for start in (1, 7, 20):
        resumed = list(islice(make_task(tmp_path, packed=packed, piece_dropout=0.2).batches(whole[start - 1][0]), 5))
        for (after, batch), (again, same) in zip(whole[start:], resumed, strict=False):
            assert after == again
            assert torch.equal(batch.source, same.source)
            assert torch.equal(batch.labels, same.labels)


def test_batches_are_cut_for_their_own_epoch(tmp_path: Path) -> None:
    task = make_task(tmp_path, piece_dropout=0.3)
    first, second = task.plan.epoch(0), task.plan.epoch(1)
    walk = list(islice(task.batches(Position()), len(first) + 1))
    assert rows_in(walk[-2][1]) == rows_in(task.batch(first[-1], epoch=0)) != rows_in(task.batch(first[-1], epoch=1))
    assert rows_in(walk[-1][1]) == rows_in(task.batch(second[0], epoch=1)) != rows_in(task.batch(second[0], epoch=0))


def test_new_cuts_differ_by_epoch_and_spell_the_same(tmp_path: Path) -> None:
    task, again = make_task(tmp_path, piece_dropout=0.3), make_task(tmp_path, piece_dropout=0.3)
    other = make_task(tmp_path, piece_dropout=0.3, seed=4)
    epochs = [rows_in(task.batch(SOME, epoch=epoch)) for epoch in (0, 1)]
    assert epochs[0] != epochs[1]
    assert epochs[0] == rows_in(again.batch(SOME, epoch=0))
    assert epochs[0] != rows_in(other.batch(SOME, epoch=0))
    source, target = task.languages.source.tokenizer, task.languages.target.tokenizer
    for rows in epochs:
        for index, (read, fed, said) in zip(SOME.tolist(), rows, strict=True):
            assert source.decode(read) == source.decode(task.corpus.source(index))
            assert target.decode(fed) == target.decode(said) == target.decode(task.corpus.target(index))
            assert (read[-1], fed[0], said[-1]) == (3, 2, 3)


@pytest.mark.parametrize("budget", [40, 150])
def test_new_cuts_fit_a_packed_batch(tmp_path: Path, budget: int) -> None:
    """They are longer than the stored ones, which alone would fill the budget."""
    task = make_task(tmp_path, packed=True, piece_dropout=0.5, budget_tokens=budget)
    grown = n_new = 0
    for _, batch in islice(task.batches(Position()), 40):
        assert int(batch.source_lengths.sum()) == int(batch.target_lengths.sum()) == budget
        assert batch.longest is not None
        assert int(batch.source_lengths.max()) <= batch.longest
        grown += sum(len(read) for read, _, _ in rows_in(batch))
        n_new += len(rows_in(batch))
    assert grown / n_new > 1.2 * (task.corpus.source_lengths.mean() + 1)


def test_lengths_to_expect(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    stored = task.corpus.source_lengths + 1, task.corpus.target_lengths + 1
    recuts = BpeDropoutCorpus(task.languages, task.corpus, rate=0.4, seed=0)
    expected = recuts.expected(*stored, most=25)
    real = recuts.pairs(np.arange(len(task.corpus)), epoch=1)[0].lengths.mean() + 1
    assert real <= recuts.expected(*stored, most=1000)[0].mean() < 1.25 * real
    for side in (0, 1):
        assert bool((expected[side] >= stored[side]).all())
        assert int(expected[side].max()) <= max(25, int(stored[side].max()))


IdPairs = list[tuple[list[int], list[int]]]


def fitted(new: IdPairs, stored: IdPairs, **room: int) -> IdPairs:
    sides = [(Ragged.of([s for s, _ in pairs]), Ragged.of([t for _, t in pairs])) for pairs in (new, stored)]
    return [(s.tolist(), t.tolist()) for s, t in zip(*fitting(*sides, **room), strict=True)]


def plainly_fitted(new: IdPairs, stored: IdPairs, *, budget: int, longest: int) -> IdPairs:
    chosen = [cut if max(map(len, cut)) < longest else old for cut, old in zip(new, stored, strict=True)]
    for place in reversed(range(len(chosen))):
        if max(sum(len(pair[side]) + 1 for pair in chosen) for side in (0, 1)) <= budget:
            break
        chosen[place] = stored[place]
    return chosen


def test_stored_cuts_step_in_where_new_ones_do_not_fit() -> None:
    stored = [([1, 1], [1]), ([2], [2, 2]), ([3], [3])]
    new = [([1] * 4, [1]), ([2] * 3, [2] * 3), ([3] * 9, [3])]
    assert fitted(new, stored, budget=100, longest=10) == new
    assert fitted(new, stored, budget=100, longest=9) == [new[0], new[1], stored[2]]
    assert fitted(new, stored, budget=11, longest=10) == [new[0], new[1], stored[2]]
    assert fitted(new, stored, budget=10, longest=10) == [new[0], stored[1], stored[2]]
    assert fitted(new, stored, budget=7, longest=10) == stored
    assert fitted([], [], budget=7, longest=10) == []


SENTENCE = st.lists(st.integers(4, 9), max_size=9)
PAIRS = st.lists(st.tuples(st.tuples(SENTENCE, SENTENCE), st.tuples(SENTENCE, SENTENCE)), max_size=8)


@settings(max_examples=200, deadline=None)
@given(pairs=PAIRS, budget=st.integers(0, 60), longest=st.integers(1, 10))
def test_what_fits_is_found_as_one_by_one(pairs: list[IdPairs], budget: int, longest: int) -> None:
    new, stored = [cut for cut, _ in pairs], [old for _, old in pairs]
    expected = plainly_fitted(new, stored, budget=budget, longest=longest)
    assert fitted(new, stored, budget=budget, longest=longest) == expected


@pytest.mark.parametrize("packed", [False, True])
def test_a_batch_is_what_sentence_by_sentence_gives(tmp_path: Path, packed: bool) -> None:
    task = make_task(tmp_path, packed=packed)
    for share in (slice(None), slice(1, None, 3), slice(9, None)):
        batch, some = task.batch(SOME, epoch=0, share=share), SOME[share].tolist()
        read = [np.append(task.corpus.source(i), 3) for i in some]
        fed = [np.insert(task.corpus.target(i).astype(np.int64), 0, 2) for i in some]
        said = [np.append(task.corpus.target(i), 3) for i in some]
        found = (batch.source, batch.target, batch.labels)
        for tensor, rows in zip(found, (read, fed, said), strict=True):
            if packed:
                plain = np.concatenate([*rows, np.zeros(150 - sum(map(len, rows)))])
            else:
                plain = np.zeros((len(rows), max(map(len, rows), default=0)))
                for row, ids in zip(plain, rows, strict=True):
                    row[: len(ids)] = ids
            assert torch.equal(tensor, torch.from_numpy(plain.astype(np.int64)).view(tensor.shape))
        assert batch.source_lengths[: len(some)].tolist() == list(map(len, read))
        assert batch.target_lengths[: len(some)].tolist() == list(map(len, fed))
        assert batch.n_tokens == sum(map(len, said))
        sources, targets = [task.corpus.source(i) for i in some], [task.corpus.target(i) for i in some]
        lists = batch_of(task.languages, sources, targets, plan=task.plan)
        assert torch.equal(lists.source, batch.source)
        assert torch.equal(lists.labels, batch.labels)


def test_an_evaluation_is_that_of_each_sentence(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    model = make_model(task.languages)
    figures = task.evaluate(model)
    total, count = 0.0, 0
    for pair in task.valid:
        source, target = task.languages.source.encode([pair.source]), task.languages.target.encode([pair.target])
        losses = task.loss(model, batch_of(task.languages, source, target))
        total, count = total + float(losses.nll), count + int(losses.n_tokens)
    assert figures["valid_nll"] == pytest.approx(total / count, rel=1e-9)
    assert figures.keys() >= {"valid_nll", task.objective, "exact"}
    samples = task.samples(model, 2)
    assert [(source, reference) for source, reference, _ in samples] == [pair[:2] for pair in task.valid[:2]]


def test_an_output_bias_counts_in_the_loss() -> None:
    sizes = {"d_model": 8, "n_heads": 2, "d_feedforward": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model = Transformer(TransformerConfig(n_source=9, n_target=9, output_bias=True, **sizes)).eval()
    assert model.output_bias is not None
    nn.init.normal_(model.output_bias)
    ids, lengths = torch.randint(1, 9, (2, 5)), torch.tensor([5, 5])
    labels = torch.tensor([[3, 4, 0, 0, 0], [1, 2, 8, 7, 6]])
    total, _, _ = pair_loss(model, ids, lengths, ids, lengths, labels, None, 0.1, 0.0, 0)
    logits = model(Rows(ids, lengths), Rows(ids, lengths)).flatten(0, 1)
    expected = F.cross_entropy(logits, labels.flatten(), ignore_index=0, reduction="sum", label_smoothing=0.1)
    torch.testing.assert_close(total, expected)
    total.backward()
    assert model.output_bias.grad is not None
