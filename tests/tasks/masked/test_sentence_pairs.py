"""Pairs of segments: half of them true, each in its place, the same for the same seed, resumable anywhere."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.plan import Position
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError, UsageError
from regard.tasks.masked import sentence_pairs as module
from regard.tasks.masked.sentence_pairs import Examples, PairPlan
from regard.tasks.masked.sentences import SentenceCorpus


class Corpus:
    """A corpus of given sentence lengths, whose ids are 0, 1, 2, … so that a segment says where it is from."""

    folder = Path("somewhere")

    def __init__(self, lengths: list[list[int]]) -> None:
        self.documents = np.cumsum([0, *map(len, lengths)])
        self.borders = np.cumsum([0, *(n for document in lengths for n in document)])

    def __len__(self) -> int:
        return len(self.documents) - 1

    def document_of(self, place: int) -> int:
        return int(np.searchsorted(self.borders[self.documents], place, side="right")) - 1


def random_corpus(n: int, *, seed: int = 0, sentences: int = 12, longest: int = 20) -> Corpus:
    random = np.random.default_rng(seed)
    return Corpus([random.integers(1, longest + 1, random.integers(1, sentences + 1)).tolist() for _ in range(n)])


def plan(corpus: Corpus, **options: Any) -> PairPlan:
    return PairPlan(corpus, **({"room": 30, "max_examples": 8, "seed": 1} | options))  # type: ignore[arg-type]


def rows(batches: Any) -> list[list[int]]:
    return [list(row) for b in batches for row in zip(*(getattr(b, n).tolist() for n in b.__dataclass_fields__))]  # noqa: B905


@given(n=st.integers(2, 12), seed=st.integers(0, 1000), room=st.integers(2, 40), short=st.sampled_from([0.0, 0.1, 1.0]))
@settings(max_examples=80, deadline=None)
def test_segments_are_where_they_should_be(n: int, seed: int, room: int, short: float) -> None:
    corpus = random_corpus(n, seed=seed)
    numbers = []
    for examples in plan(corpus, room=room, seed=seed, short=short).epoch(seed):
        assert len(examples) <= 8
        numbers += examples.numbers.tolist()
        for _, a, a_length, b, b_length, follows in rows([examples]):
            assert min(a_length, b_length) >= 1
            assert a_length + b_length <= room
            ends = [corpus.document_of(place) for place in (a, a + a_length - 1, b, b + b_length - 1)]
            assert ends[0] == ends[1]
            assert ends[2] == ends[3]
            assert (ends[0] == ends[2]) == follows
            if follows:
                assert a + a_length <= b  # what lies between was shortened away
    assert numbers == list(range(len(numbers)))


def test_without_shortening_b_begins_where_a_ends() -> None:
    corpus = Corpus([[3] * 50 for _ in range(30)])
    found = Examples.joined(list(plan(corpus, room=30, short=0).epoch(0)))
    true = found[np.flatnonzero(found.follows)]
    assert len(true) > 100
    assert (true.a_starts + true.a_lengths == true.b_starts).all()
    assert set((found.a_starts % 3).tolist()) == set((found.b_starts % 3).tolist()) == {0}
    assert (found.lengths == 30).mean() > 0.75  # but for the ends of documents


def test_half_are_true_and_the_others_from_anywhere_else() -> None:
    corpus = random_corpus(200, sentences=400, longest=8)
    found = Examples.joined([next(plan(corpus, room=20).blocks(epoch)) for epoch in range(4)])
    assert len(found) > 20_000
    assert found.follows.mean() == pytest.approx(0.5, abs=0.02)  # a last sentence alone has no successor
    other = found[np.flatnonzero(~found.follows)]
    of_b = np.searchsorted(corpus.borders[corpus.documents], other.b_starts, side="right") - 1
    counts = np.bincount(of_b, minlength=200)
    expected = len(other) / 200
    assert np.abs(counts - expected).max() < 6 * np.sqrt(expected)


def test_one_in_ten_is_shorter() -> None:
    corpus = Corpus([[1] * 2000 for _ in range(20)])
    found = [Examples.joined(list(plan(corpus, room=40, short=short).epoch(0))) for short in (0.0, 0.1)]
    shorter = [(some.lengths < 40).mean() for some in found]
    assert shorter[0] < 0.05  # the ends of documents
    assert shorter[1] - shorter[0] == pytest.approx(0.1, abs=0.03)


def test_long_segments_lose_pieces_at_both_ends() -> None:
    corpus = Corpus([[100, 100] for _ in range(500)])
    found = Examples.joined(list(plan(corpus, room=31, short=0).epoch(0)))
    assert set(zip(found.a_lengths.tolist(), found.b_lengths.tolist(), strict=True)) == {(16, 15)}
    assert 0.25 < found.follows.mean() < 0.45  # a third: after a random B the second sentence is an A by itself
    skipped = found.a_starts % 100
    assert skipped.mean() == pytest.approx(42, abs=1.5)  # half of 84
    corpus = Corpus([[4, 100] for _ in range(500)])
    found = Examples.joined(list(plan(corpus, room=31, short=0).epoch(0)))
    true = found[np.flatnonzero(found.follows)]
    assert set(zip(true.a_lengths.tolist(), true.b_lengths.tolist(), strict=True)) == {(4, 27)}


def test_what_followed_a_is_used_again() -> None:
    """After a random B the walk goes on right after A: every sentence is in some A or in a true B."""
    corpus = random_corpus(20, longest=5)
    used = np.zeros(corpus.borders[-1], bool)
    for _, a, a_length, b, b_length, follows in rows(plan(corpus, room=200, short=0).epoch(0)):
        used[a : a + a_length] = True
        if follows:
            used[b : b + b_length] = True
    assert used.all()


def test_single_segments_cover_everything_once() -> None:
    corpus = random_corpus(30)
    for short in (0.0, 0.1):
        count = np.zeros(corpus.borders[-1], int)
        for _, a, a_length, _, b_length, _ in rows(plan(corpus, next_sentence=False, short=short).epoch(0)):
            count[a : a + a_length] += 1
            assert b_length == 0
            assert corpus.document_of(a) == corpus.document_of(a + a_length - 1)
        assert (count == 1).all()
    found = Examples.joined(list(plan(Corpus([[5] * 60]), next_sentence=False, short=0).epoch(0)))
    assert found.lengths.tolist() == [30] * 10


def test_a_document_of_one_sentence_gets_a_random_next() -> None:
    found = Examples.joined(list(plan(Corpus([[5]] * 50)).epoch(0)))
    assert len(found) == 50
    assert not found.follows.any()
    assert (found.b_starts != found.a_starts).all()


def test_long_documents_are_walked_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STRETCH", 10)
    monkeypatch.setattr(module, "_BLOCK", 300)
    corpus = random_corpus(5, sentences=95, longest=9)
    one = plan(corpus, room=50)
    assert len(list(one.blocks(0))) > 2
    found = list(one.epoch(0))
    assert [len(batch) for batch in found[:-1]] == [8] * (len(found) - 1)
    for _, a, a_length, b, _, follows in rows(found):
        assert (corpus.document_of(a) == corpus.document_of(b)) == follows
        assert corpus.document_of(a) == corpus.document_of(a + a_length - 1)
    firsts = {row[1] for row in rows(plan(corpus, room=50, next_sentence=False, short=0).epoch(0))}
    assert {int(corpus.borders[corpus.documents[d] + 10]) for d in range(5) if corpus.documents[d + 1] > 10} & firsts


@pytest.mark.parametrize("budget", [None, 100])
def test_it_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch, budget: int | None) -> None:
    monkeypatch.setattr(module, "_BLOCK", 500)
    corpus = random_corpus(40)
    options = {"budget": budget, "marks": 3}
    whole = list(islice(plan(corpus, **options).iterate(Position()), 80))
    assert whole[-1][0].epoch >= 1
    for start in (1, 20, 55):
        again = list(islice(plan(corpus, **options).iterate(whole[start - 1][0]), 20))
        for (after, batch), (other, same) in zip(whole[start:], again, strict=False):
            assert after == other
            assert rows([batch]) == rows([same])
    per_epoch = len(list(plan(corpus, **options).epoch(0)))
    assert [p for p, _ in whole[:per_epoch]] == [*(Position(0, i) for i in range(1, per_epoch)), Position(1, 0)]
    after = next(plan(corpus, **options).iterate(Position(0, per_epoch)))  # all of an epoch done
    assert rows([after[1]]) == rows([whole[per_epoch][1]])


def test_epochs_and_seeds_differ() -> None:
    corpus = random_corpus(40)
    found = [rows(plan(corpus, seed=seed).epoch(epoch)) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    assert found[0] != found[1] != found[2] != found[0]
    assert found[0] == rows(plan(corpus).epoch(0))
    options = {"next_sentence": False, "short": 0.5}
    single = [{row[1] for row in rows(plan(Corpus([[1] * 500]), **options).epoch(epoch))} for epoch in (0, 1)]
    assert single[0] != single[1]  # not only in another order


def test_a_budget_is_kept_and_filled() -> None:
    corpus = random_corpus(100)
    batches = list(plan(corpus, budget=100, marks=3, max_examples=50).epoch(0))
    used = [int((b.lengths + 3).sum()) for b in batches]
    assert max(used) <= 100
    assert np.mean(used[:-1]) > 80
    assert max(len(b) for b in plan(corpus, budget=100, marks=3, max_examples=2).epoch(0)) == 2


def test_one_document_has_no_other() -> None:
    with pytest.raises(DataError, match="somewhere: one document only") as problem:
        plan(Corpus([[3, 4, 5]]))
    assert "switch next-sentence prediction off" in str(problem.value.hint)
    assert len(list(plan(Corpus([[3, 4, 5]]), next_sentence=False).epoch(0))) == 1


def test_a_position_of_another_run() -> None:
    with pytest.raises(UsageError, match="batch 99 of epoch 0 does not exist, the epoch has"):
        next(plan(random_corpus(3)).iterate(Position(0, 99)))


def test_a_corpus_on_disk(tmp_path: Path) -> None:
    from regard.data.text.documents import Document

    texts = ["A b c. D e. F g h.", "I j. K l m n. O p."]
    tokenizer = learn_tokenizer(texts, "words", size=60)
    corpus = SentenceCorpus.build([Document(text, "") for text in texts], tokenizer, tmp_path / "c")
    made = PairPlan(corpus, room=10, max_examples=4, seed=0)
    for _, a, a_length, b, b_length, follows in rows(made.epoch(0)):
        first, second = (tokenizer.decode(corpus.ids[s : s + n]) for s, n in ((a, a_length), (b, b_length)))
        assert any(first in text and second in text for text in texts) == follows
