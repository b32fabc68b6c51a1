"""Sentences: tokenised text, prose, a sentence a line; no character lost, no text slow."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.text.splitting import split_lines, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        # tokenised, as in WikiText
        (
            ' The game was released . " It was good , " he said . " I like it . " The end ( so . ) And it went ! ',
            [
                "The game was released .",
                '" It was good , " he said .',
                '" I like it . "',
                "The end ( so . )",
                "And it went !",
            ],
        ),
        (
            " = Title = \n \n It is 1 @.@ 5 km . Mr. Smith lived in St. Louis . ",
            ["= Title =", "It is 1 @.@ 5 km .", "Mr. Smith lived in St. Louis ."],
        ),
        ("And so . . . it went . yes", ["And so . . .", "it went .", "yes"]),
        # prose
        ('Hello there. How are you? "Fine." He left.', ["Hello there.", "How are you?", '"Fine."', "He left."]),
        ('"Fine." he said. (Really!) Yes', ['"Fine." he said.', "(Really!)", "Yes"]),
        (
            "Dr. Who met J. R. R. Tolkien of the U.S. Army. He left.",
            ["Dr. Who met J. R. R. Tolkien of the U.S. Army.", "He left."],
        ),
        ("See No. 5 on Jan. 3. Then stop. No. Never.", ["See No. 5 on Jan. 3.", "Then stop.", "No.", "Never."]),
        ("The cat sat. It is 2.5 m. Wait… what?! Yes.", ["The cat sat.", "It is 2.5 m.", "Wait… what?!", "Yes."]),
        ("1. Introduction to it. 2. More", ["1. Introduction to it.", "2. More"]),
        ("In 1999. The end. “So?” Ändern. Él", ["In 1999.", "The end.", "“So?”", "Ändern.", "Él"]),
        ("今天好。明天呢？「好！」走吧", ["今天好。", "明天呢？", "「好！」", "走吧"]),
        # a sentence a line
        ("one line\nanother, no mark\r\n\n  third. fourth\n", ["one line", "another, no mark", "third. fourth"]),
        ("", []),
        (" \n\t\n", []),
        ("...", ["..."]),
        (" . ", ["."]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_lines_are_left_alone() -> None:
    assert split_lines("A b. C d.\n\n  E f! G \n") == ["A b. C d.", "E f! G"]


@given(st.text(st.sampled_from("aB.!? \"')(\n…。1")))
def test_nothing_is_lost(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@pytest.mark.parametrize(
    "text",
    [
        "a. b. c. " * 20_000,
        "." * 100_000 + "x",
        ". " * 100_000 + ".x",
        " . )" * 20_000,
        '"' * 100_000,
        (". " + " " * 300) * 300 + "x",
        "The dog sat. " * 20_000,
    ],
)
def test_no_text_is_slow(text: str) -> None:
    began = time.process_time()
    split_sentences(text)
    assert time.process_time() - began < 3
