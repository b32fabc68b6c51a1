"""Inputs of people who make mistakes, for the tasks on single texts: an error line, a hint, an exit code."""

import json
import shutil

import pytest

import tiny_tasks


def assert_refused(answer, code, error, hint=""):
    """One error that says it, a hint that helps, the exit code, nothing on stdout and no traceback."""
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert answer.err.count("error: ") == 1
    assert error in answer.err
    assert hint in "".join(line for line in answer.err.splitlines() if line.startswith("hint: "))


@pytest.mark.parametrize("task", tiny_tasks.TASKS)
def test_training_needs_data_that_is_there(command, tmp_path, task):
    _, _, *rest = tiny_tasks.TASKS[task](tmp_path)
    nothing = command("train", task, *rest, "--out", tmp_path / "run")
    assert_refused(nothing, 2, "data.train names no", "--train FILE")
    gone = command("train", task, *rest, "--train", tmp_path / "gone", "--out", tmp_path / "run")
    assert_refused(gone, 1, "gone")
    assert not (tmp_path / "run" / "config.toml").exists()


@pytest.mark.parametrize(("task", "name"), [("language", "a.txt"), ("masked", "a.txt"), ("labels", "a.tsv")])
def test_an_empty_file(command, tmp_path, task, name):
    _, _, *rest = tiny_tasks.TASKS[task](tmp_path)
    (tmp_path / name).write_text("")
    answer = command("train", task, *rest, "--train", tmp_path / name, "--out", tmp_path / "run")
    assert_refused(answer, 1, "is empty", "at least one line is needed")


def test_a_question_file_that_is_none(command, tmp_path):
    _, _, *rest = tiny_tasks.answers(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    answer = command("train", "answers", *rest, "--train", tmp_path / "a.json", "--out", tmp_path / "run")
    assert_refused(answer, 1, "a.json")
    (tmp_path / "b.json").write_text("")
    answer = command("train", "answers", *rest, "--train", tmp_path / "b.json", "--out", tmp_path / "run")
    assert_refused(answer, 1, "b.json")


def test_an_unknown_column_and_an_unknown_layout(command, tmp_path):
    given = tiny_tasks.labels(tmp_path)
    answer = command("train", *given, "data.text=txt", "data.label=label", "--out", tmp_path / "run")
    assert_refused(answer, 1, "txt", "text")
    (tmp_path / "labels.tsv").write_text("one\ttwo\tthree\nthe cat\tcat\t7\n")
    answer = command("train", *given, "--out", tmp_path / "run")
    assert_refused(answer, 1, "labels.tsv:1", 'data.text="one" data.label="two"')


def test_settings_of_another_task_or_model(command, tmp_path):
    given = tiny_tasks.labels(tmp_path)
    assert_refused(
        command("train", *given, "data.context=3", "--out", tmp_path / "run"), 2, "data.context is not known"
    )
    wrong = command("train", *given, "model.backbone={ name = 'brt' }", "--out", tmp_path / "run")
    assert_refused(wrong, 2, "no model is called 'brt'", "did you mean bert?")
    heavy = command("train", *given, "train.lm_weight=0.5", "--out", tmp_path / "run")
    assert_refused(heavy, 2, "train.lm_weight is for a language model below the head, and this one stands on a bert")
    other = command("train", *tiny_tasks.language(tmp_path), "model.name=bert", "--out", tmp_path / "run")
    assert_refused(other, 2, "model.name = 'bert': the task's models are gpt")
    folder = command("train", *given, "model.start=nowhere", "--out", tmp_path / "run")
    assert_refused(folder, 1, "nowhere: there is no such file here", "REGARD_DATA")


def test_a_start_that_cannot_be_one(command, run_of, tmp_path):
    given = [*tiny_tasks.labels(tmp_path), "model.backbone={}"]
    (tmp_path / "empty").mkdir()
    answer = command("train", *given, f"model.start={tmp_path / 'empty'}", "--out", tmp_path / "run")
    assert_refused(answer, 1, "neither a run (it has no config.toml) nor a model of others", "regard train")
    copy = shutil.copytree(run_of("masked"), tmp_path / "unfinished")
    (copy / "model.safetensors").unlink()
    answer = command("train", *given, f"model.start={copy}", "--out", tmp_path / "run")
    assert_refused(answer, 1, "the run has no weights yet", "--resume")
    settings = tiny_tasks.language(tmp_path)
    answer = command("train", *settings, f"model.start={run_of('masked')}", "--out", tmp_path / "run")
    assert_refused(answer, 2, "is a bert; model.name says 'gpt'")


@pytest.mark.parametrize("task", tiny_tasks.TASKS)
def test_a_run_whose_weights_are_cut_short(command, run_of, task, tmp_path):
    copy = shutil.copytree(run_of(task), tmp_path / "run")
    whole = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert_refused(command("predict", copy, "x\ty"), 1, "model.safetensors: damaged", "--no-check")
    unchecked = ("predict", copy, "x\ty", "--no-check")
    assert_refused(command(*unchecked), 1, "not a whole safetensors file", "cut short")
    (copy / "model.json").write_text("{}")
    assert_refused(command("predict", copy, "x\ty"), 1, "model.json: damaged", "--no-check")
    assert_refused(command(*unchecked), 1, "not a description of a model")


STRANGE = "😀 naïve ﬁ \u202e\u0301 日本語 \x07 <s> [MASK] </s>"


@pytest.mark.parametrize("task", tiny_tasks.TASKS)
@pytest.mark.parametrize(
    "text", [STRANGE, "the cat " * 10_000, "", " ", "."], ids=["emoji", "long", "empty", "space", "."]
)
def test_any_text_is_answered_or_refused(command, run_of, task, text):
    given = {"masked": f"[MASK] {text}", "answers": f"who sees\t{text}"}.get(task, text)
    answer = command("predict", run_of(task), given, "--json")
    assert "Traceback" not in answer.err
    if answer.code:
        assert_refused(answer, 2, "text 1 has 20001 pieces, the model reads 30 at most")
    else:
        assert isinstance(json.loads(answer.out), dict)


@pytest.mark.parametrize("task", tiny_tasks.TASKS)
def test_what_standard_input_holds_is_answered_line_by_line(command, run_of, task):
    lines = {
        "language": "the cat\r\nthe dog\r\n",
        "masked": "the [MASK] sees\r\nthe [MASK] .\r\n",
        "labels": "the cat sees a dog .\r\nthe dog sees a cat .\r\n",
        "answers": "who sees\tthe cat sees a dog .\r\nwho hears\tthe dog hears a cat .\r\n",
    }[task]
    answer = command("predict", run_of(task), "--json", stdin=lines)
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 2
    assert "\\r" not in answer.out
    assert command("predict", run_of(task), stdin="").out == ""


def test_a_line_in_another_encoding(command, run_of, tmp_path):
    (tmp_path / "latin.txt").write_bytes("café\n".encode("latin-1"))
    answer = command("predict", run_of("labels"), "--input", tmp_path / "latin.txt")
    assert (answer.code, "latin.txt: read as Windows-1252" in answer.err) == (0, True)
    (tmp_path / "mixed.txt").write_bytes("café\n".encode() + "café\n".encode("latin-1"))
    answer = command("predict", run_of("labels"), "--input", tmp_path / "mixed.txt")
    assert_refused(answer, 1, "mixed.txt:2: not UTF-8", "iconv")


def test_a_text_too_long_to_look_at(command, run_of):
    answer = command("look", run_of("language"), "the cat " * 100)
    assert_refused(answer, 2, "tokens and the model reads 16", "shorter")
    assert_refused(command("look", run_of("labels"), "x", "--target", "y"), 2, "")
