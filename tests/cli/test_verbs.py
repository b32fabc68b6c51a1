"""The verbs that use a trained model: what they write, and where."""

import json

import numpy as np
import pytest
from PIL import Image

import tiny_runs
from regard.config.twins import enabled
from regard.inspection.look import Look
from regard.metrics.comparing import Comparison, verdict
from regard.tasks.registry import task_names


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.train_tiny(tmp_path_factory.mktemp("verbs"))


@pytest.fixture(scope="module")
def worse(tmp_path_factory):
    return tiny_runs.train_tiny(tmp_path_factory.mktemp("worse"), "train.steps=40", "train.eval_every=40")


def test_predict_takes_arguments_a_file_or_standard_input(command, folder, tmp_path):
    expected = "eins zwei\n\nzehn\n"
    lines = "one two\n\nten\n"
    (tmp_path / "in.txt").write_text(lines)
    assert command("predict", folder, "one two", "", "ten").out == expected
    assert command("predict", folder, "--input", tmp_path / "in.txt").out == expected
    piped = command("predict", folder, stdin=lines)
    assert (piped.code, piped.out, piped.err) == (0, expected, "")
    assert command("predict", folder, stdin="").out == ""
    both = command("predict", folder, "one", "--input", tmp_path / "in.txt")
    assert both.code == 2
    assert both.err.startswith("error: there are texts to predict for and --input")


def test_predict_keeps_every_line_in_its_place(command, folder, monkeypatch):
    monkeypatch.setattr("regard.tasks.predicting.inputs.CHUNK", 7)
    lines = ["one", "", "two three", "   ", "ten nine eight"] * 6
    out = command("predict", folder, stdin="\n".join(lines) + "\n").out
    assert out == "".join(f"{tiny_runs.translate(line)}\n" for line in lines)


def test_chunks_do_not_change_what_is_drawn(command, folder, monkeypatch):
    arguments = ("predict", folder, "decode.strategy=sample", "decode.temperature=5", "decode.max_length=6")
    lines = "one two\nthree\nfour five\nsix one\n" * 3
    whole = command(*arguments, stdin=lines).out
    monkeypatch.setattr("regard.tasks.predicting.inputs.CHUNK", 3)
    assert command(*arguments, stdin=lines).out == whole
    drawn = whole.splitlines()
    assert drawn[:4] == drawn[4:8] == drawn[8:], "equal lines draw the same"
    assert len(set(drawn)) == 4


def test_predict_as_json(command, folder):
    answer = command("predict", folder, "one two", "", "--json", "--beam", 3, "--n-best", 2, "--align")
    first, second = map(json.loads, answer.out.splitlines())
    assert set(first) == {"text", "score", "log_prob", "tokens", "alternatives", "alignment"}
    assert first["text"] == "eins zwei"
    assert first["tokens"] == ["▁eins", "▁zwei"]
    assert first["alignment"] == [[0, 0], [1, 1]]
    assert len(first["alternatives"]) == 1
    assert first["alternatives"][0]["score"] < first["score"]
    assert second == {
        "text": "", "score": 0.0, "log_prob": 0.0, "tokens": [], "alternatives": [], "alignment": []
    }  # fmt: skip


def test_predict_settings_and_their_mistakes(command, folder):
    assert command("predict", folder, "one two", "decode.max_length=1").out == "eins\n"
    assert command("predict", folder, "one two", "--prefix", "drei").out.startswith("drei")
    assert command("predict", folder, "one two", "--align").out == "eins zwei\t0-0 1-1\n"
    wrong = command("predict", folder, "one", "decode.baem=3")
    assert (wrong.code, wrong.out) == (2, "")
    assert "did you mean decode.beam?" in wrong.err
    other = command("predict", folder, "one", "train.lr=3")
    assert other.code == 2
    assert "hint: what can be set is decode.key=value" in other.err
    several = command("predict", folder, "one", "--beam", 3, "--n-best", 3)
    assert several.code == 2
    assert "hint: --json shows all of them" in several.err


def test_an_ensemble_votes_and_a_stranger_may_not(command, folder, tmp_path):
    assert command("predict", folder, "one two", "--ensemble", folder).out == "eins zwei\n"
    stranger = tiny_runs.train_tiny(tmp_path, "train.steps=1", "train.eval_every=1", "tokenizer.kind=chars")
    answer = command("predict", folder, "one two", "--ensemble", stranger)
    assert answer.code == 2
    assert answer.err.startswith("error: model 2 of the ensemble has other vocabularies")


def test_evaluate_scores_the_recipes_test_sets(command, folder, tmp_path):
    answer = command("evaluate", folder, "--by-length", "--out", tmp_path / "out" / "h.txt")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "numerals: 40 pairs"
    assert [line.split()[0] for line in lines[1:6]] == ["BLEU", "chrF", "TER", "exact", "loss"]
    assert "tok:13a" in lines[1]
    assert float(lines[1].split()[1]) > 95
    assert float(lines[5].split()[1]) < 0.1
    assert any(line.split() == ["0–9", "40", lines[1].split()[1]] for line in lines)
    written = (tmp_path / "out" / "h.txt").read_text().splitlines()
    references = (folder.parent / "test.de").read_text().splitlines()
    assert len(written) == 40
    assert np.mean([one == other for one, other in zip(written, references, strict=True)]) > 0.9


def test_evaluate_on_other_data_as_json(command, folder, tmp_path):
    source, target = tiny_runs.write_pairs(tmp_path, "other", n=9, seed=5)
    answer = command("evaluate", folder, "--data", source, target, "--json", "decode.beam=2")
    record = json.loads(answer.out)
    assert (record["data"], record["n"]) == (str(source), 9)
    assert set(record["metrics"]) == {"bleu", "chrf", "ter", "exact match", "loss"}
    assert record["metrics"]["exact match"]["value"] > 0.8
    assert 0 < record["metrics"]["loss"]["value"] < 0.2
    twice = command("evaluate", folder, "--data", source, "--data", target, "--json", "decode.beam=2")
    assert twice.out == answer.out
    table = tmp_path / "pairs.tsv"
    table.write_text("one\teins\ntwo\tdrei\n")
    assert json.loads(command("evaluate", folder, "--data", table, "--json").out)["metrics"]["exact match"][
        "value"
    ] == pytest.approx(0.5)


def test_compare_tells_a_better_model_from_chance(command, folder, worse):
    answer = command("compare", folder, worse, "--resamples", 200)
    assert answer.code == 0
    head, *lines = answer.out.splitlines()
    assert head == f"numerals: 40 pairs, 200 resamples, seed 1; a = {folder}, b = {worse}"
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF", "TER"]
    assert all(line.endswith("a is significantly better") for line in lines)
    record = json.loads(command("compare", folder, folder, "--resamples", 20, "--json").out)
    assert {each["verdict"] for each in record["comparisons"]} == {"no significant difference"}


@pytest.mark.parametrize(
    ("name", "difference", "p", "words"),
    [
        ("BLEU", 1.0, 0.01, "b is significantly better"),
        ("BLEU", -1.0, 0.01, "a is significantly better"),
        ("TER", -1.0, 0.01, "b is significantly better"),
        ("TER", 1.0, 0.01, "a is significantly better"),
        ("loss", -1.0, 0.01, "b is significantly better"),
        ("WER", -1.0, 0.01, "b is significantly better"),
        ("CER", 1.0, 0.01, "a is significantly better"),
        ("f1", -1.0, 0.01, "a is significantly better"),
        ("BLEU", 1.0, 0.05, "no significant difference"),
    ],
)
def test_less_is_better_for_errors_only(name, difference, p, words):
    assert verdict(Comparison(name, 1.0, 1.0, difference, 0.0, 0.0, p, 10, "")) == words


def test_verify_measures_every_promise(command, folder):
    answer = command("verify", folder, "--n", 8, "--json")
    records = list(map(json.loads, answer.out.splitlines()))
    assert answer.code == 0
    assert [record["kind"] for record in records[:9]] == ["promise"] * 9
    assert all(record["kept"] for record in records[:9])
    if enabled():
        assert {record["kind"] for record in records[9:]} == {"runs"}
        assert {record["place"] for record in records[9:]} > {"attention", "decoder stack", "search"}
    assert "on 8 pairs of numerals" in answer.err


def test_verify_finds_a_broken_promise(command, folder, monkeypatch):
    monkeypatch.setattr("regard.attention.rows.Rows.mask", lambda self: None)  # padding is looked at
    answer = command("verify", folder, "--n", 8)
    assert answer.code == 1
    assert "FAILS  what padding holds does not matter" in answer.out
    assert "FAILS  how much padding there is does not matter" in answer.out
    assert "error:" in answer.err


def test_verify_does_without_the_data(command, folder):
    for name in ("test.en", "test.de"):
        (folder.parent / name).rename(folder.parent / f"{name}.away")
    try:
        answer = command("verify", folder, "--n", 6)
    finally:
        for name in ("test.en", "test.de"):
            (folder.parent / f"{name}.away").rename(folder.parent / name)
    assert answer.code == 0
    assert "sentences of random pieces" in answer.err


def test_look_draws_records_or_tells(command, folder, tmp_path):
    assert command("look", folder, "one two").out.splitlines()[0].startswith("eins\tone\t0.")
    assert command("look", folder, "one two", "--out", tmp_path / "new" / "a.png").code == 0
    assert Image.open(tmp_path / "new" / "a.png").size[0] > 100
    assert command("look", folder, "one two", "--target", "zehn", "--out", tmp_path / "r.json").out == ""
    assert Look.load(tmp_path / "r.json").target == ["▁zehn", "</s>"]
    assert command("look", folder, "one two", "--out", tmp_path / "page.html").err.endswith("page.html\n")
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    wrong = command("look", folder, "one two", "--out", "a.gif")
    assert wrong.code == 2
    assert "allowed are names that end in .png" in wrong.err


def test_recipes_are_listed_shown_copied_and_checked(command, tmp_path):
    listed = command("recipes").out
    assert "translation/dates" in listed
    assert "Human-written dates" in listed
    shown = command("recipes", "show", "dates").out
    assert 'synthetic = "dates"' in shown
    assert command("recipes", "copy", "dates", tmp_path).code == 0
    copy = tmp_path / "dates.toml"
    assert copy.read_text() == shown
    assert command("recipes", "copy", "dates", copy).code == 2
    assert command("recipes", "check", copy).code == 0
    copy.write_text(shown.replace("steps", "stpes").replace("d_hidden", "d_hiden"))
    checked = command("recipes", "check", copy)
    assert checked.code == 2
    assert "did you mean train.steps?" in checked.err
    assert "did you mean model.d_hidden?" in checked.err
    assert command("recipes", "show", "daets").err.endswith("hint: did you mean dates?\n")


def test_recipes_are_listed_by_task(command):
    tasks = [line.split("/")[0] for line in command("recipes").out.splitlines()]
    assert tasks[0] == "translation"
    assert list(dict.fromkeys(tasks)) == [task for task in task_names() if task in tasks]
    assert len(tasks) == sum(len(command("recipes", "--task", task).out.splitlines()) for task in task_names())
    assert "language/shakespeare-tiny" in command("recipes", "--task", "language").out
    assert "--task cooking: there are translation, language" in command("recipes", "--task", "cooking").err


def test_every_shipped_recipe_is_in_order(command):
    names = [line.split()[0] for line in command("recipes").out.splitlines()]
    assert len(names) >= 3
    for name in names:
        assert command("recipes", "check", name).code == 0


def test_the_command_explains_itself(command):
    assert command().out == command("--help").out
    assert "predict" in command("--help").out
    for arguments in (["predict"], ["predict", "run", "--nope"], ["recipes", "shwo"], ["verify", "run", "--n", "many"]):
        answer = command(*arguments)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: ")
        assert answer.err.splitlines()[-1].endswith("--help")
