"""BPE-dropout: another cut, the same text, and the same cut for the same seed."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.hashing import Hashes, below, happens, hashed, varied
from regard.data.batching.ragged import Ragged
from regard.data.text import bpe_dropout as dropout
from regard.data.text import merges as merging
from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.merges import Merges
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import UsageError

TEXTS = ["A dog runs along the beach, 2021.", "Zwei Hündinnen laufen 😀 über den Fluss."] * 8


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(TEXTS, "bpe", size=400)


def test_rate_zero_is_the_tokenizers_own_cut(tokenizer: Tokenizer) -> None:
    cut = BpeDropout(tokenizer, 0.0)
    for text in [*TEXTS, "", "aaaaaaa unseen   words!!! ananas"]:
        assert cut.encode(text, epoch=0, index=0) == tokenizer.encode(text)


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="adeghnorstuü ", max_size=30))
def test_merges_are_made_in_the_order_they_were_learnt(tokenizer: Tokenizer, text: str) -> None:
    assert BpeDropout(tokenizer, 0.0).encode(text, epoch=0, index=0) == tokenizer.encode(text)


def test_rate_one_leaves_bytes(tokenizer: Tokenizer) -> None:
    ids = BpeDropout(tokenizer, 1.0).encode("über", epoch=0, index=0)
    assert len(ids) == len(" über".encode())


def test_text_survives_and_cuts_differ_by_epoch_index_and_seed(tokenizer: Tokenizer) -> None:
    cut = BpeDropout(tokenizer, 0.4, seed=7)
    cuts = {
        (epoch, index): tuple(cut.encode(TEXTS[0], epoch=epoch, index=index)) for epoch in (0, 1) for index in (0, 1)
    }
    assert len(set(cuts.values())) == 4
    assert {tokenizer.decode(ids) for ids in cuts.values()} == {TEXTS[0]}
    assert tuple(BpeDropout(tokenizer, 0.4, seed=8).encode(TEXTS[0], epoch=0, index=0)) not in cuts.values()


def test_merges_are_dropped_at_their_rate(tokenizer: Tokenizer) -> None:
    merges = Merges(tokenizer)
    pair = json.loads(tokenizer.core.to_str())["model"]["merges"][0]
    word = [[merges.ids[piece] for piece in pair]] * 4000
    cut = merges.made(Ragged.of(word), hashed(5, np.arange(4000)), rate=0.3)
    assert set(cut.lengths.tolist()) == {1, 2}
    assert (cut.lengths == 2).mean() == pytest.approx(0.3, abs=0.03)


def plainly_cut(merges: dict[tuple[str, str], int], word: str, stream: Hashes, rate: float) -> list[str]:
    """One merge after the other, as the paper says it; places are those of the first byte, from 1."""
    pieces, step = [(char, place) for place, char in enumerate(word, 1)], 0
    while True:
        found = [
            (merges[left, right], number)
            for number, ((left, place), (right, _)) in enumerate(pairwise(pieces))
            if (left, right) in merges and not happens(varied(stream, np.uint64((step << 32) + place)), rate)
        ]
        if not found:
            return [piece for piece, _ in pieces]
        _, number = min(found)
        (left, place), (right, _) = pieces[number : number + 2]
        pieces[number : number + 2] = [(left + right, place)]
        step += 1


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.text(alphabet="adeghnorstuĠ", min_size=1, max_size=40), max_size=12),
    rate=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_all_words_at_once_are_cut_as_each_by_itself(tokenizer: Tokenizer, words: list[str], rate: float) -> None:
    merges, learnt = Merges(tokenizer), json.loads(tokenizer.core.to_str())["model"]["merges"]
    ranks = {(left, right): rank for rank, (left, right) in enumerate(learnt)}
    streams = hashed(np.arange(len(words)))
    spelt = Ragged.of([[merges.ids[char] for char in word] for word in words])
    for few in (0, 1 << 14):  # tables of like words, and one for all
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merging, "_FEW", few)
            cuts = merges.made(spelt, streams, rate=rate)
        expected = [plainly_cut(ranks, word, streams[i : i + 1], rate) for i, word in enumerate(words)]
        assert [[tokenizer.core.id_to_token(int(i)) for i in row] for row in cuts] == expected


def rows_of(cut: BpeDropout, order: list[int], *, epoch: int) -> dict[int, list[int]]:
    stored = Ragged.of([cut.tokenizer.encode(TEXTS[i]) for i in order])
    found = cut.recut_rows(stored, np.array(order, np.int64), epoch=epoch)
    return dict(zip(order, [row.tolist() for row in found], strict=True))


def test_a_batch_is_cut_as_each_text_by_itself(tokenizer: Tokenizer) -> None:
    cut, everything = BpeDropout(tokenizer, 0.3, seed=1), list(range(len(TEXTS)))
    for epoch in (0, 2):
        alone = {i: BpeDropout(tokenizer, 0.3, seed=1).encode(TEXTS[i], epoch=epoch, index=i) for i in everything}
        assert len({tuple(row) for row in alone.values()}) > 8  # two texts, cut in many ways
        assert rows_of(cut, everything[::-1], epoch=epoch) == alone
        assert rows_of(cut, [3, 11, 3], epoch=epoch) == {i: alone[i] for i in (3, 11)}
        assert rows_of(cut, [], epoch=epoch) == {}


def test_a_text_without_words_has_a_row_too(tokenizer: Tokenizer) -> None:
    cut = BpeDropout(tokenizer, 0.3).recut_rows(Ragged.of([[], tokenizer.encode("dog"), []]), np.arange(3), epoch=0)
    assert cut.lengths.tolist() == [0, cut.lengths[1], 0]
    assert tokenizer.decode(cut.ids) == "dog"


@pytest.mark.parametrize("bound", ["_KEPT_WORDS", "_KEPT_IDS"])
def test_forgetting_changes_nothing(tokenizer: Tokenizer, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remembering, forgetful = (BpeDropout(tokenizer, 0.3, seed=1) for _ in range(2))
    for epoch in range(4):
        for order in ([0, 1, 2], [1, 5, 4], [2, 0]):
            expected = rows_of(remembering, order, epoch=epoch)
            with monkeypatch.context() as patch:
                patch.setattr(dropout, bound, 1)
                assert rows_of(forgetful, order, epoch=epoch) == expected
                assert forgetful._texts.has(np.arange(9)).sum() == len(order)
    assert remembering._texts.has(np.arange(9)).sum() == 5


def test_every_cut_of_a_word_is_taken(tokenizer: Tokenizer) -> None:
    drawn = BpeDropout(tokenizer, 0.5, seed=2)
    cuts = {tuple(drawn.encode("beach", epoch=epoch, index=0)) for epoch in range(400)}
    numbers = below(hashed(2, np.arange(400), 0, 0), dropout.CUTS)
    assert set(numbers.tolist()) == set(range(dropout.CUTS))
    assert 3 < len(cuts) <= dropout.CUTS


def test_same_seed_same_cut_in_any_order(tokenizer: Tokenizer) -> None:
    forward = [BpeDropout(tokenizer, 0.3, seed=1).encode(text, epoch=2, index=i) for i, text in enumerate(TEXTS)]
    again = BpeDropout(tokenizer, 0.3, seed=1)
    backward = [again.encode(TEXTS[i], epoch=2, index=i) for i in reversed(range(len(TEXTS)))]
    assert forward == backward[::-1]


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a bpe tokenizer, this one is 'bytes'"):
        BpeDropout(learn_tokenizer([], "bytes"), 0.1)
