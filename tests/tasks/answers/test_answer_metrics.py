"""Exact match and F1 as SQuAD's script counts them, on cases worked by hand and on its own rules."""

import pytest

from regard.errors import UsageError
from regard.tasks.answers.metrics import answer_figures, answer_metrics, exact, f1, normal_words, scores
from regard.tasks.answers.squad import Answer, Question


def question(*answers: str) -> Question:
    return Question("", "", "", tuple(Answer(text, 0) for text in answers))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The  Cat's\t(best) hat!", ["cats", "best", "hat"]),
        ("an apple a day", ["apple", "day"]),
        ("theatre", ["theatre"]),
        ("$1,000.50", ["100050"]),
        ("the-end", ["theend"]),
        ("a–b", ["–b"]),  # only ASCII punctuation goes; an article ends at a dash
        ("Ünï 🐕", ["ünï", "🐕"]),
        ("The", []),
    ],
)
def test_words_that_count(text: str, words: list[str]) -> None:
    assert normal_words(text) == words


@pytest.mark.parametrize(
    ("said", "answer", "em", "overlap"),
    [
        ("October 1973", "october, 1973", 1, 1),
        ("in October 1973", "October 1973", 0, 0.8),
        ("Denver Broncos", "The Denver Broncos", 1, 1),
        ("the the cat cat", "cat", 0, 2 / 3),
        ("very very good", "very very bad", 0, 2 / 3),  # two of three each, though it is one word
        ("cat cat cat", "cat cat", 0, 0.8),
        ("dog", "cat", 0, 0),
        ("", "cat", 0, 0),
        ("", "", 1, 1),
        ("a", "", 1, 1),
    ],
)
def test_pairs_worked_by_hand(said: str, answer: str, em: float, overlap: float) -> None:
    assert exact(said, answer) == em
    assert f1(said, answer) == pytest.approx(overlap)
    assert f1(answer, said) == pytest.approx(overlap)


def test_the_best_answer_counts() -> None:
    assert scores("the dog", question("cat", "dog", "big dog")) == (1, 1)
    assert scores("", question()) == (1, 1)
    assert scores("dog", question()) == (0, 0)
    assert scores("dog", question("the", "dog")) == (1, 1)  # an answer of nothing that counts does not count


def test_figures_with_intervals() -> None:
    questions = [question("dog")] * 30 + [question()] * 10
    said = ["dog"] * 15 + ["big dog"] * 15 + [""] * 5 + ["cat"] * 5
    plain = answer_figures(said, questions)
    assert plain == {"exact": pytest.approx(50), "f1": pytest.approx((15 + 15 * 2 / 3 + 5) / 40 * 100)}
    found = answer_metrics(said, questions)
    assert list(found) == ["exact", "f1", "answerable_exact", "answerable_f1", "unanswerable_exact", "unanswerable_f1"]
    assert {name: metric.value for name, metric in found.items()} == pytest.approx(
        plain | {"answerable_exact": 50, "answerable_f1": 250 / 3, "unanswerable_exact": 50, "unanswerable_f1": 50}
    )
    for metric in found.values():
        assert metric.low is not None
        assert metric.high is not None
        assert metric.low < metric.value < metric.high
    assert found["f1"].signature == "squad|n:40|ci:95%|bootstrap:1000|seed:1"
    assert found == answer_metrics(said, questions)
    assert list(answer_metrics(said[:30], questions[:30])) == ["exact", "f1"]


def test_answers_and_questions_have_to_pair_up() -> None:
    with pytest.raises(UsageError, match="1 answers to 2 questions; one each is needed"):
        answer_figures(["a"], [question()] * 2)
    with pytest.raises(UsageError, match="0 answers to 0 questions"):
        answer_figures([], [])
