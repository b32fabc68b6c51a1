"""What a run leaves for whoever comes back to it: a card, a date, and weights that can be used wherever it stopped."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from safetensors.torch import load_file

from regard.tasks.facts.card import keep_card, write_card

GOLDEN = Path(__file__).parents[1] / "golden"
ASKED = {
    "translation": "one two three",
    "language": "the cat",
    "masked": "the cat <mask> a dog .",
    "labels": "the cat sees a dog .",
    "answers": "who sees\tso the bird sees a cat .",
    "images": "data/images/test/lying/0.png",
    "captions": "data/captions/pictures/red-blue-2.png",
    "speech": "data/speech/test-0.wav",
    "series": "data/series/hours.csv",
}
ENDLESS = ["train.plan=off", "train.eval_every=1000000", "train.save_every=1000000", "train.log_every=1"]


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """A folder with copies of the golden data and of the run that the reader begins with, where commands are given."""
    for name in ("data", "finished/masked"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return tmp_path


def recipe(task):
    return GOLDEN / "finished" / task / "config.toml"


# ---- cards


def test_a_run_is_left_with_a_card(command, here):
    words = ["train", recipe("labels"), "train.epochs=1", "--out", "run"]
    assert command(*words).code == 0
    card = here / "run" / "README.md"
    text = card.read_text()
    assert text.startswith(f"{write_card('run')}\n<!-- written by regard (")
    assert text.startswith("# run\n\nThis model gives a text a label")
    assert f"It was finished on {datetime.now(UTC):%Y-%m}" in text
    again = ["train", "--resume", "--out", "run", "train.epochs=2"]
    assert command(*again).code == 0
    later = card.read_text()
    assert later != text, "regard's own card is written anew"
    card.write_text(later.replace("It does what", "Ask Ada. It does what"))
    assert command("train", "--resume", "--out", "run", "train.epochs=3").code == 0
    assert "Ask Ada." in card.read_text(), "what a person changed stays"


def test_a_readme_of_a_person_stays(here):
    (here / "mine").mkdir()
    (here / "mine" / "README.md").write_text("mine")
    assert not keep_card("mine", "theirs\n")
    (here / "mine" / "README.md").write_bytes(b"\xff\xfe")
    assert not keep_card("mine", "theirs\n")
    (here / "mine" / "README.md").unlink()
    assert keep_card("mine", "theirs\n")
    assert keep_card("mine", "theirs, later\n")
    assert (here / "mine" / "README.md").read_text().startswith("theirs, later\n\n<!-- written by regard (")


def test_word_vectors_have_a_card_too(command, here):
    assert command("train", recipe("words"), "train.epochs=1", "--out", "run").code == 0
    assert "This model gives words vectors" in (here / "run" / "README.md").read_text()


def test_an_exported_model_takes_a_card_along(command, here):
    run = GOLDEN / "finished" / "masked"
    answer = command("export", run, "--to", "hf", "--out", "theirs")
    assert answer.code == 0, answer.err
    card = (here / "theirs" / "README.md").read_text()
    assert card.startswith("# theirs\n\nThis model guesses the words")
    assert "in the layout that `transformers` opens" in card
    assert f"It was exported from the run `{run}`." in card
    assert "regard predict theirs " in card
    assert "regard evaluate theirs --data test.txt" in card
    assert f"`regard train {run / 'config.toml'} --out runs/again`" in card
    assert command("export", "theirs", "--to", "hf", "--out", "again").code == 0
    assert not (here / "again" / "README.md").exists(), "of a model of others nothing is known"


# ---- dates


def test_a_run_says_when_it_was_finished(command, here):
    before = datetime.now(UTC).replace(microsecond=0)
    assert command("train", recipe("labels"), "train.epochs=1", "--out", "runs/new").code == 0
    date = json.loads((here / "runs" / "new" / "run.json").read_text())["date"]
    assert before <= datetime.fromisoformat(date) <= datetime.now(UTC)
    assert date.endswith("Z")
    shown = date.replace("T", " ").removesuffix("Z")
    assert f"finished on {shown} UTC; last written" in command("info", "runs/new").out
    assert json.loads(command("info", "runs/new", "--json").out)["date"] == date


def test_runs_are_listed_by_their_dates(command, here):
    for name, age in (("old", 400), ("older", 800)):
        run = Path(shutil.copytree(GOLDEN / "finished" / "labels", here / "runs" / name))
        facts = json.loads((run / "run.json").read_text())
        then = datetime.now(UTC) - timedelta(days=age)
        (run / "run.json").write_text(json.dumps(facts | {"date": then.strftime("%Y-%m-%dT%H:%M:%SZ")}))
        os.utime(run / "run.json", (time.time() + age, time.time() + age))  # the older one was copied later
    lines = command("runs").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["old", "older"]
    year = (datetime.now(UTC) - timedelta(days=800)).strftime("%Y-")
    assert year in lines[1]
    odd = here / "runs" / "odd"
    shutil.copytree(GOLDEN / "finished" / "labels", odd)
    facts = json.loads((odd / "run.json").read_text())
    (odd / "run.json").write_text(json.dumps(facts | {"date": "last week"}))
    answer = command("runs")
    assert (answer.code, len(answer.out.splitlines())) == (0, 4)


# ---- stopped before the first evaluation


@contextmanager
def pressing_ctrl_c(run: Path) -> Iterator[None]:
    """Ctrl-C comes once a step was reported."""
    over = threading.Event()

    def press() -> None:
        while not over.wait(0.01):
            if (run / "metrics.jsonl").exists():
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def endless(task):
    many = "train.epochs=100000" if task in ("labels", "answers") else "train.steps=1000000"
    return [recipe(task), *ENDLESS, many, "train.patience=0"]


@pytest.mark.parametrize("task", ASKED)
def test_a_run_that_was_stopped_early_can_be_asked(command, here, task):
    with pressing_ctrl_c(here / "run"):
        stopped = command("train", *endless(task), "--out", "run")
    assert stopped.code == 130, stopped.err
    assert "go on with: regard train --resume --out run" in stopped.err
    assert not (here / "run" / "run.json").exists()
    answer = command("predict", "run", ASKED[task], "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)
    assert "it cannot be used yet" not in command("info", "run").out


def test_the_weights_are_the_averaged_ones_and_give_way_to_evaluated_ones(command, here):
    with pressing_ctrl_c(here / "run"):
        command("train", *endless("translation"), "train.ema=0.9", "--out", "run")
    (checkpoint,) = (here / "run" / "checkpoints").iterdir()
    kept, raw = load_file(here / "run" / "model.safetensors"), load_file(checkpoint / "model.safetensors")
    assert kept.keys() == raw.keys()
    assert any((kept[name] - raw[name]).abs().max() > 0 for name in kept)
    step = int(checkpoint.name.removeprefix("step-"))
    more = [f"train.steps={step + 2}", f"train.eval_every={step + 1}", "train.ema=0.9"]
    assert command("train", "--resume", "--out", "run", *more).code == 0
    later = load_file(here / "run" / "model.safetensors")
    assert any((kept[name] - later[name]).abs().max() > 0 for name in kept)


def test_a_process_that_gets_ctrl_c(here):
    words = [str(word) for word in endless("translation")]
    line = [sys.executable, "-m", "regard", "train", *words, "--out", "run"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 90
        while not (here / "run" / "metrics.jsonl").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    line = [sys.executable, "-m", "regard", "predict", "run", "one two three"]
    asked = subprocess.run(line, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.count("\n") == 1
