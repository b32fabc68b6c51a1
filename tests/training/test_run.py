"""From a recipe to a run folder: what is refused, what is kept, and what is written down."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.config.devices import choose_device, uses_bf16
from regard.data.synthetic.dates import date_pairs, write_dates
from regard.errors import ConfigError, DataError, EnvironmentProblem, UsageError
from regard.tasks.recipes import make_recipe
from regard.tasks.training import train
from regard.tasks.translation.config import PairData
from regard.tasks.translation.data import PairFiles

MODEL = {"d_model": 8, "n_heads": 2, "d_feedforward": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
TRAIN = {"steps": 4, "batch_tokens": 200, "eval_every": 2, "save_every": 2, "log_every": 2, "device": "cpu"}


def write(path: Path, n: int, *, split: str) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in date_pairs(n, 1, split=split)))
    return str(path)


def table(folder: Path) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    data = {
        "train": [write(folder / "train.tsv", 30, split="train")],
        "valid": [write(folder / "valid.tsv", 4, split="valid")],
        "test": {"small": [write(folder / "test.tsv", 4, split="test")]},
    }
    return {"model": MODEL, "data": data, "train": TRAIN, "tokenizer": {"size": 290}, "decode": {"max_length": 12}}


def run(folder: Path, *overrides: str, resume: bool = False, out: str = "run") -> dict[str, Any]:
    recipe = make_recipe(table(folder), overrides)
    return train(recipe, folder / out, data_root=None, resume=resume, say=lambda _: None)


def test_a_run_writes_down_what_it_was_made_of(tmp_path: Path) -> None:
    facts = run(tmp_path)
    assert json.loads((tmp_path / "run" / "run.json").read_text()) == json.loads(json.dumps({"format": 1} | facts))
    assert facts["metrics"].keys() == {"small"}
    assert {"bleu", "chrf", "exact match"} <= facts["metrics"]["small"].keys()
    assert "version" in facts["metrics"]["small"]["bleu"]["signature"]
    assert facts["fingerprints"].keys() == {"train", "valid", "small"}
    assert facts["pairs"] == 30
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["training"]["step"] == 4
    present = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.toml", "model.safetensors", "tokenizer.json", "run.json", "metrics.jsonl", "checkpoints"} <= present


def test_a_run_with_test_sets_can_be_resumed_and_a_changed_one_not(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, "train.steps=6", resume=True)["training"]["step"] == 6
    with pytest.raises(UsageError, match="there is a run already") as problem:
        run(tmp_path)
    assert "--resume" in str(problem.value.hint)
    with pytest.raises(ConfigError, match=r"cannot go on .*model\.d_model: 8 → 16, tokenizer\.size: 290 → 300$"):
        run(tmp_path, "model.d_model=16", "tokenizer.size=300", resume=True)


@pytest.mark.parametrize("average", ["train.average=2", "train.ema=0.5", "train.average=0"])
def test_what_is_never_evaluated_is_kept_as_it_is(tmp_path: Path, average: str) -> None:
    run(tmp_path, average, "train.eval_every=100")
    kept = load_file(tmp_path / "run" / "model.safetensors")
    last = load_file(tmp_path / "run" / "checkpoints" / "step-00000004" / "model.safetensors")
    assert all(torch.equal(kept[name], last[name]) for name in kept) is (average != "train.ema=0.5")


def test_snapshots_count_once_when_nothing_is_evaluated(tmp_path: Path) -> None:
    run(tmp_path, "train.average=2", "train.eval_from=100", "train.keep_best=9")
    run(tmp_path, "train.average=2", "train.eval_from=100", "train.steps=2", out="half")
    states = [
        load_file(tmp_path / name / "checkpoints" / f"step-{step:08d}" / "model.safetensors")
        for name, step in (("half", 2), ("run", 4))
    ]
    kept = load_file(tmp_path / "run" / "model.safetensors")
    for name, tensor in kept.items():
        torch.testing.assert_close(tensor, (states[0][name] + states[1][name]) / 2)


def test_no_pair_to_validate_on_is_an_error_before_training(tmp_path: Path) -> None:
    recipe = make_recipe(table(tmp_path))
    (tmp_path / "valid.tsv").write_text("word\t\n")
    with pytest.raises(DataError, match=r"valid\.tsv: no usable pairs"):
        train(recipe, tmp_path / "run", data_root=None, resume=False, say=lambda _: None)


def test_files_are_found_under_the_data_root(tmp_path: Path) -> None:
    settings = table(tmp_path)
    settings["data"] = {"train": ["train.tsv"], "valid": ["valid.tsv"]}
    with pytest.raises(DataError, match=r"valid\.tsv: there is no such file here") as problem:
        train(make_recipe(settings), tmp_path / "run", data_root=None, resume=False, say=lambda _: None)
    assert "REGARD_DATA" in str(problem.value.hint)
    facts = train(make_recipe(settings), tmp_path / "run", data_root=tmp_path, resume=False, say=lambda _: None)
    assert facts["pairs"] == 30


def test_made_files_are_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(folder: Path, **options: Any) -> dict[str, Path]:
        for path in write_dates(folder, **options).values():
            path.write_text(path.read_text()[:7])
        raise KeyboardInterrupt

    files = PairFiles(PairData(synthetic="dates", n_train=5, n_valid=4, n_test=3), None, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("regard.tasks.translation.data.write_dates", killed)
        with pytest.raises(KeyboardInterrupt):
            _ = files.train
    assert [len(list(source.pairs())) for source in (files.train, files.valid, files.tests["test"])] == [5, 4, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.tsv", "train.tsv", "valid.tsv"]


@pytest.mark.parametrize(
    ("part", "names", "message"),
    [
        ("train", [], "data.train names 0 files; allowed are tables, or parallel texts"),
        ("train", ["a.en", "a.de", "a.fr"], "data.train names 3 texts that are not told apart by two suffixes"),
        (
            "valid",
            ["a.en", "b.en", "a.de"],
            "data.valid names 2 source files and 1 target file: .*b.en; .*a.de",
        ),
        ("valid", ["a.tsv", "a.en"], "data.valid names tables, and .*a.en, which is called like none"),
    ],
)
def test_a_set_of_pairs_is_tables_or_parallel_texts(tmp_path: Path, part: str, names: list[str], message: str) -> None:
    settings = table(tmp_path)
    for name in names:
        (tmp_path / name).write_text("a\tb\n")
    settings["data"][part] = [str(tmp_path / name) for name in names]
    with pytest.raises(ConfigError, match=message) as problem:
        train(make_recipe(settings), tmp_path / "run", data_root=None, resume=False, say=lambda _: None)
    assert f"--{part} FILE" in str(problem.value.hint) or "n-th files" in str(problem.value.hint)


def test_recurrent_models_are_not_packed(tmp_path: Path) -> None:
    settings = table(tmp_path) | {"model": {"name": "recurrent", "d_embedding": 8, "d_hidden": 8}}
    recipe = make_recipe(settings, ["train.layout=packed"])
    with pytest.raises(ConfigError, match=r"train\.layout=packed is for Transformers"):
        train(recipe, tmp_path / "run", data_root=None, resume=False, say=lambda _: None)


def test_two_vocabularies_share_no_matrix(tmp_path: Path) -> None:
    run(tmp_path, "tokenizer.joint=false", "train.steps=2")
    assert (tmp_path / "run" / "source.json").exists()
    assert (tmp_path / "run" / "target.json").exists()
    assert {"source_embedding.weight", "target_embedding.weight"} <= load_file(
        tmp_path / "run" / "model.safetensors"
    ).keys()


def test_devices_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(EnvironmentProblem, match="shows no GPU") as problem:
        choose_device("cuda")
    assert problem.value.hint == "use train.device=cpu, or auto"
    with pytest.raises(UsageError, match="no device is called 'gpu'; there are auto, cpu, cuda and cuda:N"):
        choose_device("gpu")


def test_precision_follows_the_wish_and_the_device() -> None:
    cpu = torch.device("cpu")
    assert [uses_bf16(precision, cpu) for precision in ("auto", "fp32", "bf16")] == [False, False, True]
