"""Questions from SQuAD files: offsets that hold, places of what is wrong, articles that stay together."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from regard.errors import DataError
from regard.tasks.answers.squad import Answer, Question, _nearest, read_squad, split_by_article

CONTEXT = "In 1973, oil 🛢️ rose; in 1974 it fell."


def write(folder: Path, *answers: dict[str, Any], **more: Any) -> Path:
    asked = {"id": "q1", "question": "When?", "answers": list(answers)} | more
    table = {"version": "2.0", "data": [{"title": "Oil", "paragraphs": [{"context": CONTEXT, "qas": [asked]}]}]}
    path = folder / "x.json"
    path.write_text(json.dumps(table))
    return path


def test_questions_with_their_answers(tmp_path: Path) -> None:
    start = CONTEXT.index("1974")
    path = write(
        tmp_path, {"text": "1974", "answer_start": start}, {"text": "In", "answer_start": 0, "ambiguous": True}
    )
    expected = Question("q1", "When?", CONTEXT, (Answer("1974", start), Answer("In", 0, True)), "Oil")
    assert read_squad(path) == [expected]
    zipped = tmp_path / "x.json.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert read_squad(zipped) == [expected]


def test_answers_are_looked_for_nearby(tmp_path: Path) -> None:
    said: list[str] = []
    place = CONTEXT.rindex("in 1974")
    wrong = [{"text": "in 1974", "answer_start": place + 2}, {"text": "1973", "answer_start": -5}]
    path = write(tmp_path, *wrong, {"text": "1975", "answer_start": 0}, {"text": "x" * 100, "answer_start": 1000})
    found = read_squad(path, say=said.append)[0].answers
    assert [answer.start for answer in found] == [place, 3, None, None]
    assert said == [
        f"{path}: 2 answers were moved to where they stand, the first at data[0].paragraphs[0].qas[0].answers[0]",
        f"{path}: 2 answers stand nowhere in their context, the first at data[0].paragraphs[0].qas[0].answers[2]",
    ]


@pytest.mark.parametrize(("start", "found"), [(0, 0), (3, 0), (5, 8), (7, 8), (9, 8), (11, 8), (13, 16), (99, 16)])
def test_of_several_places_the_nearest_counts(start: int, found: int) -> None:
    assert _nearest("one", "one two one two one", start) == found


def test_impossible_questions_have_no_answers(tmp_path: Path) -> None:
    path = write(tmp_path, is_impossible=True, plausible_answers=[{"text": "1973", "answer_start": 3}])
    assert read_squad(path)[0].answers == ()


@pytest.mark.parametrize(
    ("answers", "ambiguous", "expected"),
    [
        ([("a", 0), ("b", 5), ("b", 5)], True, "b"),
        ([("a", 0, True), ("a", 0, True), ("b", 5)], True, "b"),
        ([("a", 0, True)], True, "a"),
        ([("a", 0, True)], False, None),
        ([("a", None), (" ", 3)], True, None),
        ([], True, None),
    ],
)
def test_the_answer_to_learn(answers: list[tuple], ambiguous: bool, expected: str | None) -> None:
    question = Question("", "", "", tuple(Answer(*answer) for answer in answers))
    found = question.learnable(ambiguous=ambiguous)
    assert (None if found is None else found.text) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "x.json: is empty"),
        ("{", "x.json: not JSON"),
        ("[]", "x.json: an object with 'data' was expected, not list"),
        ("{}", "x.json: has no 'data'; it has: nothing"),
        ('{"data": []}', "x.json: holds no question"),
        ('{"data": [{"title": 1}]}', "x.json: data[0]: has no 'paragraphs'; it has: title"),
        (
            '{"data": [{"paragraphs": [{"context": 3, "qas": []}]}]}',
            "data[0].paragraphs[0]: 'context' is 3; allowed is str",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b"}]}]}]}',
            "data[0].paragraphs[0].qas[0]: has no 'answers'; it has: question",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": [{"text": "a"}]}]}]}]}',
            "qas[0].answers[0]: has no 'answer_start'; it has: text",
        ),
    ],
)
def test_what_is_no_squad_is_said_with_its_place(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(DataError) as error:
        read_squad(path)
    assert message in str(error.value)


def some(n_articles: int) -> list[Question]:
    return [Question(f"{a}-{i}", "?", "c", (), f"article {a}") for a in range(n_articles) for i in range(3 + a % 7)]


def test_articles_stay_together() -> None:
    questions = some(60)
    parts = split_by_article(questions, (0.8, 0.1, 0.1), seed=3)
    titles = [{q.article for q in part} for part in parts]
    assert len(set.union(*titles)) == sum(map(len, titles)) == 60
    assert sorted(q.id for part in parts for q in part) == sorted(q.id for q in questions)
    assert [len(part) / len(questions) for part in parts] == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    assert parts == split_by_article(questions, (0.8, 0.1, 0.1), seed=3)
    assert parts != split_by_article(questions, (0.8, 0.1, 0.1), seed=4)


@pytest.mark.parametrize("seed", range(8))
def test_parts_are_shares_of_the_questions_whatever_the_articles_hold(seed: int) -> None:
    sizes = [1, 50] * 20
    questions = [Question(f"{a}-{i}", "?", "c", (), f"article {a}") for a, n in enumerate(sizes) for i in range(n)]
    parts = split_by_article(questions, (0.5, 0.5), seed=seed)
    assert abs(len(parts[0]) - len(parts[1])) <= 50  # whoever lacks more gets the next article


def test_no_part_is_empty() -> None:
    for seed in range(20):
        assert all(split_by_article(some(3), (0.98, 0.01, 0.01), seed=seed))
    with pytest.raises(DataError, match="2 articles cannot be divided into 3 parts"):
        split_by_article(some(2), (1, 1, 1))


def test_squad_as_it_is(data_root: Path) -> None:
    said: list[str] = []
    questions = read_squad(data_root / "squad" / "dev-v1.1.json.gz", say=said.append)
    assert (len(questions), len({q.article for q in questions}), said) == (10570, 48, [])
    assert all(q.context[a.start :].startswith(a.text) for q in questions for a in q.answers if a.start is not None)
    assert sum(q.learnable(ambiguous=False) is None for q in questions) == 871
