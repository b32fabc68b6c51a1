"""BPE-dropout: another cut, the same text, and the same cut for the same seed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import BpeDropout, Tokenizer, learn_tokenizer
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
    cut = BpeDropout(tokenizer, 0.3, seed=5)
    left, right = next(pair for pair, (rank, _) in cut._merges.items() if rank == 0)
    word = "".join(tokenizer.core.id_to_token(piece) for piece in (left, right))
    assert len(cut._draw(word, 0)) in (1, 2)
    apart = sum(len(cut._draw(word, number)) == 2 for number in range(4000)) / 4000
    assert apart == pytest.approx(0.3, abs=0.03)


def test_same_seed_same_cut_in_any_order(tokenizer: Tokenizer) -> None:
    forward = [BpeDropout(tokenizer, 0.3, seed=1).encode(text, epoch=2, index=i) for i, text in enumerate(TEXTS)]
    again = BpeDropout(tokenizer, 0.3, seed=1)
    backward = [again.encode(TEXTS[i], epoch=2, index=i) for i in reversed(range(len(TEXTS)))]
    assert forward == backward[::-1]
    stored = tokenizer.encode(TEXTS[3])
    assert again.recut(stored, epoch=2, index=3) == forward[3]


def test_what_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match=r"rate is 1\.5"):
        BpeDropout(tokenizer, 1.5)
    with pytest.raises(UsageError, match="needs a bpe tokenizer, this one is 'bytes'"):
        BpeDropout(learn_tokenizer([], "bytes"), 0.1)
