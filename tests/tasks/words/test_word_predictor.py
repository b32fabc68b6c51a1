import json
from contextlib import nullcontext
from pathlib import Path
from random import Random
from threading import Event

import pytest
import torch

from regard.data.io.hashes import record_hashes
from regard.errors import CheckpointError, ConfigError, DataError, ShapeError, UsageError
from regard.models.registry import build
from regard.tasks.base import ScoreData
from regard.tasks.opening import load
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train
from regard.tasks.words import run as words
from regard.tasks.words.exchange import export_vectors, import_vectors, start_from_vectors, vectors_of
from regard.tasks.words.look import draw_words
from regard.training.signals import Interrupted

GROUPS = (("cat", "dog", "cow", "pig"), ("red", "green", "blue", "black"))
AROUND = (("the", "eats", "grass"), ("paint", "it", "bright"))


def write_text(folder: Path) -> Path:
    chance, lines = Random(0), []
    for _ in range(1200):
        group = chance.randrange(2)
        a, b, c = AROUND[group]
        lines.append(f"{a.title()} {chance.choice(GROUPS[group])} {b}, {c}!\r\n")
    file = folder / "text.txt"
    file.write_bytes("".join(lines).encode())
    return file


def trained(folder: Path, text: Path, *settings: str, resume: bool = False, say=lambda _: None) -> dict:
    shape = ["model.d_model=16", "data.window=3", "data.sample=0", "train.epochs=6", "decode.k=3"]
    recipe = make_recipe(find_recipe("words"), [f'data.train=["{text}"]', *shape, *settings])
    return train(recipe, folder, data_root=None, resume=resume, say=say)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    pairs = folder / "pairs.txt"
    pairs.write_text("cat dog 9\nred blue 8\ncat red 1\ndog green 0.5\ncat unheard 3\n")
    trained(folder / "run", write_text(folder), f'data.test={{alike = ["{pairs}"]}}')
    return folder / "run"


def test_a_run_is_whole(run):
    names = {path.name for path in run.iterdir()}
    assert {"config.toml", "model.json", "model.safetensors", "tokenizer.json", "run.json"} <= names
    facts = json.loads((run / "run.json").read_text())
    assert facts["task"] == "words"
    assert facts["words"] == 14
    assert facts["parameters"] == 2 * 16 * 16
    assert facts["metrics"]["alike"]["covered"]["value"] == 0.8
    assert facts["metrics"]["alike"]["spearman"]["value"] > 0.7
    assert facts["fingerprints"]["train"]


def test_neighbours_are_of_a_kind(run):
    model = load(run, "cpu")
    for group in GROUPS:
        for word in group:
            assert set(model(word).words) == set(group) - {word}
    found = model("CAT")
    assert found.record()["neighbours"][0]["cosine"] == found.cosines[0] > 0.5
    assert found.plain().startswith(f"{found.words[0]} {found.cosines[0]:.3f}  ")
    assert len(model("cat", k=5).words) == 5
    assert model.cosine("cat", "dog") == pytest.approx(model.cosine("dog", "cat"))
    assert model.vector("cat").shape == (16,)


def test_sums_are_asked_with_signs(run):
    model = load(run, "cpu")
    found = model("cat - the + paint")
    assert not {"cat", "the", "paint"} & set(found.words)
    assert found.words == model("cat -the +paint").words == model("paint cat − the").words
    assert model("cat dog").words == model("cat + dog").words


def test_an_unknown_word_is_one_line_with_near_names(run):
    model = load(run, "cpu")
    with pytest.raises(UsageError, match="'gras' is not among the 14 words") as problem:
        model("gras")
    assert problem.value.hint == "did you mean grass?"
    with pytest.raises(UsageError, match="'😀' is not among") as problem:
        model("😀")
    assert "rare" in problem.value.hint
    for nothing in ("", "+ -"):
        with pytest.raises(UsageError, match="names no word"):
            model(nothing)
    with pytest.raises(UsageError, match="look at nothing"):
        model.look("cat")


def test_evaluation_and_comparison(run, tmp_path):
    model = load(run, "cpu")
    (found,) = model.evaluate(ScoreData())
    assert (found.data, found.n, found.unit) == ("alike", 5, "pairs")
    assert found.metrics["spearman"].value > 0.7
    questions = tmp_path / "questions.txt"
    questions.write_text(": first\ncat dog red blue\ncat dog red nothing\n")
    (found,) = model.evaluate(ScoreData([str(questions)]))
    assert found.unit == "questions"
    assert found.metrics["covered"].value == 0.5
    (compared,) = model.compare(model, ScoreData(), resamples=20)
    assert compared.comparisons[0].difference == 0
    with pytest.raises(UsageError, match=r"decode.k means nothing"):
        list(model.evaluate(ScoreData(), k=3))
    assert all(finding.kept for finding in model.verify(ScoreData()))


def test_the_seed_alone_decides(run, tmp_path):
    text = run.parent / "text.txt"
    trained(tmp_path / "a", text)
    assert torch.equal(load(tmp_path / "a", "cpu").vectors.input, load(run, "cpu").vectors.input)
    trained(tmp_path / "b", text, "train.seed=2")
    assert not torch.equal(load(tmp_path / "b", "cpu").vectors.input, load(run, "cpu").vectors.input)


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(run, tmp_path, monkeypatch):
    text, stopping, said = run.parent / "text.txt", Event(), []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            stopping.set()

    monkeypatch.setattr(words, "_SECONDS", 0.0)
    monkeypatch.setattr(words, "listening", lambda: nullcontext(stopping))
    with pytest.raises(Interrupted, match=r"stopped after \d+%") as wish:
        trained(tmp_path / "a", text, say=say)
    assert wish.value.exit_code == 130
    assert load(tmp_path / "a", "cpu").vectors.input.isfinite().all(), "what there is can be used"
    told = [json.loads(line) for line in (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()]
    assert told[0].keys() == {"step", "loss", "lr", "tokens_per_second"}
    stopping.clear()
    facts = trained(tmp_path / "a", text, resume=True, say=say)
    assert any(line.startswith("going on after") for line in said)
    assert torch.equal(load(tmp_path / "a", "cpu").vectors.input, load(run, "cpu").vectors.input)
    steps = [json.loads(line)["step"] for line in (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps)), "no step is told twice"
    whole = json.loads((run / "run.json").read_text())["training"]
    assert {key: facts["training"][key] for key in ("words", "loss")} == {key: whole[key] for key in ("words", "loss")}

    again = trained(tmp_path / "a", text, resume=True)
    assert again["training"]["words"] == whole["words"], "a run that is over stays as it is"
    assert torch.equal(load(tmp_path / "a", "cpu").vectors.input, load(run, "cpu").vectors.input)
    longer = trained(tmp_path / "a", text, "train.epochs=7", resume=True)
    assert longer["training"]["words"] > whole["words"]


def test_a_run_does_not_go_on_with_another_text_or_a_broken_state(run, tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes((run.parent / "text.txt").read_bytes())
    trained(tmp_path / "a", text)
    (state,) = (tmp_path / "a" / "checkpoints").glob("*/state.json")
    was = state.read_text()
    state.write_text('{"step": 2}')
    record_hashes(state.parent, [state.name])
    with pytest.raises(CheckpointError, match=r"its state\.json is of another version"):
        trained(tmp_path / "a", text, resume=True)
    state.write_text(was)
    record_hashes(state.parent, [state.name])
    text.write_text("another text altogether " * 50)
    with pytest.raises(ConfigError, match=r"the data is not what the run was begun with:\n .*text\.txt"):
        trained(tmp_path / "a", text, resume=True)
    assert torch.equal(load(tmp_path / "a", "cpu").vectors.input, load(run, "cpu").vectors.input), "nothing is lost"


@pytest.mark.parametrize("binary", [False, True])
def test_vectors_go_out_and_come_back(run, tmp_path, binary):
    assert export_vectors(run, tmp_path / "v", binary=binary) == 14
    with pytest.raises(UsageError, match="there is something already"):
        export_vectors(run, tmp_path / "v")
    assert import_vectors(tmp_path / "v", tmp_path / "back") == 14
    here, back = load(run, "cpu"), load(tmp_path / "back", "cpu")
    assert back.words == here.words
    assert torch.equal(vectors_of(tmp_path / "back").vectors, vectors_of(run).vectors)
    assert back("cat", k=3) == here("cat", k=3)
    with pytest.raises(UsageError, match="names no test set"):
        list(back.evaluate(ScoreData()))


def test_a_text_model_begins_at_the_vectors(run):
    tokenizer = load(run, "cpu").tokenizer
    gpt = build("gpt", {"n_tokens": len(tokenizer), "d_model": 16, "n_layers": 1, "n_heads": 2, "n_positions": 8})
    assert start_from_vectors(gpt, tokenizer, run) == 14
    ours, named = gpt.embedding.weight.detach()[2:], vectors_of(run)
    assert torch.nn.functional.cosine_similarity(ours, named.vectors).min() > 0.999
    with pytest.raises(UsageError, match="Linear has no embedding"):
        start_from_vectors(torch.nn.Linear(2, 2), tokenizer, run)


def language(text: Path, *settings: str):
    shape = ["model.d_model=16", "model.n_heads=2", "model.n_layers=1", "data.context=8", "tokenizer.kind=words"]
    quick = ["train.steps=1", "train.lr=1e-9", "train.warmup=0", "train.eval_every=1", "train.n_samples=0"]
    given = [f'data.train=["{text}"]', *shape, *quick, "train.batch_tokens=64", "train.device=cpu"]
    return make_recipe(find_recipe("language"), [*given, *settings])


def test_a_model_in_training_begins_at_the_vectors(run, tmp_path):
    said, recipe = [], language(run.parent / "text.txt", f"model.vectors={run}", "tokenizer.lowercase=true")
    train(recipe, tmp_path / "gpt", data_root=None, resume=False, say=said.append)
    assert any("14 of " in text and "begin at its vectors" in text for text in said)
    model = load(tmp_path / "gpt", "cpu")
    pieces = [piece.removeprefix("▁") for piece in model.tokenizer.tokens(range(len(model.tokenizer)))]
    named = vectors_of(run)
    ours = model.module.embedding.weight.detach()[[pieces.index(word) for word in named.words]]
    assert torch.nn.functional.cosine_similarity(ours, named.vectors).min() > 0.999


@pytest.mark.parametrize(
    ("settings", "problem", "message"),
    [(["model.d_model=8"], ShapeError, "the embedding is 8 wide and the vectors are 16"),
     (["tokenizer.kind=bytes"], ConfigError, "none of its words is a piece"),
     (["model.start=runs/gpt"], ConfigError, "both given")],
)  # fmt: skip
def test_vectors_that_do_not_fit(run, tmp_path, settings, problem, message):
    if "model.start=runs/gpt" in settings:
        train(language(run.parent / "text.txt"), tmp_path / "gpt", data_root=None, resume=False, say=lambda _: None)
        settings = [f"model.start={tmp_path / 'gpt'}"]
    recipe = language(run.parent / "text.txt", f"model.vectors={run}", *settings)
    with pytest.raises(problem, match=message):
        train(recipe, tmp_path / "other", data_root=None, resume=False, say=lambda _: None)


def test_only_models_of_one_text_begin_at_vectors():
    with pytest.raises(ConfigError, match=r"model.vectors is not known"):
        make_recipe(find_recipe("dates"), ["model.vectors=runs/words"])


@pytest.mark.parametrize("name", ["words.vec", "words.bin"])
def test_vectors_go_out_and_come_back_by_the_command_line(run, tmp_path, name, command):
    assert "14 word vectors" in command("export", run, "--to", "word2vec", "--out", tmp_path / name).err
    assert "14 word vectors" in command("import", tmp_path / name, "--out", tmp_path / "back").err
    assert load(tmp_path / "back", "cpu")("cat", k=3) == load(run, "cpu")("cat", k=3)


def test_a_map_is_drawn(run, tmp_path):
    model = load(run, "cpu")
    words = [word for group in GROUPS for word in group]
    places = model.map(words)
    animals, colours = places[:4].mean(0), places[4:].mean(0)
    assert torch.dist(animals, colours) > 2 * (places[:4] - animals).norm(dim=1).mean()
    draw_words(tmp_path / "map.png", words, places, title="a $ map")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="no words were given"):
        model.map([])


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"word", "no word occurs 5 times"), (b"one " * 9, "one word occurs 5 times"),
     (b"... !!!\r\n", "holds no words")],
)  # fmt: skip
def test_texts_that_teach_nothing(tmp_path, content, message):
    (tmp_path / "t.txt").write_bytes(content)
    with pytest.raises(DataError, match=message) as problem:
        trained(tmp_path / "run", tmp_path / "t.txt", "data.min_count=5")
    assert str(problem.value).startswith(str(tmp_path / "t.txt"))
    assert not (tmp_path / "run" / "config.toml").exists()


def test_settings_that_mean_nothing_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"train.warmup means nothing to this task"):
        make_recipe(find_recipe("words"), ["train.warmup=3"])
    with pytest.raises(ConfigError, match=r"data.windw is not known; did you mean data.window\?"):
        make_recipe(find_recipe("words"), ["data.windw=3"])


def test_other_runs_have_no_vectors(tmp_path):
    from tiny_tasks import train_tiny

    run = train_tiny("language", tmp_path, "train.steps=1", "train.eval_every=1")
    with pytest.raises(CheckpointError, match="a model for language"):
        vectors_of(run)
