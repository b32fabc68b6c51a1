import numpy as np
import pytest
import torch

from regard.data.text.documents import Document, TextSource
from regard.errors import DataError
from regard.tasks.words.skipgrams import BlockPlan, cutter, keep_rates, noise_table, read_words, word_tokenizer

SPACES = cutter("spaces", lowercase=False)


def documents(*texts):
    return [Document(text, f"file:{i}") for i, text in enumerate(texts)]


def test_words_are_numbered_by_frequency_and_rare_ones_left_out():
    stream = read_words(documents("b a a c", "a b d"), SPACES, min_count=2)
    assert stream.words == ("a", "b")
    assert stream.counts.tolist() == [3, 2]
    assert stream.ids.tolist() == [1, 0, 0, 0, 1]
    assert stream.documents.tolist() == [0, 0, 0, 1, 1]
    assert read_words(documents("b a a c", "a b d"), SPACES, min_count=1, max_words=3).words == ("a", "b", "c")


def test_a_document_in_parts_is_one():
    parts = [Document("a b", "f:1", more=True), Document("a b", "f:9"), Document("b a", "f:10")]
    assert read_words(parts, SPACES, min_count=1).documents.tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The king's dog—well-known, 1913!", ["the", "king's", "dog", "well-known", "1913"]),
        ("I ❤ it 😀😀", ["i", "❤", "it", "😀", "😀"]),
        ("Größe naïve 東京", ["größe", "naïve", "東京"]),
        (" \r\n\t…", []),
    ],
)
def test_words_are_letters_and_digits_and_pictures(text, found):
    assert cutter("words", lowercase=True)(text) == found


@pytest.mark.parametrize("kind", ["words", "spaces"])
def test_the_tokenizer_cuts_as_training_did(kind, tmp_path):
    text = "The king's dog—well-known, 1913! I ❤ it 😀😀 Größe naïve\r\n東京 the end."
    cut = cutter(kind, lowercase=True)
    stream = read_words(documents(text), cut, min_count=1)
    tokenizer = word_tokenizer(stream.words, kind, lowercase=True)
    assert tokenizer.encode(text) == [int(i) + 2 for i in stream.ids]
    assert tokenizer.encode("zebra") == [tokenizer.unk_id]
    tokenizer.save(tmp_path / "tokenizer.json")
    again = type(tokenizer).load(tmp_path / "tokenizer.json")
    assert again.encode(text) == tokenizer.encode(text)
    assert len(again) == len(stream.words) + 2


def test_reserved_names_in_a_text_are_no_words():
    assert read_words(documents("<unk> a <unk> b <pad>"), SPACES, min_count=1).words == ("a", "b")


def test_texts_without_enough_words_are_refused():
    with pytest.raises(DataError, match="holds no words"):
        read_words(documents("  "), SPACES, min_count=1)
    with pytest.raises(DataError, match="one word occurs 2 times or more among 3; at least two"):
        read_words(documents("a a b"), SPACES, min_count=2)
    with pytest.raises(DataError, match="no word occurs 5 times") as problem:
        read_words(documents("a a b"), SPACES, min_count=5)
    assert "data.min_count" in problem.value.hint
    with pytest.raises(DataError, match="occurs twice"):
        word_tokenizer(["a", "a"], "words", lowercase=False)


def test_line_ends_of_another_kind_are_no_part_of_words(tmp_path):
    file = tmp_path / "crlf.txt"
    file.write_bytes(b"a b\r\nb a\r\n")
    stream = read_words(TextSource((file,), split="line").documents(), SPACES, min_count=1)
    assert stream.words == ("a", "b")
    assert stream.documents.tolist() == [0, 0, 1, 1]


def test_frequent_words_are_kept_less_often():
    rates = keep_rates(np.array([900, 90, 10]), 1e-2)
    assert rates[2] == 1.0
    share = 1e-2 / 0.9
    assert rates[0] == pytest.approx(share**0.5 + share, rel=1e-6)
    assert keep_rates(np.array([900, 90]), 0.0).tolist() == [1.0, 1.0]


def test_noise_follows_counts_to_the_power():
    times = torch.bincount(noise_table(np.array([10_000, 16, 1])))
    assert times[0] / times[1] == pytest.approx((10_000 / 16) ** 0.75, rel=0.01)
    assert times.min() >= 1


def test_blocks_show_every_word_once_as_a_centre_with_its_surroundings():
    plan, n = BlockPlan(centres=4, window=2), 10
    stream = read_words(documents(" ".join("abcdefghij")), SPACES, min_count=1)
    blocks = plan.cut(stream, np.ones(n, np.float32), np.random.default_rng(0))
    assert blocks.words.shape == blocks.documents.shape == (3, 8)
    centres = blocks.words[:, 2:-2].flatten()[:n]
    assert centres.tolist() == list(range(n))
    assert blocks.words[1].tolist() == list(range(2, 10))
    assert (blocks.documents.flatten() == -1).sum() == 2 + 2 + 2  # before, what fills the last block, after


def test_bands_are_the_words_within_a_radius():
    bands = BlockPlan(centres=3, window=2).bands()
    assert bands.shape == (3, 3, 7)
    assert bands[1, 0].tolist() == [0, 1, 0, 1, 0, 0, 0]
    assert bands[2, 2].tolist() == [0, 0, 1, 1, 0, 1, 1]
    assert bands[0].sum() == 0
