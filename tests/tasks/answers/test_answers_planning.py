"""What is planned for questions, and that one article is enough to train and to choose by."""

import json
from pathlib import Path

import pytest
import torch

from regard.checkpoints.run import RunFolder
from regard.errors import DataError
from regard.tasks.answers.planning import plan_answers
from regard.tasks.answers.squad import Question, split_by_question
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train, with_plan
from regard.training.plan import Plan
from regard.training.setup import RunContext
from tiny_tasks import write_questions


def planned(path: Path, *given: str) -> Plan:
    recipe = make_recipe(find_recipe("answers") | {"data": {"train": [str(path)]}}, given)
    plan = plan_answers(recipe, RunContext(RunFolder(path.parent / "run"), device=torch.device("cpu")))
    with_plan(recipe, plan)  # it is a recipe
    return plan


def one_article(folder: Path, n: int) -> Path:
    path = write_questions(folder, n=n)
    table = json.loads(path.read_text(encoding="utf-8"))
    paragraphs = [paragraph for article in table["data"] for paragraph in article["paragraphs"]]
    path.write_text(json.dumps({"data": [{"title": "all", "paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def test_fine_tuning_takes_small_steps_and_few_passes(tmp_path: Path) -> None:
    path = write_questions(tmp_path, n=200)
    anew, tuned = planned(path), planned(path, "model.start=weights/minilm")
    assert anew.data == tuned.data == "200 articles, 200 questions"
    assert tuned.settings["train"] == {"batch_examples": 16, "lr": 5e-5}
    assert "model" not in tuned.settings
    assert anew.settings["model"]["backbone"]["d_model"] == 64
    assert tuned.steps < anew.steps


def test_windows_are_as_long_as_the_passages(tmp_path: Path) -> None:
    assert planned(write_questions(tmp_path)).settings["data"]["max_tokens"] == 32
    long = one_article(tmp_path, 8)
    table = json.loads(long.read_text(encoding="utf-8"))
    for paragraph in table["data"][0]["paragraphs"]:
        paragraph["context"] += " and so on" * 400
    long.write_text(json.dumps(table), encoding="utf-8")
    assert planned(long).settings["data"]["max_tokens"] == 256


def test_questions_without_answers_may_be_left_unanswered(tmp_path: Path) -> None:
    path = write_questions(tmp_path)
    assert "decode" not in planned(path).settings
    table = json.loads(path.read_text(encoding="utf-8"))
    for article in table["data"][::2]:
        article["paragraphs"][0]["qas"][0]["answers"] = []
    path.write_text(json.dumps(table), encoding="utf-8")
    assert planned(path).settings["decode"] == {"no_answer": True}


@pytest.mark.parametrize("n", [2, 3, 30])
def test_one_article_is_split_by_question(tmp_path: Path, n: int) -> None:
    path = one_article(tmp_path, n)
    given = ["train.device=cpu", "train.steps=2", "train.n_samples=0"]
    recipe = make_recipe(find_recipe("answers") | {"data": {"train": [str(path)]}}, given)
    said: list[str] = []
    facts = train(recipe, tmp_path / "run", data_root=None, resume=False, say=said.append)
    assert (
        said[0] == "one article is too few to split by article: split by question, so that passages are on both sides"
    )
    assert any(line.startswith(f"1 article, {n} questions → span-reader") for line in said)
    assert set(facts["metrics"]) == ({"valid"} if n == 2 else {"valid", "test"})


def test_parts_by_question() -> None:
    questions = [Question(str(i), "?", "text") for i in range(20)]
    parts = split_by_question(questions, (0.8, 0.1, 0.1), seed=1)
    assert [len(part) for part in parts] == [16, 2, 2]
    assert sorted(int(q.id) for part in parts for q in part) == list(range(20))
    assert parts == split_by_question(questions, (0.8, 0.1, 0.1), seed=1)
    assert parts != split_by_question(questions, (0.8, 0.1, 0.1), seed=2)
    assert [len(part) for part in split_by_question(questions[:2], (0.8, 0.1, 0.1))] == [1, 1]
    assert [len(part) for part in split_by_question(questions[:4], (0.02, 0.49, 0.49))] == [1, 1, 2]
    with pytest.raises(DataError, match="one question cannot be divided") as problem:
        split_by_question(questions[:1], (0.8, 0.2))
    assert "--valid FILE" in str(problem.value.hint)
