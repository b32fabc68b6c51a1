"""Starting from models that were trained before: runs of ours, and folders of others; fine-tuning of every kind."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
import tiny_tasks
from tiny_hub import bert, gpt2, transformers

NO_STEP = ["train.epochs=0", "train.steps=1", "train.eval_every=1", "train.save_every=1", "train.lr=1e-12"]
A_WHILE = ["train.epochs=6", "train.lr=0.005"]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A BERT of ours."""
    return tiny_tasks.train_tiny("masked", tmp_path_factory.mktemp("masked"))


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """A GPT of ours."""
    return tiny_tasks.train_tiny("language", tmp_path_factory.mktemp("language"))


def tuned(command, task: str, folder: Path, start: object, *settings: str) -> Path:
    """A run that starts from another, and takes its tokenizer and architecture from there."""
    given = [setting for setting in tiny_tasks.TASKS[task](folder) if not setting.startswith("model.")]
    answer = command("train", *given, f"model.start={start}", *settings, "--out", folder / "run")
    assert answer.code == 0, answer.err
    return folder / "run"


def close_to_start(run: Path, start: dict[str, torch.Tensor], *, prefix: str = "backbone.") -> list[str]:
    """The weights of the start that stand in the run as they were, but for a step of next to nothing."""
    weights = load_file(run / "model.safetensors")
    return [name for name, tensor in start.items() if torch.allclose(weights.get(prefix + name, tensor + 1), tensor)]


def test_a_classifier_starts_from_our_bert(command, pretrained, tmp_path):
    run = tuned(command, "labels", tmp_path, pretrained, *NO_STEP)
    start = load_file(pretrained / "model.safetensors")
    kept = close_to_start(run, start)
    assert {name.split(".")[0] for name in kept} == {"embedding", "positions", "segments", "norm", "encoder", "pooler"}
    assert len(kept) == sum(not name.startswith(("mlm.", "judge.", "output")) for name in start)
    assert (run / "tokenizer.json").read_text() == (pretrained / "tokenizer.json").read_text()
    described = json.loads((run / "model.json").read_text())
    assert described["labels"] == ["cat", "dog"]
    assert described["options"]["backbone"]["d_model"] == 32


def test_fine_tuning_learns(command, pretrained, tmp_path):
    run = tuned(command, "labels", tmp_path, pretrained, *A_WHILE)
    assert json.loads((run / "run.json").read_text())["metrics"]["valid"]["accuracy"]["value"] == 1
    assert regard.load(run, "cpu")("the dog sees a cat .").label == "dog"


def test_a_classifier_starts_from_a_folder_of_others(command, tmp_path):
    folder = bert(tmp_path / "theirs", "BertForPreTraining")
    run = tuned(command, "labels", tmp_path, folder, *NO_STEP)
    model = transformers.BertForPreTraining.from_pretrained(folder)
    weights = load_file(run / "model.safetensors")
    theirs = model.bert.pooler.dense.weight.detach()
    torch.testing.assert_close(weights["backbone.pooler.weight"], theirs)
    assert regard.load(run, "cpu").labeller.template.tokenizer.tokens([2, 5]) == ["[CLS]", "the"]
    out = command("export", run, "--to", "hf", "--out", tmp_path / "out")
    assert out.code == 0
    again = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "out")
    torch.testing.assert_close(again.bert.pooler.dense.weight.detach(), theirs)


def test_a_reader_starts_from_our_bert(command, pretrained, tmp_path):
    run = tuned(command, "answers", tmp_path, pretrained, *NO_STEP)
    assert any(name.startswith("encoder.") for name in close_to_start(run, load_file(pretrained / "model.safetensors")))
    assert not any("pooler" in name for name in load_file(run / "model.safetensors"))


def test_a_language_model_goes_on_learning(command, language, tmp_path):
    run = tuned(command, "language", tmp_path, language, *NO_STEP)
    start = load_file(language / "model.safetensors")
    assert sorted(close_to_start(run, start, prefix="")) == sorted(start)
    texts = ["the cat", "the dog sees"]
    assert [a.text for a in regard.load(run, "cpu")(texts)] == [a.text for a in regard.load(language, "cpu")(texts)]


def test_a_masked_model_goes_on_learning(command, pretrained, tmp_path):
    run = tuned(command, "masked", tmp_path, pretrained, *NO_STEP)
    start = load_file(pretrained / "model.safetensors")
    assert sorted(close_to_start(run, start, prefix="")) == sorted(start)


def test_a_gpt_of_others_goes_on_learning(command, tmp_path):
    folder = gpt2(tmp_path / "theirs")
    before = command("evaluate", folder, "--data", tiny_tasks.write_texts(tmp_path), "--json")
    run = tuned(command, "language", tmp_path, folder, "train.steps=40", "train.lr=0.003")
    after = command("evaluate", run, "--data", tmp_path / "texts", "--json")
    losses = [json.loads(answer.out)["metrics"]["loss"]["value"] for answer in (before, after)]
    assert losses[1] < losses[0] - 1
    out = command("export", run, "--to", "hf", "--out", tmp_path / "out")
    assert out.code == 0
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out").decode([0, 1]) == '!"'


def loss_of_language(run: Path) -> float:
    """How well the GPT below a head still expects a text."""
    predictor = regard.load(run, "cpu")
    ids = torch.tensor(predictor.labeller.template(["the cat sees a dog ."])[0].ids)[None]
    with torch.no_grad():
        logits = predictor.module.backbone(ids)[0, :-1]
    return float(torch.nn.functional.cross_entropy(logits, ids[0, 1:]))


def test_a_gpt_learns_labels_and_keeps_its_language(command, language, tmp_path):
    losses = {}
    for weight in (0.0, 0.5):
        folder = tmp_path / str(weight)
        folder.mkdir()
        settings = (f"train.lm_weight={weight}", "train.epochs=25", "train.lr=0.01")
        run = tuned(command, "labels", folder, language, *settings)
        described = json.loads((run / "model.json").read_text())["options"]
        assert (described["backbone"]["name"], described["pooling"]) == ("gpt", "last")
        assert json.loads((run / "run.json").read_text())["metrics"]["valid"]["accuracy"]["value"] == 1
        losses[weight] = loss_of_language(run)
    assert losses[0.5] < losses[0.0] - 0.3
    assert command("verify", run, "--n", 6).code == 0
    assert command("look", run, "the cat sees a dog .").code == 0


def test_a_recurrent_encoder_with_attention(command, tmp_path):
    run = tiny_tasks.train_tiny("labels", tmp_path, backbone="recurrent-encoder")
    described = json.loads((run / "model.json").read_text())["options"]
    assert (described["backbone"]["attention"], described["pooling"]) == ("additive", "attention")
    assert json.loads((run / "run.json").read_text())["metrics"]["valid"]["accuracy"]["value"] == 1
    assert command("predict", run, "the dog sees a cat .").out == "dog\n"
    assert command("verify", run, "--n", 6).code == 0
    seen = command("look", run, "the dog sees a cat .").out
    assert len(seen.splitlines()) == 8


def test_numbers_are_learnt(command, tmp_path):
    run = tiny_tasks.train_tiny("labels", tmp_path, numbers=True)
    metrics = json.loads((run / "run.json").read_text())["metrics"]["valid"]
    assert metrics["pearson"]["value"] > 0.95
    assert metrics["rmse"]["value"] < 0.3
    found = [
        float(line) for line in command("predict", run, "the cat sees a cat .", "the dog sees a dog .").out.split()
    ]
    assert found == pytest.approx([2, 0], abs=0.4)
    assert set(json.loads(command("predict", run, "the cat", "--json").out)) == {"value"}
    assert command("verify", run, "--n", 6).code == 0


def test_epochs_count_passes_over_the_examples(command, tmp_path):
    run = tiny_tasks.train_tiny("labels", tmp_path, "train.epochs=2", "train.batch_tokens=128")
    reports = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluated = [report["step"] for report in reports if "accuracy" in report]
    assert len(evaluated) == 2
    assert evaluated[1] == 2 * evaluated[0]


SMALL = ["data.n_train=60", "data.n_valid=4", "data.n_test=4", "tokenizer.kind=bpe", "tokenizer.size=300",
         "train.batch_tokens=300", "train.warmup=0", "train.log_every=1", "train.device=cpu"]  # fmt: skip


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_a_translator_starts_from_another(command, tmp_path, model, joint):
    shape = {
        "transformer": ["d_model=16", "n_heads=2", "d_feedforward=24", "n_encoder_layers=1", "n_decoder_layers=1"],
        "recurrent": ["d_embedding=12", "d_hidden=12", "tied=none"],
    }
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('task = "translation"\n[data]\nsynthetic = "dates"\n')
    first, second = tmp_path / "first", tmp_path / "second"
    sized = [f"model.{option}" for option in shape[model]]
    settings = [*SMALL, f"model.name={model}", f"tokenizer.joint={str(joint).lower()}"]
    quick = ["train.steps=2", "train.eval_every=2", "train.save_every=2", "train.n_samples=0"]
    answer = command("train", recipe, *settings, *sized, *quick, "--out", first)
    assert answer.code == 0, answer.err
    others = ["train.seed=2", "tokenizer.size=290", f"model.start={first}", "model.dropout=0", *NO_STEP]
    answer = command("train", recipe, *settings, *others, "--out", second)
    assert answer.code == 0, answer.err
    start = load_file(first / "model.safetensors")
    assert sorted(close_to_start(second, start, prefix="")) == sorted(start)
    names = ["tokenizer.json"] if joint else ["source.json", "target.json"]
    assert all((first / name).read_text() == (second / name).read_text() for name in names)
    assert regard.load(second, "cpu")("4 May 2020") == regard.load(first, "cpu")("4 May 2020")


def test_a_translator_starts_from_its_like_only(command, tmp_path, language):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('task = "translation"\n[data]\nsynthetic = "dates"\n')
    answer = command("train", recipe, *SMALL, f"model.start={language}", "--out", tmp_path / "run")
    assert answer.code != 0
    assert "is a gpt; model.name says 'transformer'" in answer.err
    assert not (tmp_path / "run" / "config.toml").exists()
