"""Every verb on runs of every task on single texts: what it says, and what it refuses."""

import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image

import tiny_tasks
from regard.config.twins import enabled
from regard.inspection.look import Look

TASKS = list(tiny_tasks.TASKS)
INPUTS = {
    "language": "the cat sees",
    "masked": "the [MASK] sees a dog .",
    "labels": "the dog likes a cat .",
    "answers": "who hears\tso so the cat hears a dog .",
}


def test_a_language_model_goes_on(command, run_of):
    said = command("predict", run_of("language"), "the cat", "the dog sees a")
    first, between, second = said.out.splitlines()
    assert first.startswith("the cat ")
    assert first.split()[2] in tiny_tasks.VERBS
    assert between == ""
    assert second in ("the dog sees a cat .", "the dog sees a dog .")
    record = json.loads(command("predict", run_of("language"), "the cat", "--json", "--beam", 3, "--n-best", 2).out)
    assert record["prompt"] == "the cat"
    assert record["finished"] is True
    assert len(record["alternatives"]) == 1
    assert record["alternatives"][0]["score"] <= record["score"]
    assert "".join(record["tokens"]).replace("▁", " ") == record["text"]


def test_a_text_can_be_watched_as_it_comes(command, run_of):
    whole = command("predict", run_of("language"), "the cat").out
    assert command("predict", run_of("language"), "the cat", "--stream").out == whole
    several = command("predict", run_of("language"), "the cat", "the dog", "--stream")
    assert (several.code, several.out) == (2, "")
    assert "--stream and 2 texts were given; allowed is one text" in several.err
    as_json = command("predict", run_of("language"), "the cat", "--stream", "--json")
    assert as_json.code == 2
    assert "--stream and --json were given" in as_json.err


def test_on_a_terminal_one_text_streams_by_itself(command, run_of, monkeypatch):
    called = []
    monkeypatch.setattr("regard.cli.predict._can_stream", lambda *a, **k: called.append(a) or True)
    out = command("predict", run_of("language"), "the cat").out
    assert called
    monkeypatch.undo()
    assert out.startswith("the cat ")
    assert out.endswith("\n")


def test_a_text_is_over_where_a_stop_string_stands(command, run_of):
    run = run_of("language")
    assert command("predict", run, "the cat", "--stop", " a ").out.split() == ["the", "cat", *_verb(command, run)]
    both = command("predict", run, "the cat", "--stop", "x", "--stop", " a ").out
    assert both == command("predict", run, "the cat", "--stop", " a ").out
    empty = command("predict", run, "the cat", "--stop", "")
    assert empty.code == 2
    assert "a stop string is empty" in empty.err


def _verb(command, run):
    return command("predict", run, "the cat").out.split()[2:3]


def test_samples_are_drawn_and_the_same_again(command, run_of):
    arguments = ("predict", run_of("language"), *["the"] * 3, "decode.strategy=sample", "decode.n_samples=8", "--json")
    records = [json.loads(line) for line in command(*arguments).out.splitlines()]
    texts = [[one["text"], *(other["text"] for other in one["alternatives"])] for one in records]
    assert texts[0] == texts[1] == texts[2], "a repeated line draws the same"
    assert len(texts[0]) == 8
    assert len(set(texts[0])) > 2
    assert [json.loads(line) for line in command(*arguments).out.splitlines()] == records


def test_a_prompt_longer_than_the_context_is_cut_and_said(command, run_of):
    answer = command("predict", run_of("language"), "the cat sees a dog . " * 40 + "the cat")
    assert answer.code == 0
    assert answer.out.rstrip().split()[-1] == "."
    assert "the prompt has 243 tokens and the model reads 16: the first" in answer.err


def test_few_shots_make_a_prompt_and_one_line_of_answer(command, run_of, tmp_path):
    shots = tmp_path / "shots.tsv"
    shots.write_text("the cat\tsees\nthe dog\thears\n")
    arguments = ("predict", run_of("language"), "the cat", "--few-shot", shots, "decode.max_length=3")
    record = json.loads(command(*arguments, "--task", "say what it does", "--json").out)
    assert record["prompt"] == "say what it does\nthe cat => sees\nthe dog => hears\nthe cat =>"
    answer = command(*arguments).out
    assert answer.count("\n") == 1
    assert "=>" not in answer
    gone = command("predict", run_of("language"), "x", "--few-shot", tmp_path / "none.tsv")
    assert gone.code == 1
    assert "no such file" in gone.err


def test_masks_are_filled_and_pairs_judged(command, run_of):
    lines = command("predict", run_of("masked"), INPUTS["masked"], "the cat sees a dog .\tthe dog sees .").out
    filled, judged = lines.splitlines()
    text, guesses = filled.split("\t")
    assert text in ("the cat sees a dog .", "the dog sees a dog .")
    assert Counter(guesses.split()[::2]) == Counter({"▁cat": 1, "▁dog": 1, guesses.split()[4]: 1})
    assert judged.startswith(("follows 0.", "does not follow 0."))
    record = json.loads(command("predict", run_of("masked"), INPUTS["masked"], "--json", "decode.k=2").out)
    assert len(record["masks"][0]) == 2
    assert 0.6 < sum(guess["probability"] for guess in record["masks"][0]) <= 1
    none = command("predict", run_of("masked"), "nothing is hidden")
    assert (none.code, none.out) == (2, "")
    assert "text 1 has no mask" in none.err


def test_texts_become_vectors(command, run_of):
    lines = command("predict", run_of("masked"), "the cat", "the dog", "the cat", "--embed").out.splitlines()
    vectors = np.array([json.loads(line) for line in lines])
    assert vectors.shape == (3, 32)
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    assert np.abs(vectors[0] - vectors[1]).max() > 0.01


def test_labels_with_their_probabilities(command, run_of):
    run = run_of("labels")
    assert command("predict", run, INPUTS["labels"], "the cat sees a cat .").out == "dog\ncat\n"
    record = json.loads(command("predict", run, INPUTS["labels"], "--json").out)
    assert record["label"] == "dog"
    assert set(record["probabilities"]) == {"cat", "dog"}
    assert sum(record["probabilities"].values()) == pytest.approx(1)
    assert record["probability"] == max(record["probabilities"].values())
    cut = command("predict", run, "the dog " * 50)
    assert cut.out == "dog\n"
    assert "1 of 1 texts were cut to 16 tokens" in cut.err


def test_answers_are_pieces_of_the_passage(command, run_of, tmp_path):
    run = run_of("answers")
    assert command("predict", run, INPUTS["answers"]).out == "cat\n"
    (tmp_path / "passage.txt").write_text("so so the dog sees a cat .\n")
    asked = command("predict", run, "who sees", "--context", tmp_path / "passage.txt", "--json", "--n-best", 2)
    record = json.loads(asked.out)
    assert (record["answer"], record["start"], record["end"]) == ("dog", 10, 13)
    assert len(record["alternatives"]) == 1
    alone = command("predict", run, "who sees")
    assert alone.code == 2
    assert "there is no passage to 'who sees'" in alone.err
    assert "hint: write the question, a tab, and the passage" in alone.err
    tab = command("predict", run, "who\tsees", "--context", tmp_path / "passage.txt")
    assert tab.code == 2
    assert "with --context inputs are questions alone" in tab.err


@pytest.mark.parametrize(
    ("task", "option", "its_tasks"),
    [
        ("labels", ("--beam", 3), "translation and language and captions and speech"),
        ("masked", ("--n-best", 2, "--json"), "translation and language and answers and captions and speech"),
        ("language", ("--prefix", "x"), "translation and captions"),
        ("answers", ("--align",), "translation"),
        ("language", ("--ensemble", "x"), "translation and captions"),
        ("labels", ("--stop", "x"), "language"),
        ("masked", ("--stream",), "language"),
        ("answers", ("--few-shot", "x"), "language"),
        ("labels", ("--task", "x"), "language"),
        ("labels", ("--context", "x"), "answers"),
        ("language", ("--embed",), "masked"),
    ],
)
def test_options_that_mean_nothing_to_a_task_are_refused(command, run_of, task, option, its_tasks):
    answer = command("predict", run_of(task), INPUTS[task], *option)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"error: {option[0]} means nothing to a model for {task}\nhint: it is for {its_tasks}\n"


@pytest.mark.parametrize(
    ("task", "setting", "message"),
    [
        ("labels", "decode.k=3", "decode.k means nothing to a classifier"),
        ("masked", "decode.beam=3", "decode.beam is not known; there are k"),
        ("masked", "decode.k=0", "k is 0, from 1"),
        ("answers", "decode.beam=3", "decode.beam is not known; there are n_best, max_answer"),
        ("answers", "decode.n_best=0", "decode.n_best is 0, at least 1"),
        ("language", "decode.k=3", "decode.k is not known"),
    ],
)
def test_settings_are_those_of_the_task(command, run_of, task, setting, message):
    answer = command("predict", run_of(task), INPUTS[task], setting)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err


@pytest.mark.parametrize(
    ("task", "unit", "figures"),
    [
        ("language", "documents", ["loss", "perplexity", "word", "bits", "bits"]),
        ("masked", "documents", ["mlm", "mlm", "nsp", "nsp"]),
        ("labels", "examples", ["accuracy", "macro_f1", "f1", "matthews"]),
        ("answers", "questions", ["exact", "f1"]),
    ],
)
def test_evaluate_measures_what_was_held_out(command, run_of, task, unit, figures):
    head, *lines = command("evaluate", run_of(task)).out.splitlines()
    assert head.endswith(unit)
    assert [line.split()[0] for line in lines] == figures
    record = json.loads(command("evaluate", run_of(task), "--json").out)
    assert record["n"] == int(head.split()[1])


def test_evaluate_agrees_with_what_training_measured(command, run_of):
    for task, name in (("language", "valid"), ("masked", "valid"), ("labels", "valid"), ("answers", "test")):
        facts = json.loads((run_of(task) / "run.json").read_text())["metrics"][name]
        record = json.loads(command("evaluate", run_of(task), "--json").out)["metrics"]
        assert set(facts) == set(record)
        for figure, held in facts.items():
            assert record[figure]["value"] == pytest.approx(held["value"], abs=1e-4), (task, figure)


def test_evaluate_on_other_data(command, run_of, tmp_path):
    good = tiny_tasks.write_labels(tmp_path, "good.tsv", n=20, seed=7)
    record = json.loads(command("evaluate", run_of("labels"), "--data", good, "--json").out)
    assert (record["data"], record["n"]) == (str(good), 20)
    assert record["metrics"]["accuracy"]["value"] == 1
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("text\tlabel\nthe cat sees a cat .\tcow\n")
    refused = command("evaluate", run_of("labels"), "--data", wrong)
    assert refused.code == 1
    assert "the label 'cow' is not among those of the training data: cat, dog" in refused.err
    first = tmp_path / "first.txt"
    first.write_text("the cat sees a dog .\nthe dog hears a dog .\n")
    measured = command("evaluate", run_of("language"), "--data", first, "--json").out
    first.write_text("cat the dog a . sees\ndog dog dog\n")  # the same name, another text
    other = command("evaluate", run_of("language"), "--data", first, "--json").out
    losses = [json.loads(text)["metrics"]["loss"]["value"] for text in (measured, other)]
    assert losses[1] > losses[0] + 2


def test_masked_texts_are_read_anew_when_they_change(command, run_of, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    found = []
    for text in ("the cat sees a dog .\n" * 8, "dog the . a sees cat\n" * 8):
        for name in ("a.txt", "b.txt"):
            (folder / name).write_text(text)
        found.append(json.loads(command("evaluate", run_of("masked"), "--data", folder, "--json").out))
    accuracies = [record["metrics"]["mlm_accuracy"]["value"] for record in found]
    assert accuracies[0] > accuracies[1]


def test_a_smaller_stride_is_fairer(command, run_of):
    wide, narrow = (
        json.loads(command("evaluate", run_of("language"), "--stride", stride, "--json").out)["metrics"]["loss"]
        for stride in (16, 2)
    )
    assert narrow["value"] != wide["value"]
    assert "context 16, stride 2" in narrow["signature"]
    assert command("evaluate", run_of("language"), "--stride", 0).code == 2
    refused = command("evaluate", run_of("labels"), "--stride", 2)
    assert refused.err == "error: --stride means nothing to a model for labels\nhint: it is for language\n"
    decoded = command("evaluate", run_of("language"), "decode.beam=2")
    assert decoded.code == 2
    assert "decode.beam means nothing when a text is measured" in decoded.err


@pytest.mark.parametrize("task", TASKS)
def test_compare_tells_a_trained_model_from_a_new_one(command, run_of, task, tmp_path):
    run = run_of(task)
    steps = ("train.steps=1", "train.epochs=0", "train.eval_every=1", "train.save_every=1", "train.lr=1e-6")
    new = tiny_tasks.train_tiny(task, tmp_path, *steps)
    same = json.loads(command("compare", run, run, "--resamples", 20, "--json").out)
    assert {each["verdict"] for each in same["comparisons"]} == {"no significant difference"}
    data = {
        "labels": tiny_tasks.write_labels(tmp_path, "other.tsv", n=80, seed=5),
        "answers": tiny_tasks.write_questions(tmp_path, n=40, seed=5),
    }.get(task)
    answer = command("compare", run, new, "--resamples", 200, *(["--data", data] if data else []))
    head, *lines = answer.out.splitlines()
    assert "200 resamples, seed 1" in head
    assert any(line.endswith("a is significantly better") for line in lines)
    assert not any("b is significantly better" in line for line in lines)


def test_only_models_of_the_same_kind_are_compared(command, run_of, tmp_path):
    answer = command("compare", run_of("labels"), run_of("answers"))
    assert answer.code == 2
    assert "a model for labels and one for answers cannot be compared" in answer.err
    other = tiny_tasks.train_tiny("labels", tmp_path, numbers=True)
    answer = command("compare", run_of("labels"), other)
    assert answer.code == 2
    assert "the two models have different labels: cat, dog, and numbers" in answer.err


@pytest.mark.parametrize(("task", "n"), [("language", 9), ("masked", 5), ("labels", 5), ("answers", 5)])
def test_verify_measures_every_promise(command, run_of, task, n):
    answer = command("verify", run_of(task), "--n", 6, "--json")
    records = list(map(json.loads, answer.out.splitlines()))
    findings = [record for record in records if record["kind"] == "promise"]
    assert answer.code == 0
    assert len(findings) == n
    if enabled():
        assert {record["kind"] for record in records[n:]} == {"runs"}
        assert "linear layers" in [record["place"] for record in records[n:]]
    else:
        assert records[n:] == []
        assert "what ran: the textbook, everywhere" in answer.err
    assert all(finding["kept"] for finding in findings)
    assert f"all {n} promises hold" in answer.err


def test_verify_finds_a_broken_promise(command, run_of, monkeypatch):
    monkeypatch.setattr("regard.attention.rows.Rows.mask", lambda self: None)  # padding is looked at
    for task in ("masked", "labels", "answers"):
        answer = command("verify", run_of(task), "--n", 6)
        assert answer.code == 1
        assert "FAILS  what padding holds does not matter" in answer.out
        assert "FAILS  a batch of one = a batch of 6" in answer.out


@pytest.mark.parametrize("task", TASKS)
def test_look_tells_draws_and_records(command, run_of, task, tmp_path):
    lines = command("look", run_of(task), INPUTS[task]).out.splitlines()
    seen = [line.split("\t") for line in lines]
    assert {len(parts) for parts in seen} == {3}
    pieces = [parts[0] for parts in seen]
    assert all(parts[1] in pieces for parts in seen)
    assert all(0 < float(parts[2]) <= 1 for parts in seen)
    assert command("look", run_of(task), INPUTS[task], "--out", tmp_path / "a.png").code == 0
    assert Image.open(tmp_path / "a.png").size[0] > 100
    assert command("look", run_of(task), INPUTS[task], "--out", tmp_path / "a.json").code == 0
    record = Look.load(tmp_path / "a.json")
    assert record.target == pieces
    assert command("look", run_of(task), INPUTS[task], "--layer", 3).code == 2
