"""Text to ids and back: round trips, special tokens, words, files, and corpora that cannot be learnt from."""

import json
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Core

from regard.data.text.bytechars import byte_to_char, readable
from regard.data.text.tokenizers import KINDS, SPECIALS, Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import DataError, UsageError

TEXTS = [
    "A dog runs along the beach.",
    "Two dogs don't run (along) the river, 12345 times!",
    "Ein Hund läuft am Strand entlang.",
    "Zwei Hündinnen laufen über den Fluss – schnell.",
] * 5
WHOLE = ("bpe", "unigram", "wordpiece", "bytes")  # kinds to which nothing is unknown


@cache
def learnt(kind: str, lowercase: bool = False) -> Tokenizer:
    return learn_tokenizer(TEXTS, kind, size=320, lowercase=lowercase)


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first_and_facts_are_told(kind: str) -> None:
    tokenizer = learnt(kind)
    assert tokenizer.tokens([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert (tokenizer.kind, tokenizer.lowercase, learnt(kind, True).lowercase) == (kind, False, True)
    assert len(tokenizer) == tokenizer.size <= 320


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lowercase", [False, True])
def test_training_text_comes_back(kind: str, lowercase: bool) -> None:
    tokenizer = learnt(kind, lowercase)
    for text, ids in zip(TEXTS, tokenizer.encode_batch(TEXTS), strict=True):
        assert ids == tokenizer.encode(text)
        assert not {0, 1, 2, 3} & set(ids)
        assert tokenizer.decode(ids) == (text.lower() if lowercase else text)


@pytest.mark.parametrize("kind", WHOLE)
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60))
@example("😀🐕‍🦺 ẞ İ ▁ Ġ e\u0301 \x00 \x1c \u2028 <s></s><pad>")
@example("  spaces \t\r\n everywhere\u3000")
@example("\u0301")
def test_any_text_comes_back_normalised(kind: str, text: str) -> None:
    tokenizer = learnt(kind)
    ids = tokenizer.encode(text)
    normal = tokenizer.normalise(text)
    assert tokenizer.decode(ids) == normal
    assert not {0, 1, 2, 3} & set(ids)
    assert tokenizer.normalise(normal) == normal
    assert tokenizer.encode(normal) == ids


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("dogün.,'() -1\t😀<s>\x1f"), max_size=40))
def test_each_piece_knows_its_word(kind: str, text: str) -> None:
    tokenizer = learnt(kind)
    ids, words = tokenizer.encode(text), tokenizer.word_ids(text)
    assert len(ids) == len(words)
    expected = tokenizer.normalise(text).split()
    assert sorted(set(words)) == list(range(len(expected)))
    assert words == sorted(words)
    if tokenizer.unk_id not in ids:
        spelled = [tokenizer.decode(i for i, w in zip(ids, words, strict=True) if w == n) for n in range(len(expected))]
        assert [word.strip() for word in spelled] == expected


def test_whitespace_and_composition_are_normalised() -> None:
    assert learnt("bpe").normalise("  e\u0301\t\nx\u00a0\u3000y ") == "é x y"
    assert learnt("bpe", True).normalise("ÄB") == "äb"


def test_special_tokens_in_a_text_are_only_text() -> None:
    for kind in WHOLE:
        assert learnt(kind).decode(learnt(kind).encode("a<s>b</s> <pad>")) == "a<s>b</s> <pad>"


def test_unknown_is_unknown_where_it_has_to_be() -> None:
    chars, words = learnt("chars"), learnt("words")
    assert chars.tokens(chars.encode("dog 😀")) == ["d", "o", "g", "▁", "<unk>"]
    assert words.tokens(words.encode("A zebra, a dog")) == ["▁A", "<unk>", ",", "<unk>", "▁dog"]
    assert words.word_ids("A zebra, a dog") == [0, 1, 1, 2, 3]
    assert words.tokens(words.encode("don't")) == ["▁don't"]


def test_decoding_leaves_special_tokens_out() -> None:
    tokenizer = learnt("bpe")
    assert tokenizer.decode([2, *tokenizer.encode("A dog"), 3, 0, 0]) == "A dog"
    assert tokenizer.decode([]) == ""


def test_pieces_are_readable() -> None:
    tokenizer = learn_tokenizer(TEXTS, "bpe", size=500)
    assert "".join(tokenizer.tokens(tokenizer.encode("Ein Hund läuft"))) == "▁Ein▁Hund▁läuft"
    assert tokenizer.tokens(tokenizer.encode("😀")) == ["▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]


def test_byte_alphabet_is_the_librarys() -> None:
    ids = learnt("bytes").encode("a ä")
    assert ids == [4 + byte for byte in "a ä".encode()]
    assert len(set(byte_to_char())) == 256
    assert readable("Ġa") == " a"


def test_learning_keeps_to_size_and_frequency() -> None:
    assert learn_tokenizer(TEXTS, "bpe", size=270).size == 270
    assert learn_tokenizer(["a a b"], "words", min_frequency=2).size == 4 + 1
    assert learn_tokenizer(["aab"], "chars", min_frequency=2).size == 4 + 1
    assert learn_tokenizer([], "bytes").size == 4 + 256


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unigram"])
def test_learning_twice_gives_the_same(kind: str) -> None:
    assert learn_tokenizer(TEXTS, kind, size=320).fingerprint() == learnt(kind).fingerprint()
    assert learnt(kind).fingerprint() != learnt(kind, True).fingerprint()


def test_texts_may_be_a_stream() -> None:
    assert learn_tokenizer((text for text in TEXTS), "bpe", size=320).fingerprint() == learnt("bpe").fingerprint()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bytes"])
def test_nothing_to_learn_from(kind: str) -> None:
    for texts in ([], ["", "  \t"]):
        with pytest.raises(DataError, match="no text to learn a tokenizer from"):
            learn_tokenizer(texts, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_one_short_line_is_enough(kind: str) -> None:
    tokenizer = learn_tokenizer(["a"], kind)
    assert tokenizer.decode(tokenizer.encode("a")) == "a"


def test_size_below_the_alphabet_names_both_numbers() -> None:
    with pytest.raises(UsageError, match="size 200 is too small: a bpe tokenizer needs at least 260"):
        learn_tokenizer(TEXTS, "bpe", size=200)
    with pytest.raises(UsageError, match="size 6 is too small: the alphabet of these texts needs at least 7"):
        learn_tokenizer(["abc"], "chars", size=6)
    with pytest.raises(UsageError, match="kind 'bqe' is not known; allowed: bpe, unigram"):
        learn_tokenizer(TEXTS, "bqe")
    with pytest.raises(UsageError, match="min_frequency is 0"):
        learn_tokenizer(TEXTS, min_frequency=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_very_long_line_is_no_trouble(kind: str) -> None:
    tokenizer = learnt(kind)
    for text in ("dog " * 10_000, "dog" * 10_000):
        ids = tokenizer.encode(text)
        assert len(tokenizer.word_ids(text)) == len(ids)
        if kind != "words":
            assert tokenizer.decode(ids) == text.strip()


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_is_the_same(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    learnt(kind, True).save(path)
    loaded = Tokenizer.load(path)
    assert (loaded.kind, loaded.lowercase, loaded.size) == (kind, True, learnt(kind, True).size)
    assert loaded.fingerprint() == learnt(kind, True).fingerprint()
    assert loaded.encode_batch(TEXTS) == learnt(kind, True).encode_batch(TEXTS)
    assert loaded.decode(loaded.encode("<s> dog")) == learnt(kind, True).decode(learnt(kind, True).encode("<s> dog"))
    assert os.listdir(tmp_path) == ["tokenizer.json"]
    plain = Core.from_file(str(path))  # the library opens it by itself, and agrees
    assert plain.encode(TEXTS[0]).ids == loaded.encode(TEXTS[0])
    assert plain.decode(loaded.encode(TEXTS[0])) == TEXTS[0].lower()


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(DataError, match="no such tokenizer file"):
        Tokenizer.load(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="cannot be read as a tokenizer"):
        Tokenizer.load(path)
    learnt("bpe").save(path)
    description = json.loads(path.read_text())
    description["normalizer"] = None
    path.write_text(json.dumps(description))
    with pytest.raises(DataError, match=r"tokenizer\.json: not a tokenizer of regard's making"):
        Tokenizer.load(path)
    description["added_tokens"] = []
    description["model"]["vocab"] = {token: 9 - i for i, token in enumerate(SPECIALS)}
    description["model"]["merges"] = []
    path.write_text(json.dumps(description))
    with pytest.raises(DataError, match="does not begin with the special tokens"):
        Tokenizer.load(path)
