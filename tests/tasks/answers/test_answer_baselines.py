"""What a model that answers questions has to beat."""

from pathlib import Path

import pytest

from regard.tasks.answers.baselines import answer_baselines, best_sentence, best_stretch, sentences_of
from regard.tasks.answers.metrics import answer_figures
from regard.tasks.answers.squad import Answer, Question, read_squad

PASSAGE = "Regard was begun in spring. It is written in Python, by two people. The first release followed in May."


def test_sentences() -> None:
    assert sentences_of(PASSAGE) == [
        "Regard was begun in spring.",
        "It is written in Python, by two people.",
        "The first release followed in May.",
    ]
    assert sentences_of("It costs 3.50 euros. Dr. Who paid.") == ["It costs 3.50 euros.", "Dr.", "Who paid."]
    assert sentences_of("一句。二句！三句") == ["一句。", "二句！", "三句"]
    assert sentences_of(" \n ") == sentences_of("") == []


def test_the_sentence_with_most_words_of_the_question() -> None:
    assert best_sentence("When did the first release follow?", PASSAGE).startswith("The first")
    assert best_sentence("Who has it been written by?", PASSAGE).startswith("It is")
    assert best_sentence("Quoi ?", PASSAGE).startswith("Regard")  # nothing is shared: the first
    assert best_sentence("", "") == best_sentence("Who?", "  ") == ""


def test_rare_words_count_more() -> None:
    passage = "The cat of the house sat. The cat of the house ran. The cat of the house slept. One dog ate."
    assert best_sentence("What did the dog of the cat do?", passage).startswith("The cat")
    assert best_sentence("What did a dog of cats?", passage) == "One dog ate."


def test_a_stretch_without_the_words_of_the_question() -> None:
    assert best_stretch("When did the first release follow?", "The first release was in early May 2020.") == (
        "early May 2020"
    )
    assert best_stretch("How many people?", "There were 1,000 people in Ulm.") == "1,000"
    assert best_stretch("a b c", "A b c.") == "A b c."  # all of it is asked
    assert best_stretch("", "") == ""
    assert len(best_stretch("who", "name " * 10_000).split()) == 10


def test_answers_are_judged() -> None:
    questions = [
        Question("1", "When did the first release follow?", PASSAGE, (Answer("May", None),)),
        Question("2", "Who wrote a 🐈?", PASSAGE),
    ]
    sentence, stretch, nothing = answer_baselines(
        questions, lambda said: answer_figures(said, questions), unanswerable=True
    )
    assert sentence.figures == pytest.approx({"exact": 0, "f1": 50 * 2 / 6})  # one word of five, without the article
    assert stretch.figures["exact"] == 0
    assert (nothing.name, nothing.figures["exact"]) == ("answering nothing", 50)
    assert len(answer_baselines(questions, lambda said: {"n": len(said)})) == 2


def test_squad(data_root: Path) -> None:
    questions = read_squad(data_root / "squad" / "dev-v1.1.json.gz")[::20]
    sentence, stretch = answer_baselines(questions, lambda said: answer_figures(said, questions))
    assert 15 < sentence.figures["f1"] < 25
    assert 3 < stretch.figures["exact"] < 9
