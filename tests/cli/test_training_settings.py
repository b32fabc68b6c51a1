"""What the command line says about settings, and how it takes them."""

import json
import tomllib

import pytest

import tiny_runs
import tiny_tasks
from regard.cli.train import several_files
from regard.tasks.recipes import make_recipe
from regard.tasks.registry import task_names


def test_help_of_train_names_the_tasks_and_help_of_a_task_its_settings(command):
    verb = command("train", "--help")
    assert verb.code == 0
    assert "regard train TASK --help" in verb.out
    assert all(name in verb.out for name in task_names())
    labels = command("train", "labels", "--help").out
    assert "[decode]" not in labels
    assert "  train.epochs=3.0" in labels
    assert "data.valid_share=0.1" in labels
    assert "(above 0 and below 1)" in labels
    assert "model.cell" in command("train", "translation", "model.name=recurrent", "--help").out
    assert "model.cell" in command("train", "translation/dates", "--help").out
    assert "Options:" in command("train", "--help", "--out", "x").out


@pytest.mark.parametrize("task", ["series", "masked"])
def test_a_task_can_be_shown_as_a_recipe(command, task):
    shown = command("recipes", "show", task)
    assert shown.code == 0
    assert make_recipe(tomllib.loads(shown.out)) == make_recipe({"task": task})
    assert "A small BERT" in command("recipes", "show", "masked/wikitext2").out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("translation --train a b --out x", "translation --train a --train b --out x"),
        ("--train a translation --valid b c", "--train a translation --valid b --valid c"),
        ("translation --train a b train.steps=3 --valid c", "translation --train a --train b train.steps=3 --valid c"),
        ("--train a mine.toml x.y=[1]", "--train a mine.toml x.y=[1]"),
        ("labels --train a labels", "labels --train a --train labels"),
        ("labels --train - --out x --resume", "labels --train - --out x --resume"),
        ("--resume --out x train.steps=3", "--resume --out x train.steps=3"),
    ],
)
def test_an_option_takes_several_files(words, expected):
    assert several_files(words.split(), ("--train", "--valid")) == expected.split()


def test_two_parallel_texts_are_given_as_the_hint_says(command, tmp_path):
    train, valid = (tiny_runs.write_pairs(tmp_path, name, n=40, seed=1) for name in ("train", "valid"))
    given = ["model.name=transformer", "model.d_model=16", "model.n_heads=2", "model.d_feedforward=16",
             "model.n_encoder_layers=1", "model.n_decoder_layers=1", "data.overlap=keep", "tokenizer.kind=words",
             "train.steps=2", "train.device=cpu", "train.plan=off"]  # fmt: skip
    answer = command("train", "translation", "--train", *train, "--valid", *valid, *given, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert "train.eval_every is 500 and train.steps 2: nothing is evaluated" in answer.err
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["data"]["train"] == [str(path) for path in train]
    assert "epochs" not in config["train"]
    files = ("--train", train[0], tmp_path / "gone.de", "--valid", *valid)
    gone = command("train", "translation", *files, "--out", tmp_path / "other")
    assert gone.code == 1
    assert "gone.de" in gone.err


def test_steps_that_are_given_are_trained_and_the_run_goes_on_by_its_old_names(command, tmp_path):
    given = [word for word in tiny_tasks.labels(tmp_path) if not str(word).startswith(("train.epochs", "train.steps"))]
    answer = command("train", *given, "train.steps=5", "train.eval_every=5", "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert json.loads((tmp_path / "run" / "run.json").read_text())["training"]["step"] == 5
    config = tmp_path / "run" / "config.toml"
    text = config.read_text()
    assert "cuda_graphs" in text
    config.write_text(text.replace("cuda_graphs", "graphs").replace("final_lr_ratio", "final_rate"))
    (tmp_path / "run" / "hashes.json").unlink()  # there were none then
    again = command("train", "--resume", "--out", tmp_path / "run", "train.steps=7", "train.eval_every=7")
    assert again.code == 0, again.err
    assert "going on after step 5" in again.err
    assert "cuda_graphs" in config.read_text()


def test_a_run_with_old_names_in_its_data_goes_on(command, tmp_path):
    given = tiny_tasks.masked(tmp_path)
    run = tmp_path / "run"
    assert command("train", *given, "data.short=0.3", "--out", run).code == 0
    config = run / "config.toml"
    assert "short_sequences = 0.3" in config.read_text()
    config.write_text(config.read_text().replace("short_sequences", "short"))
    (run / "hashes.json").unlink()
    again = command("train", *given, "data.short_sequences=0.3", "--resume", "--out", run)
    assert again.code == 0, again.err
    other = command("train", *given, "data.short=0.4", "--resume", "--out", run)
    assert other.code == 2
    assert "data.short_sequences: 0.3 → 0.4" in other.err
