"""A score, a model and a task from outside the package: each is trained, asked, scored, looked at and verified."""

import ast
import json
import random
from importlib import import_module
from pathlib import Path

import cosine
import peephole
import pytest
import tagging

import regard
import tiny_tasks
from regard.errors import UsageError
from regard.layers.state_attention import register_score
from regard.models.registry import register
from regard.tasks.registry import register_task, task_spec

QUICK = ["train.device=cpu", "train.warmup=2", "train.n_samples=1", "train.steps=40", "train.eval_every=20"]
VERBS = {"sees": "V", "hears": "V", "cat": "N", "dog": "N", "the": "D", "a": "D"}


@pytest.fixture(autouse=True)
def added(monkeypatch):
    """The three are known here, and nowhere else."""
    for names in ("layers.state_attention._LEARNED", "models.registry._registered", "tasks.registry._registered"):
        module, _, name = f"regard.{names}".rpartition(".")
        monkeypatch.setattr(f"{module}.{name}", dict(getattr(import_module(module), name)))
    for one in (cosine, peephole, tagging):
        one.add()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp("data"), random.Random(1)
    texts = [f"the {chance.choice(['cat', 'dog'])} {chance.choice(['sees', 'hears'])} a dog" for _ in range(80)]
    (folder / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
    (folder / "tags.tsv").write_text("".join(f"{t}\t{' '.join(VERBS[w] for w in t.split())}\n" for t in texts))
    tiny_tasks.write_texts(folder, n=4)
    return folder


def score_run(data):
    pairs = ["--train", data / "pairs.tsv", "--valid", data / "pairs.tsv", "data.overlap=keep", "tokenizer.kind=chars"]
    sizes = ["model.d_embedding=16", "model.d_hidden=16", "model.n_layers=1", "model.bidirectional=false"]
    return ["translation", *pairs, "model.name=recurrent", "model.attention=cosine", *sizes], "the cat sees a dog"


def model_run(data):
    texts = ["--train", data / "texts", "tokenizer.kind=words", "data.context=16", "train.batch_tokens=256"]
    return ["language", *texts, "model.name=peephole", "model.size=tiny"], "the cat"


def task_run(data):
    tags = ["--train", data / "tags.tsv", "--valid", data / "tags.tsv"]
    return ["tagging", *tags, "model.n_positions=16", "train.lr=0.003", "train.batch_tokens=200"], "the dog hears a dog"


@pytest.mark.parametrize("made", [score_run, model_run, task_run], ids=["score", "model", "task"])
def test_what_comes_from_outside_goes_through_every_verb(made, data, tmp_path, command):
    words, text = made(data)
    run = tmp_path / "run"
    given = command("train", *words, *QUICK, "--out", run)
    assert given.code == 0, given.err
    said = json.loads(command("predict", run, text, "--json").out)
    assert said
    scored = command("evaluate", run, "--data", words[words.index("--train") + 1], "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out.splitlines()[0])["metrics"]
    looked = command("look", run, text, "--out", tmp_path / "seen.json")
    assert looked.code == 0, looked.err
    assert json.loads((tmp_path / "seen.json").read_text())["maps"]
    kept = command("verify", run, "--n", "6", "--data", words[words.index("--train") + 1])
    assert kept.code == 0, kept.out + kept.err
    assert "promises hold" in kept.err
    if made is task_run:
        assert "This model says what kind of word each word is." in (run / "README.md").read_text()
        assert said["tags"] == ["D", "N", "V", "D", "N"]
        assert json.loads(scored.out)["metrics"]["accuracy"]["value"] == 1.0


def test_a_task_from_outside_has_its_help(command):
    assert "train.steps" in command("train", "tagging", "--help").out
    assert regard.load.__module__ == "regard.tasks.opening"
    assert task_spec("tagging").predictor is tagging.TagPredictor


def test_names_are_given_once():
    with pytest.raises(UsageError, match="there is a score called 'dot' already"):
        register_score("dot", cosine.Cosine)
    with pytest.raises(UsageError, match="there is a model called 'gpt' already"):
        register("gpt", peephole.Peephole)
    with pytest.raises(UsageError, match="there is a task called 'series' already"):
        register_task(task_spec("tagging").__class__(**{**vars(task_spec("tagging")), "name": "series"}))


@pytest.mark.parametrize(("name", "most"), [("cosine", 30), ("peephole", 80), ("tagging", 150)])
def test_they_are_short(name, most):
    text = (Path(__file__).parent / f"{name}.py").read_text()
    tree, prose = ast.parse(text), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = [line for number, line in enumerate(text.splitlines(), 1) if line.strip() and number not in prose]
    assert len(lines) <= most
