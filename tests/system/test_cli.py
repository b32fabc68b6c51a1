"""The command line as people meet it: their mistakes end in one error line and a hint, and Ctrl-C loses nothing."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import regard
import tiny_runs
from regard.checkpoints.run import RunFolder
from regard.data.io.hashes import record_hashes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.train_tiny(tmp_path_factory.mktemp("cli"))


def outside(*arguments: object, **options: object) -> subprocess.Popen[str]:
    """The command as a process of its own, with one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "regard", *map(str, arguments)]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )


def assert_refused(answer: tiny_runs.Answer, code: int, error: str, hint: str) -> None:
    """One error line that says it, a hint that helps, the exit code, nothing on stdout and no traceback."""
    assert answer.code == code
    assert answer.out == ""
    assert "Traceback" not in answer.err
    errors = [line for line in answer.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert error in answer.err
    assert hint in "".join(line for line in answer.err.splitlines() if line.startswith("hint:"))


def test_an_empty_corpus(command, tmp_path):
    arguments = tiny_runs.settings(tmp_path)
    (tmp_path / "train.en").write_text("")
    (tmp_path / "train.de").write_text("")
    answer = command("train", *arguments, "--out", tmp_path / "run")
    assert_refused(answer, 1, f"{tmp_path / 'train.en'}: is empty", "at least one line is needed")


def test_one_pair_is_enough_to_train_on(command, tmp_path):
    arguments = tiny_runs.settings(tmp_path)
    for language, text in (("en", "one two\n"), ("de", "eins zwei\n")):
        for name in ("train", "valid", "test"):
            (tmp_path / f"{name}.{language}").write_text(text)
    short = ("train.steps=60", "train.eval_every=60")
    assert command("train", *arguments, *short, "--out", tmp_path / "run").code == 0
    assert command("predict", tmp_path / "run", "one two").out == "eins zwei\n"


def test_a_missing_file(command, tmp_path):
    arguments = tiny_runs.settings(tmp_path)
    (tmp_path / "valid.de").unlink()
    answer = command("train", *arguments, "--out", tmp_path / "run")
    assert_refused(answer, 1, f"{tmp_path / 'valid.de'}", "")
    relative = command("train", "--train", "nowhere.tsv", "--valid", "nowhere.tsv", "--out", tmp_path / "other")
    assert_refused(relative, 1, "nowhere.tsv: there is no such file", "set REGARD_DATA or --data-root")


def test_texts_of_unequal_length(command, tmp_path):
    arguments = tiny_runs.settings(tmp_path)
    with (tmp_path / "train.de").open("a") as file:
        file.write("eins\n")
    answer = command("train", *arguments, "--out", tmp_path / "run")
    assert_refused(answer, 1, "train.en has 1000 lines but", "the n-th lines of both files must belong together")


def test_misspelt_keys_and_unknown_options_are_told_at_once(command, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text('task = "translation"\n[model]\nd_modle = 3\nflavour = "vanilla"\n[trian]\nsteps = 3\n')
    answer = command("train", recipe, "train.lr=fast", "--out", tmp_path / "run")
    assert_refused(answer, 2, "the recipe cannot be used:", "")
    for told in ("did you mean model.d_model?", "model.flavour is not known", "did you mean [train]?", "train.lr"):
        assert told in answer.err
    assert not (tmp_path / "run").exists()


def test_a_gpu_where_there_is_none(command, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    answer = command("train", *tiny_runs.settings(tmp_path), "train.device=cuda", "--out", tmp_path / "run")
    assert_refused(answer, 1, "cuda was asked for, and this machine shows no GPU", "use train.device=cpu, or auto")


def test_a_gpu_for_predicting_where_there_is_none(command, folder, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert_refused(
        command("predict", folder, "one", "--device", "cuda"), 1, "shows no GPU", "use the device cpu, or auto"
    )


def test_weights_cut_short(command, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    whole = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert_refused(command("predict", copy, "one"), 1, "model.safetensors: damaged: not as it was", "--no-check")
    unchecked = command("predict", copy, "one", "--no-check")
    assert_refused(unchecked, 1, "not a whole safetensors file", "cut short while being copied")


def test_what_was_changed_on_purpose_is_exported_without_a_check(command, tmp_path):
    golden = Path(__file__).parents[1] / "golden" / "finished" / "language"
    copy = shutil.copytree(golden, tmp_path / "run")
    record_hashes(copy, ["model.safetensors"])
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    words = ("export", copy, "--to", "hf", "--out", tmp_path / "out")
    assert_refused(command(*words), 1, "model.safetensors: damaged: not as it was written", "--no-check")
    answer = command(*words, "--no-check")
    assert answer.code == 0, answer.err
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_weights_of_another_model(command, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    model = (copy / "model.json").read_text()
    (copy / "model.json").write_text(model.replace('"n_encoder_layers": 1', '"n_encoder_layers": 2'))
    assert_refused(command("predict", copy, "one"), 1, "model.json: damaged: not as it was written", "--no-check")
    unchecked = command("predict", copy, "one", "--no-check")
    assert_refused(unchecked, 1, "weights do not fit the model", "another architecture")


def test_folders_that_are_no_runs(command, folder, tmp_path):
    assert_refused(command("predict", tmp_path / "none", "one"), 1, "there is no such folder", "`regard train` made")
    assert_refused(
        command("evaluate", tmp_path), 1, "neither a run (it has no config.toml) nor a model", "`regard train` made"
    )
    copy = shutil.copytree(folder, tmp_path / "run")
    (copy / "model.safetensors").unlink()
    assert_refused(command("look", copy, "one"), 1, "the run has no weights yet", f"regard train --resume --out {copy}")


def test_a_run_is_not_overwritten(command, folder):
    answer = command("train", *tiny_runs.settings(folder.parent), "--out", folder)
    assert_refused(answer, 2, f"{folder}: there is a run already", "--resume")


def test_a_run_cannot_go_on_as_another(command, folder):
    arguments = ("train", *tiny_runs.settings(folder.parent), "model.n_heads=4", "--resume", "--out", folder)
    assert_refused(
        command(*arguments), 2, "go on with these: model.n_heads: 2 → 4", "resume with the recipe of the run"
    )


def test_a_full_disk_while_saving(command, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("regard.checkpoints.weights.save_file", full)
    short = ("train.steps=2", "train.save_every=1")
    answer = command("train", *tiny_runs.settings(tmp_path), *short, "--out", tmp_path / "run")
    assert_refused(answer, 1, "No space left on device", "free some disk space")


def test_a_full_disk_anywhere_else(command, tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "metrics.jsonl")

    monkeypatch.setattr("regard.training.report.Reporter.metrics", full)
    short = ("train.steps=2", "train.log_every=1")
    answer = command("train", *tiny_runs.settings(tmp_path), *short, "--out", tmp_path / "run")
    assert_refused(answer, 1, "metrics.jsonl: No space left on device", "free some disk space")


@pytest.mark.slow
def test_files_that_may_not_grow(tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    process = outside(
        "train", *tiny_runs.settings(tmp_path), "train.steps=2", "--out", tmp_path / "run", preexec_fn=limit
    )
    _, err = process.communicate(timeout=120)
    assert_refused(tiny_runs.Answer(process.returncode, "", err), 1, "cannot be written", "free some disk space")


def test_ten_thousand_words_in_a_line(command, folder):
    answer = command("predict", folder, stdin="one two " * 5000 + "\nten\n")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 2
    assert answer.out.splitlines()[1] == "zehn"


def test_characters_never_seen(command, folder):
    answer = command("predict", folder, stdin="😀 Ünseen ζ\none\n\u2028\n\x00\n")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.split("\n")
    assert len(lines) == 5
    assert lines[1] == "eins"


def test_bytes_that_are_no_text(command, folder, tmp_path):
    (tmp_path / "mixed.txt").write_bytes("zwölf\n".encode() + "zwölf\n".encode("latin-1"))
    answer = command("predict", folder, "--input", tmp_path / "mixed.txt")
    assert_refused(answer, 1, "mixed.txt:2: not UTF-8", "iconv")


def test_a_reader_that_has_had_enough(folder):
    process = outside("predict", folder, stdin=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    process.stdout.close()
    process.stdin.write("one\n" * 2000)
    process.stdin.close()
    assert process.stderr
    assert process.stderr.read() == ""
    assert process.wait(60) == 0


def test_ctrl_c_saves_and_resume_ends_where_an_unbroken_run_does(command, tmp_path):
    arguments = ["train", *tiny_runs.settings(tmp_path), "train.steps=200", "train.eval_every=200", "train.log_every=1"]
    run = RunFolder(tmp_path / "stopped")
    process = outside(*arguments, "train.save_every=200", "--out", run.path)
    _wait_for(run.metrics)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == f"hint: go on with: regard train --resume --out {run.path}"
    (step,) = run.steps()
    assert err.splitlines()[-2] == f"stopped after step {step}"
    assert 0 < step < 200
    assert run.weights.exists()  # what there is can be used
    resumed = command("train", "--resume", "--out", run.path)
    assert resumed.code == 0
    assert f"going on after step {step}" in resumed.err
    assert [json.loads(line)["step"] for line in run.metrics.read_text().splitlines()][:200] == list(range(1, 201))
    assert command(*arguments, "--out", tmp_path / "whole").code == 0
    models = [regard.load(tmp_path / name, "cpu").module.state_dict() for name in ("stopped", "whole")]
    assert all((models[0][name] - tensor).abs().max() < 1e-5 for name, tensor in models[1].items())


def _wait_for(path) -> None:
    until = time.monotonic() + 60
    while not path.exists() or not path.read_text():
        assert time.monotonic() < until, f"{path} was never written"
        time.sleep(0.02)


def test_the_demo_removes_only_what_it_made(command, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    answer = command("demo", "--out", tmp_path)
    assert_refused(answer, 2, "there is something that no demo made", "--out FOLDER")
    assert (tmp_path / "run" / "thesis.txt").exists()


@pytest.mark.slow
def test_the_demo_reads_dates_it_has_never_seen(command, tmp_path):
    answer = command("demo", "--json", "--out", tmp_path)
    assert answer.code == 0
    record = json.loads(answer.out.splitlines()[-1])
    assert record["exact_match"] >= 0.99
    assert record["train_seconds"] > 0
    assert (tmp_path / "alignment.png").stat().st_size > 10_000
    again = command("demo", "--json", "--out", tmp_path, "--steps", 1)
    assert again.code == 0
    assert json.loads(again.out)["exact_match"] < 0.5
