"""`regard info`, `regard runs` and `regard plot`: what runs and models are, of every task, however far they came."""

import json
import os
import shlex
import shutil
import struct
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.checkpoints import weights
from regard.checkpoints.foreign.header import read_header
from regard.models.flops import count_parameters
from regard.models.registry import names
from regard.tasks.facts.card import write_card
from regard.tasks.facts.curves import curves_of
from regard.tasks.facts.model_facts import describe_model
from regard.tasks.facts.summary import summarise
from regard.tasks.facts.uses import use_of
from tiny_hub import bert, gpt2

GOLDEN = Path(__file__).parents[1] / "golden"
FINISHED = sorted(path.name for path in (GOLDEN / "finished").iterdir())
STOPPED = sorted(path.name for path in (GOLDEN / "stopped").iterdir())


def assert_refused(answer, code, error, hint=""):
    """One error that says it, a hint that helps, the exit code, nothing on stdout and no traceback."""
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert answer.err.count("error: ") == 1
    assert error in answer.err
    assert hint in "".join(line for line in answer.err.splitlines() if line.startswith("hint: "))


@pytest.fixture
def no_weights(monkeypatch):
    """Fails whoever reads tensors."""

    def refuse(*_, **__):
        raise AssertionError("weights were read")

    monkeypatch.setattr(weights, "load_file", refuse)


@pytest.fixture
def copy(tmp_path):
    """A golden run that may be changed."""
    return lambda name: Path(shutil.copytree(GOLDEN / name, tmp_path / name.replace("/", "-")))


def record(command, path):
    answer = command("info", path, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("\n") == 1
    return json.loads(answer.out)


# ---- info: runs


@pytest.mark.parametrize("name", FINISHED)
def test_a_finished_run_of_every_task(command, no_weights, name):
    run = GOLDEN / "finished" / name
    facts = json.loads((run / "run.json").read_text())
    said = record(command, run)
    assert (said["kind"], said["task"], said["state"]["name"]) == ("run", facts["task"], "finished")
    assert said["model"]["parameters"] == facts["parameters"]
    assert said["training"]["versions"] == facts["versions"]
    assert said["training"]["step"] == facts["training"].get("step")
    assert said["training"]["seconds"] == facts["training"]["seconds"]
    assert (said["training"]["commit"], said["training"]["hardware"]) == ("a5af3f4", "AMD EPYC, 2 cores")
    found = {(one["data"], one["name"]): one for one in said["figures"]}
    assert set(found) == {(data, metric) for data, metrics in facts["metrics"].items() for metric in metrics}
    for (data, metric), one in found.items():
        given = facts["metrics"][data][metric]
        assert {key: one[key] for key in given} == given
    assert said["best"] in said["figures"]
    assert said["files"]["model.safetensors"] == (run / "model.safetensors").stat().st_size
    assert said["usable"] is True
    for one in said["data"]:
        printed = facts["fingerprints"].get(one["name"])
        first = printed[0] if isinstance(printed, list) else printed
        assert one["fingerprint"] == (None if first is None else first[:8])


@pytest.mark.parametrize("name", FINISHED)
def test_a_finished_run_in_words(command, name):
    run = GOLDEN / "finished" / name
    facts = json.loads((run / "run.json").read_text())
    answer = command("info", run)
    assert (answer.code, answer.err) == (0, "")
    told = answer.out
    assert f"{facts['parameters']:,} parameters" in told
    assert use_of(facts["task"]).does.split()[0] in told
    assert "\nstate      finished; last written 20" in told
    assert "seed 1" in told
    assert "commit a5af3f4" in told
    assert "go on with" not in told
    signature = next(iter(next(iter(facts["metrics"].values())).values()))["signature"]
    assert f"by {signature}" in told, "how a figure was computed stays in one piece"
    long = [line for line in told.splitlines() if len(line) > 80 and "by " not in line and str(run) not in line]
    assert long == []


@pytest.mark.parametrize("name", STOPPED)
def test_a_run_that_was_stopped_says_how_to_go_on(command, no_weights, name):
    run = GOLDEN / "stopped" / name
    step = int(next((run / "checkpoints").iterdir()).name.removeprefix("step-"))
    said = record(command, run)
    state = said["state"]
    assert (state["name"], state["step"]) == ("stopped", step)
    assert state["go_on"] == f"regard train --resume --out {run}"
    assert said["figures"] == []
    assert said["usable"] is False
    told = command("info", run).out
    assert f"stopped after step {step}; last written" in told
    assert "it cannot be used yet" in told
    assert f"go on with: regard train --resume --out {run}" in told


def test_parameters_that_no_file_says_are_counted(command):
    for name in STOPPED:
        run = GOLDEN / "stopped" / name
        model = weights.read_tensors(next((run / "checkpoints").iterdir()) / "model.safetensors")
        assert record(command, run)["model"]["parameters"] == sum(one.numel() for one in model.values())


def test_the_command_it_gives_can_be_typed(command, copy, monkeypatch):
    run = copy("stopped/words")
    monkeypatch.chdir(GOLDEN)
    said = record(command, run)
    assert (said["training"]["passes"], said["training"]["epochs"]) == (1, 3.0)
    program, *arguments = shlex.split(said["state"]["go_on"])
    assert program == "regard"
    assert command(*arguments).code == 0
    after = record(command, run)
    assert after["state"] == {"name": "finished", "step": None, "go_on": None, "may_be_running": False}
    assert after["best"]["name"] == "spearman"


def test_a_path_with_spaces_is_quoted(command, tmp_path):
    run = shutil.copytree(GOLDEN / "stopped" / "language", tmp_path / "my run")
    assert record(command, run)["state"]["go_on"].endswith(f"--out '{run}'")


def test_a_finished_run_that_went_on_is_not_over(command, copy):
    run = copy("finished/translation")
    shutil.copytree(GOLDEN / "stopped/translation/checkpoints/step-00000020", run / "checkpoints/step-00000250")
    said = record(command, run)
    assert (said["state"]["name"], said["state"]["step"]) == ("stopped", 250)
    assert said["usable"] is True
    shutil.move(run / "checkpoints/step-00000250", run / "checkpoints/step-00000200")
    assert record(command, run)["state"]["name"] == "finished"


def test_a_run_that_has_hardly_begun(command, copy):
    run = copy("stopped/language")
    shutil.rmtree(run / "checkpoints")
    for name in ("metrics.jsonl", "model.json", "tokenizer.json"):
        (run / name).unlink()
    said = record(command, run)
    assert (said["state"]["name"], said["model"]["name"], said["model"]["parameters"]) == ("begun", "gpt", None)
    told = command("info", run).out
    assert "gpt, parameters unknown" in told
    assert "begun; there is no checkpoint yet" in told
    assert "no step was reported" in told


def test_a_run_that_was_just_written_to_may_be_running(command, copy):
    run = copy("stopped/translation")
    os.utime(run / "metrics.jsonl")
    assert "may still be running" in command("info", run).out
    old = time.time() - 3600
    for path in (run, *run.rglob("*")):
        os.utime(path, (old, old))
    assert "may still be running" not in command("info", run).out


def test_evaluations_on_the_way_count_until_there_are_test_figures(command, copy):
    run = copy("finished/speech")
    (run / "run.json").unlink()
    best = record(command, run)["best"]
    assert (best["data"], best["name"], best["value"], best["step"]) == ("valid", "wer", 10.0, 200)
    assert "validation data, step 200: WER 10" in command("info", run).out


def test_an_imported_run(command, tmp_path):
    folder = bert(tmp_path / "theirs")
    command("import", folder, "--out", tmp_path / "run")
    said = record(command, tmp_path / "run")
    assert (said["state"]["name"], said["origin"], said["task"]) == ("imported", str(folder), "masked")
    assert said["training"]["seed"] is None, "how others trained it is not known"
    told = command("info", tmp_path / "run").out
    assert "imported from" in told
    assert "\ntraining" not in told


def test_a_run_of_another_version_is_told_as_far_as_it_goes(command, copy):
    run = copy("finished/images")
    facts = json.loads((run / "run.json").read_text())
    facts |= {"metrics": {"bars": {"accuracy": 3, "f1": {"value": "many"}}}, "training": [1], "parameters": "some"}
    (run / "run.json").write_text(json.dumps(facts))
    described = json.loads((run / "model.json").read_text())
    described["options"]["wings"] = 2
    (run / "model.json").write_text(json.dumps(described))
    said = record(command, run)
    assert said["figures"] == []
    assert said["model"]["parameters"] > 3000, "the numbers in the weights"


# ---- info: what cannot be read


def test_nothing_there(command, tmp_path):
    assert_refused(command("info", tmp_path / "gone"), 1, "gone: there is no such run, file or model", "regard runs")
    assert_refused(command("info", "trnsformer"), 1, "trnsformer", "did you mean transformer?")
    assert_refused(command("info", "speech"), 1, "speech", "speech is a task; its models are speech-transformer, las")
    assert_refused(command("info", "gpt/huge"), 2, "no size of gpt is called 'huge'; there are tiny, small")
    (tmp_path / "empty").mkdir()
    assert_refused(command("info", tmp_path / "empty"), 1, "neither a run (it has no config.toml)", "regard runs")
    assert_refused(command("info"), 2, "RUN|MODEL")


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("config.toml", "task = ", "not a TOML file"),
        ("config.toml", "[tool]\nx = 1\n", "not the recipe of a run (it names no task)"),
        ("run.json", '{"format": 1, "ta', "not a JSON file"),
        ("run.json", '{"format": 99}', "written by a newer regard (format 99"),
        ("run.json", "[]", "not a regard run"),
        ("model.json", "{}", "not a description of a model"),
        ("tokenizer.json", "{}", "not a tokenizer"),
    ],
)
def test_a_broken_file_is_named(command, copy, file, content, error):
    run = copy("finished/translation")
    (run / file).write_text(content)
    assert_refused(command("info", run), 1, error)
    assert str(run / file) in command("info", run).err


def test_weights_that_are_cut_short(command, copy):
    run = copy("finished/images")
    for name in ("run.json", "model.json"):
        (run / name).unlink()
    whole = (run / "model.safetensors").read_bytes()
    assert record(command, run)["model"]["parameters"] >= 3831
    (run / "model.safetensors").write_bytes(whole[:-10])
    assert_refused(command("info", run), 1, "not a whole safetensors file", "cut short")


# ---- info: models of others


def test_a_hugging_face_folder(command, no_weights, tmp_path):
    folder = gpt2(tmp_path / "theirs", spare=7)
    said = record(command, folder)
    assert (said["kind"], said["format"]) == ("foreign", "Hugging Face folder, gpt2")
    assert (said["task"], said["model"], said["tokenizer_pieces"]) == ("language", "gpt", [257])
    assert set(said["stored"]) == {"F32"}
    told = command("info", folder).out
    assert f"{said['parameters']:,} parameters" in told
    assert f"regard import {folder} --out runs/NAME" in told


@pytest.mark.parametrize("architecture", ["BertModel", "BertForPreTraining", "BertForSequenceClassification"])
def test_parameters_are_those_of_the_opened_model(command, tmp_path, architecture):
    folder = bert(tmp_path / "theirs", architecture)
    assert record(command, folder)["parameters"] == count_parameters(regard.load(folder, "cpu").module)


def test_pickled_weights_are_read_without_running_them(command, tmp_path):
    folder = bert(tmp_path / "theirs")
    expected = record(command, folder)["parameters"]
    torch.save(weights.load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert record(command, folder)["parameters"] == expected
    (folder / "pytorch_model.bin").write_bytes(b"not whole")
    assert_refused(command("info", folder), 1, "pytorch_model.bin")


def test_a_folder_of_a_family_that_is_not_known(command, tmp_path):
    folder = bert(tmp_path / "theirs")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "mamba"}))
    assert_refused(command("info", folder), 1, "model_type 'mamba' is not known; there are bert")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").unlink()
    assert record(command, folder)["tokenizer_pieces"] == []
    assert "\ntokenizer  none:" in command("info", folder).out
    (folder / "model.safetensors").unlink()
    assert_refused(command("info", folder), 1, "there are no weights in it")


def write_llama2c(path):
    """A file of llama2.c with random weights: 2 layers, 3 heads that share one key, 263 tokens."""
    D, F, L, H, G, V, T = 12, 10, 2, 3, 1, 263, 16
    E = D // H
    n = V * D + L * (D + D * D + 2 * G * E * D + D * D + D + 3 * D * F) + D + T * E
    path.write_bytes(struct.pack("<7i", D, F, L, H, G, V, T) + np.zeros(n, "<f4").tobytes())
    return path


def test_a_llama2c_file(command, tmp_path):
    path = write_llama2c(tmp_path / "stories.bin")
    said = record(command, path)
    opened = regard.checkpoints.foreign.hub.open_foreign(path)
    assert (said["format"], said["task"], said["tokenizer_pieces"]) == ("llama2.c file, llama", "language", [])
    assert said["parameters"] == sum(tensor.numel() for tensor in opened.tensors.values())
    assert "\ntokenizer  none:" in command("info", path).out
    path.write_bytes(b"\0" * 40)
    assert_refused(command("info", path), 1, "not a llama2.c file")


def test_a_gguf_file(command, tmp_path):
    gguf = pytest.importorskip("gguf")
    V, D, F = 300, 64, 96
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    for add, value in (("block_count", 1), ("context_length", 40), ("embedding_length", D), ("head_count", 4),
                       ("feed_forward_length", F), ("vocab_size", V)):  # fmt: skip
        getattr(writer, f"add_{add}")(value)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"w{i}" for i in range(V)])
    shapes = {"token_embd": (V, D), "output_norm": (D,), "blk.0.attn_norm": (D,), "blk.0.ffn_norm": (D,)}
    shapes |= {f"blk.0.attn_{part}": (D, D) for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (F, D), "blk.0.ffn_up": (F, D), "blk.0.ffn_down": (D, F)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.zeros(shape, np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    said = record(command, tmp_path / "a.gguf")
    assert (said["format"], said["tokenizer_pieces"], said["stored"]) == ("GGUF file, llama", [V], {"F32": 11})
    assert said["parameters"] == sum(int(np.prod(shape)) for shape in shapes.values())
    (tmp_path / "cut.gguf").write_bytes(b"GGUF")
    assert_refused(command("info", tmp_path / "cut.gguf"), 1, "not a GGUF file")
    (tmp_path / "b.gguf").write_bytes((tmp_path / "a.gguf").read_bytes().replace(b"llama", b"mamba"))
    assert_refused(
        command("info", tmp_path / "b.gguf"), 1, "architecture 'mamba' is not known; there are 'llama' and 'gpt2'"
    )


def test_whispers_file(command, tmp_path):
    sizes = {"n_mels": 10, "n_vocab": 51864, "n_audio_state": 16, "n_text_state": 16, "n_audio_head": 2,
             "n_text_head": 2, "n_audio_layer": 1, "n_text_layer": 1, "n_audio_ctx": 30, "n_text_ctx": 20}  # fmt: skip
    path = tmp_path / "tiny.pt"
    torch.save({"dims": sizes, "model_state_dict": {"x": torch.zeros(3, dtype=torch.float16)}}, path)
    said = record(command, path)
    assert (said["format"], said["task"], said["model"]) == ("OpenAI's file, Whisper", "speech", "speech-transformer")
    assert said["options"]["n_target"] == 51864
    assert said["stored"] == {"F16": 1}
    assert "gpt2.tiktoken, is not beside it" in said["missing"]
    torch.save({"dims": sizes | {"n_vocab": 60}, "model_state_dict": {}}, path)
    assert_refused(command("info", path), 1, "tiny.pt: its options make no speech-transformer")
    torch.save({"x": torch.zeros(3)}, path)
    assert_refused(command("info", path), 1, "no Whisper model", "OpenAI's Whisper")
    path.write_bytes(path.read_bytes()[:-100])
    assert_refused(command("info", path), 1, "not a whole PyTorch file", "cut short")


@pytest.mark.parametrize("first", ["3 2\n", ""], ids=["word2vec", "glove"])
def test_word_vectors(command, tmp_path, first):
    path = tmp_path / "vectors.txt"
    path.write_text(f"{first}the 1 2\ncat 3 4\ndog 5 6\n")
    said = record(command, path)
    assert (said["task"], said["tokenizer_pieces"], said["parameters"]) == ("words", [3], 6)
    (tmp_path / "other.txt").write_text("a text\n")
    assert_refused(command("info", tmp_path / "other.txt"), 1, "not a model that regard can open", "Hugging Face")


# ---- info: models by name


@pytest.mark.parametrize("name", names())
def test_every_model_by_name(command, name):
    said = record(command, name)
    assert said["about"]
    assert [option["name"] for option in said["options"]] == list(regard.models.registry.entry(name).options)
    told = command("info", name).out
    assert told.startswith(f"model      {name}: ")
    assert max(map(len, told.splitlines())) <= 80
    for size in said["sizes"]:
        assert f"{size['parameters']:,}" in told


def test_a_size_by_name(command):
    said = record(command, "transformer/base")
    assert (said["size"], [size["name"] for size in said["sizes"]]) == ("base", ["base"])
    size = describe_model("transformer/base").chosen
    assert size.fixed + 37_000 * size.a_token == 63_082_496, "as the table of parameters has it"
    told = command("info", "transformer/base").out
    assert "60,522,496 with a vocabulary of 32,000: 44,138,496, and 512 for each token" in " ".join(told.split())
    assert "norm                layer       layer | rms" in told
    assert record(command, "vit/base")["sizes"][0]["parameters"] == 86_567_656


# ---- runs


def test_runs_as_a_table_that_fits(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    answer = command("runs", GOLDEN)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert len(lines) == 1 + len(FINISHED) + len(STOPPED)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["run", "task", "size", "steps", "figure", "when", "state"]
    row = next(line for line in lines if line.startswith("finished/translation "))
    assert row.split()[1:6] == ["translation", "5.3k", "200", "BLEU", "4.779"]
    assert next(line for line in lines if line.startswith("stopped/translation")).split()[3] == "20/30"
    monkeypatch.setenv("COLUMNS", "220")
    wide = command("runs", GOLDEN).out.splitlines()[0].split()
    assert wide == ["run", "task", "model", "size", "steps", "figure", "on", "time", "when", "state", "device"]


def test_runs_are_sorted_newest_first_and_as_json(command, tmp_path):
    for i, name in enumerate(["old", "new", "middle"]):
        run = shutil.copytree(GOLDEN / "finished/words", tmp_path / "deep" / name)
        when = time.time() - {"old": 90_000, "new": 10, "middle": 500}[name] - i
        for path in run.iterdir():
            os.utime(path, (when, when))
    lines = [json.loads(line) for line in command("runs", tmp_path, "--json").out.splitlines()]
    assert [one["name"] for one in lines] == ["new", "middle", "old"]
    assert lines[0]["model"]["parameters"] == 192
    assert [line.split()[0] for line in command("runs", tmp_path).out.splitlines()[1:]] == [
        "deep/new", "deep/middle", "deep/old",
    ]  # fmt: skip


def test_runs_that_cannot_be_read_are_said_and_left_out(command, tmp_path):
    shutil.copytree(GOLDEN / "finished/words", tmp_path / "good")
    for name, text in (("other", "[tool]\nx = 1\n"), ("broken", "task =")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").write_text(text)
    answer = command("runs", tmp_path)
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 2
    assert answer.err.count("left out: ") == 2
    assert "broken/config.toml: not a TOML file" in answer.err
    assert "other/config.toml: not the recipe of a run" in answer.err


def test_links_that_go_round_are_followed_once(command, tmp_path):
    shutil.copytree(GOLDEN / "finished/words", tmp_path / "a" / "run")
    (tmp_path / "a" / "round").symlink_to(tmp_path, target_is_directory=True)
    assert len(command("runs", tmp_path).out.splitlines()) == 2


def test_a_folder_without_runs_says_how_to_make_one(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = command("runs")
    assert (answer.code, answer.out) == (0, "")
    assert "runs: there is no run in it; make one: regard train translation/dates --out runs/dates" in answer.err
    assert_refused(command("runs", "gone"), 2, "gone: there is no such folder", "such as runs")
    (tmp_path / "file").write_text("")
    assert_refused(command("runs", "file"), 2, "file: not a folder")


# ---- plot


def test_plot_says_what_it_leaves_out(command, tmp_path):
    out = tmp_path / "pictures" / "curves.png"
    runs = [GOLDEN / "finished" / name for name in ("translation", "words", "speech")]
    answer = command("plot", *runs, "--out", out)
    assert (answer.code, answer.out) == (0, "")
    assert f"left out: {runs[1]} has reported nothing" in answer.err
    assert "left out for want of room: cer" in answer.err
    assert f"picture: {out}" in answer.err
    assert out.stat().st_size > 10_000


def test_the_ring_is_at_the_figure_that_decided():
    ringed = {}
    for name in FINISHED:
        panels = curves_of([summarise(GOLDEN / "finished" / name)]).panels
        ringed[name] = [(panel.name, curve.best) for panel in panels for curve in panel.curves if curve.best]
    assert ringed.pop("words") == []
    assert all(len(one) == 1 for one in ringed.values()), ringed
    assert ringed["series"] == [("pinball loss (scaled)", 16)]
    assert ringed["series-together"] == [("MAE (scaled)", 10)]
    assert ringed["translation"] == [("BLEU", 100)]
    assert ringed["speech"] == [("WER (%)", 200)]
    assert ringed["labels"] == [("macro F1", 24)]


def test_plot_refuses(command, tmp_path):
    run, silent = GOLDEN / "finished/translation", GOLDEN / "finished/words"
    assert_refused(command("plot", run), 2, "a picture needs a name", "--out curves.png")
    assert_refused(command("plot", run, "--out", "a.gif"), 2, "allowed are names that end in .png, .svg, .pdf")
    assert_refused(command("plot", tmp_path / "gone", "--out", "a.png"), 1, "there is no such folder", "regard runs")
    assert_refused(command("plot", tmp_path, "--out", "a.png"), 1, "not a run folder")
    many = [tmp_path / str(i) for i in range(25)]
    assert_refused(command("plot", *many, "--out", "a.png"), 2, "25 runs in one picture cannot be told apart")
    answer = command("plot", silent, "--out", tmp_path / "a.png")
    assert answer.code == 1
    assert "error: there is nothing to draw: no run has reported anything" in answer.err
    assert not (tmp_path / "a.png").exists()


# ---- card


@pytest.mark.parametrize("name", FINISHED)
def test_a_card_for_every_task(name):
    run = GOLDEN / "finished" / name
    facts = json.loads((run / "run.json").read_text())
    card = write_card(run)
    assert card.startswith(f"# {name}\n\nThis model {use_of(facts['task']).does}.")
    assert f"with {facts['parameters']:,} parameters" in card
    heads = [line for line in card.splitlines() if line.startswith("## ")]
    assert heads == ["## Use", "## Figures", "## Training data", "## Training", "## Limits"]
    rows = [line for line in card.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + sum(map(len, facts["metrics"].values()))
    assert all(len(row.replace("\\|", "").split("|")) == 7 for row in rows)
    used = card.split("```")[1].strip().splitlines()
    assert [line.split()[:3] for line in used[:2]] == [["regard", verb, str(run)] for verb in ("predict", "evaluate")]
    assert len(used) == 3


@pytest.mark.parametrize("name", ["translation", "language", "masked", "labels"])
def test_the_commands_of_a_card_can_be_typed(command, tmp_path, monkeypatch, name):
    run = GOLDEN / "finished" / name
    monkeypatch.chdir(GOLDEN)
    for line in write_card(run).split("```")[1].strip().splitlines():
        answer = command(*[word if word != "seen.html" else tmp_path / word for word in shlex.split(line)[1:]])
        assert answer.code == 0, (line, answer.err)


def test_a_card_says_what_is_not_known(tmp_path, copy):
    stopped = write_card(copy("stopped/translation"))
    assert "**Its training is not over** (20 of 30 steps, 2 passes over the data)" in stopped
    assert "None were measured." in stopped
    assert "It has no weights yet, so it cannot be used." in stopped
    run = copy("finished/translation")
    (run / "samples").mkdir()
    (run / "samples/step-00000100.txt").write_text("source     two, it's\nreference  zwei\nmodel      zwei\n")
    assert f"regard predict {run} {shlex.quote(chr(39).join(('two, it', 's')))}\n" in write_card(summarise(run))


def test_a_model_without_attention_is_verified_instead_of_looked_at():
    assert "regard verify" in write_card(GOLDEN / "finished/words")
    assert "regard look" in write_card(GOLDEN / "finished/series")


def test_a_header_is_an_object_of_its_own(tmp_path):
    header = read_header(write_llama2c(tmp_path / "a.bin"))
    assert header.spec.options["n_kv_heads"] == 1
