"""Trained models in Python: what `regard.load` gives for the tasks on single texts."""

import math

import pytest
import torch

import regard
import tiny_tasks
from regard.config.twins import enabled
from regard.errors import UsageError
from regard.tasks.base import ScoreData as Data
from regard.tasks.base import random_texts, varied
from regard.tasks.language.predictor import passages


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    return regard.load(tiny_tasks.train_tiny("language", tmp_path_factory.mktemp("language")), "cpu")


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return regard.load(tiny_tasks.train_tiny("masked", tmp_path_factory.mktemp("masked")), "cpu")


def test_one_text_and_several(language, masked):
    one = language("the cat")
    again = language(["the cat", "the dog"])[0]
    assert again == one if enabled() else again.text == one.text  # PyTorch's products feel how many rows there are
    assert one.plain() == "the cat" + one.text
    assert language([]) == []
    assert masked("the [MASK] sees a dog .").text in ("the cat sees a dog .", "the dog sees a dog .")
    with pytest.raises(UsageError, match="input 0 is int"):
        language([3])


def test_what_is_streamed_is_what_is_said(language):
    for options in ({}, {"strategy": "sample", "seed": 3}, {"stop": " a "}):
        assert "".join(language.stream("the dog", **options)) == language("the dog", **options).text


def test_log_probabilities_are_those_of_decoding(language):
    said = language("the cat")
    terms = dict(language.log_probs("the cat" + said.text))
    whole = language.log_probs("the cat" + said.text)
    assert [piece for piece, _ in whole] == ["the", "▁cat", *said.tokens]
    assert all(term <= 0 for term in terms.values())
    assert math.isclose(sum(term for _, term in whole[2:]), said.log_prob, abs_tol=0.2)  # the end counts there, too
    with pytest.raises(UsageError, match=r"the text has 31 tokens and the model reads 16 at once"):
        language.log_probs("the cat " * 15)


def test_every_precision_says_the_same(tmp_path):
    folder = tiny_tasks.train_tiny("language", tmp_path)
    texts = {
        precision: regard.load(folder, "cpu", precision=precision)("the cat sees").text
        for precision in ("fp32", "bf16", *(["int8"] if enabled() else []))
    }
    assert set(texts.values()) <= {" a cat .", " a dog ."}


def test_vectors_of_length_one(masked):
    vectors = masked.embed(["the cat", "a dog ."], normalise=True)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2))


def test_a_model_told_to_say_is_heard(language):
    heard = []
    language.say = heard.append
    language("the cat " * 30)
    assert len(heard) == 1
    language.say = lambda _: None


def test_without_data_random_pieces_are_verified(language, tmp_path):
    heard = []
    language.say = heard.append
    gone = Data(["gone.txt"], None, tmp_path)
    assert all(finding.kept for finding in language.verify(gone, n=4))
    assert heard == ["on 4 passages of random pieces"]
    language.say = lambda _: None


def test_passages_lose_nothing_and_end_at_lines_or_words():
    text = "".join(f"line {i} of a long text\n" for i in range(300))
    found = list(passages(text, longest=200))
    assert "".join(found) == text
    assert max(map(len, found)) <= 200
    assert all(part.endswith("\n") for part in found)
    assert list(passages("x" * 450, longest=200)) == ["x" * 200, "x" * 200, "x" * 50]
    assert list(passages("  \n ")) == []


def test_random_texts_are_of_the_tokenizers_pieces(language):
    texts = random_texts(language.tokenizer, 5)
    assert texts == random_texts(language.tokenizer, 5)
    assert len(set(texts)) > 3
    known = {"the", "▁a", "▁cat", "▁dog", "▁.", *(f"▁{verb}" for verb in tiny_tasks.VERBS)}
    assert {piece for text in texts for piece in language.tokenizer.tokens(language.tokenizer.encode(text))} & known
    assert [len(text) for text in varied(["abcd", "abcd", "abc"])] == [4, 2, 3]
