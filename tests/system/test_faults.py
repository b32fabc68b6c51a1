"""What can happen to a run folder is met and named: rot, other data, a second training, a full disk, a lost folder."""

import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.checkpoints.lock import NAME as LOCK
from regard.checkpoints.lock import Busy, Gone, locked
from regard.checkpoints.run import RunFolder
from regard.config.recipe import read_recipe
from regard.data.io.hashes import Damaged
from regard.errors import ConfigError, EnvironmentProblem
from regard.tasks.opening import load
from regard.tasks.recipes import make_recipe
from regard.tasks.registry import OURS
from regard.tasks.training import train

GOLDEN = Path(__file__).parents[1] / "golden"
FEW = ["train.plan=off", "train.device=cpu"]
STEPS = [f"train.{each}" for each in ("epochs=0", "steps=4", "eval_every=2", "save_every=2", "log_every=2")]
CHANGED = {  # a file of each task's training data
    "translation": "data/pairs/train.tsv",
    "language": "data/texts/train/0.txt",
    "masked": "data/texts/train/0.txt",
    "labels": "data/labels/train.csv",
    "answers": "data/questions/train.json",
    "words": "data/words/text.txt",
    "series": "data/series/hours.csv",
    "images": "data/images/train/lying/0.png",
    "captions": "data/captions/pictures/red-red-0.png",
    "speech": "data/speech/train-0.wav",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data and the runs that golden recipes name."""
    for name in ("data", "finished"):
        shutil.copytree(GOLDEN / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return tmp_path


def train_here(task: str, *settings: str, resume: bool = False, **how: Any) -> list[str]:
    """Train a golden recipe for a few steps in the folder `run`; what was said."""
    said: list[str] = []
    table = read_recipe(GOLDEN / "finished" / task / "config.toml")
    recipe = make_recipe(table, [*FEW, *([] if task == "words" else STEPS), *settings])
    train(recipe, Path("run"), data_root=None, resume=resume, say=said.append, **how)
    return said


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONFAULTHANDLER": "1"} | more


def test_a_second_training_is_refused_and_touches_nothing() -> None:
    train_here("series")
    with locked(Path("run")):
        before = snapshot(Path("run"))
        with pytest.raises(Busy, match="another training is at work here"):
            train_here("series", resume=True)
        assert snapshot(Path("run")) == before
    assert not (Path("run") / LOCK).exists()


@pytest.mark.parametrize("name", ["config.toml", "model.json", "model.safetensors", "tokenizer.json", "run.json"])
def test_a_flipped_bit_is_named_when_a_run_is_opened(name: str) -> None:
    train_here("language")
    flip(Path("run") / name)
    with pytest.raises(Damaged, match=rf"{re.escape(name)}: damaged: not as it was written"):
        load("run", "cpu")
    if name == "model.safetensors":
        assert load("run", "cpu", check=False) is not None


def test_older_runs_open_and_say_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from regard.cli.opening import open_predictor

    assert not (Path("finished/language") / "hashes.json").exists()
    open_predictor(Path("finished/language"), "cpu")
    assert capsys.readouterr() == ("", "finished/language: an older version wrote it, without hashes: " + NOT_CHECKED)
    open_predictor(Path("finished/language"), "cpu", no_check=True)
    assert capsys.readouterr() == ("", "")


NOT_CHECKED = "its files cannot be checked\n"


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "hashes.json"])
def test_a_damaged_newest_checkpoint_is_said_and_the_one_before_is_used(name: str) -> None:
    train_here("series", "train.steps=8")
    whole = {n: t.clone() for n, t in load_file("run/checkpoints/step-00000008/model.safetensors").items()}
    assert RunFolder("run").steps()[-2:] == [6, 8]
    flip(Path("run/checkpoints/step-00000008") / name)
    said = train_here("series", "train.steps=8", resume=True)
    assert any(f"step-00000008/{name}" in line and "checkpoint before it, of step 6" in line for line in said), said
    assert "going on after step 6" in said
    again = load_file("run/checkpoints/step-00000008/model.safetensors")
    assert all(torch.equal(whole[key], again[key]) for key in whole)


def test_where_no_checkpoint_is_whole_that_is_the_error() -> None:
    train_here("series")
    for step in RunFolder("run").steps():
        flip(Path(f"run/checkpoints/step-{step:08d}/model.safetensors"))
    before = snapshot(Path("run/checkpoints"))
    with pytest.raises(Damaged, match="and there is no other checkpoint that is whole"):
        train_here("series", resume=True)
    assert snapshot(Path("run/checkpoints")) == before


def test_cached_ids_with_a_flipped_bit_are_said_and_made_anew() -> None:
    train_here("language")
    ids = sorted(Path("run/data").glob("*/*/stream.ids"))[0]
    whole = ids.read_bytes()
    flip(ids)
    said = train_here("language", resume=True)
    assert any("stream.ids: damaged" in line and "made anew" in line for line in said), said
    assert ids.read_bytes() == whole


@pytest.mark.parametrize("task", OURS)
def test_changed_data_is_named_and_refused_for_every_task(task: str) -> None:
    train_here(task)
    path = Path(CHANGED[task])
    train_here(task, resume=True)  # nothing changed
    os.utime(path, (1, 1))
    train_here(task, resume=True)  # another time is no other file
    content = path.read_bytes()
    path.write_bytes(content[:-8] + bytes(8) if path.suffix in (".png", ".wav") else content + content[-40:])
    before = snapshot(Path("run"))
    with pytest.raises(ConfigError, match="the data is not what the run was begun with") as problem:
        train_here(task, resume=True)
    assert path.name in str(problem.value)
    assert "--changed-data" in str(problem.value.hint)
    assert snapshot(Path("run")) == before


def test_changed_data_goes_on_if_that_is_wanted() -> None:
    train_here("series")
    path = Path(CHANGED["series"])
    path.write_bytes(path.read_bytes().replace(b",1", b",2").replace(b",-1", b",-2"))
    said = train_here("series", "train.steps=6", resume=True, changed_data=True)
    assert any(line.startswith("changed since the run was begun: data/series/hours.csv: ") for line in said), said
    assert "changed since the run was begun: train.steps: 4 → 6" in said
    assert not any(line.startswith("changed") for line in train_here("series", "train.steps=6", resume=True))


def test_a_tokenizer_that_comes_out_otherwise_is_refused_and_the_old_one_stays() -> None:
    train_here("language")
    before = Path("run/tokenizer.json").read_bytes()
    Path(CHANGED["language"]).write_text("quite another vocabulary, zebras and quails\n" * 30)
    with pytest.raises(ConfigError, match=r"its data gives another tokenizer\.json now"):
        train_here("language", resume=True, changed_data=True)
    assert Path("run/tokenizer.json").read_bytes() == before


def test_changed_settings_are_named() -> None:
    train_here("series")
    with pytest.raises(ConfigError, match=r"cannot go on with these: data\.horizon: \d+ → 3") as problem:
        train_here("series", "data.horizon=3", resume=True)
    assert "--changed-data" in str(problem.value.hint)


def test_drafts_are_cleared_at_the_next_start_and_nothing_else() -> None:
    train_here("series")
    ours = ["run/.draft-model.safetensors", "run/checkpoints/.draft-step-00000009", "run/.tokenizer.json.4711"]
    theirs = ["run/.hidden", "run/notes.txt", "run/.v1.5-notes"]
    for name in (*ours, *theirs):
        Path(name).write_text("half")
    Path("run/data").mkdir(exist_ok=True)
    Path("run/data/.0123.0123456789ab").mkdir()
    train_here("series", resume=True)
    assert not [name for name in (*ours, "run/data/.0123.0123456789ab") if Path(name).exists()]
    assert all(Path(name).exists() for name in theirs)


def test_a_folder_that_vanishes_ends_in_one_error_and_nothing_is_made_in_its_place() -> None:
    def vanish() -> None:
        while not list(Path("run").glob("checkpoints/step-*")):
            time.sleep(0.001)
        Path("run").rename("aside")

    thread = threading.Thread(target=vanish)
    thread.start()
    with pytest.raises(Gone, match="run: the run folder is gone") as problem:
        train_here("series", "train.steps=4000")
    thread.join()
    assert problem.value.hint == "put it back and go on: regard train --resume --out run"
    assert not Path("run").exists()
    steps = RunFolder("aside").steps()
    Path("aside").rename("run")
    (Path("run") / LOCK).unlink()  # its process, which is this one, is still there
    assert f"going on after step {steps[-1]}" in train_here("series", f"train.steps={steps[-1] + 2}", resume=True)


def test_a_full_disk_is_said_and_what_is_saved_stays() -> None:
    train_here("series")
    whole, before = RunFolder("run").steps(), resource.getrlimit(resource.RLIMIT_FSIZE)
    size = Path("run/checkpoints/step-00000004/optimizer.safetensors").stat().st_size
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, before[1]))
    try:
        with pytest.raises(EnvironmentProblem, match="cannot be written") as problem:
            train_here("series", "train.steps=6", resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "disk space" in str(problem.value.hint)
    assert RunFolder("run").steps() == whole
    assert not list(Path("run").rglob(".draft*"))
    assert "going on after step 4" in train_here("series", "train.steps=6", resume=True)


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from regard.cli.main import run; run()", *words]


def begin(*how: str, **more: str) -> subprocess.Popen[str]:
    """A training on the command line that would take long."""
    path = Path("recipe.toml")
    path.write_text((GOLDEN / "finished" / "series" / "config.toml").read_text())
    words = [*how, "train", str(path), *FEW, *STEPS, "train.steps=1000000", "--out", "run"]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment(**more))


def until_saved(process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 90
    while not list(Path("run").glob("checkpoints/step-*")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once_and_says_what_is_saved() -> None:
    program = (
        "import regard.training.trainer as t, time, sys\n"
        "def slow(*a): sys.stderr.write('saving\\n'); sys.stderr.flush(); time.sleep(60)\n"
        "whole = t.Trainer._save\n"
        "t.Trainer._save = lambda s, w: slow() if s.progress.step > 2 else whole(s, w)\n"
        "from regard.cli.main import run; run()"
    )
    process = begin(sys.executable, "-c", program)
    until_saved(process)
    assert process.stderr is not None
    for line in process.stderr:
        if line == "saving\n":
            break
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, talk = process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - began < 10
    assert talk.splitlines()[-2:] == [
        "stopped at once; saved is step 2",
        "hint: go on with: regard train --resume --out run",
    ]
    assert "Traceback" not in talk
    assert not (Path("run") / LOCK).exists()


def port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_the_other_in_two_lines(victim: int) -> None:
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port()}
    both = [begin(*command(), RANK=str(rank), LOCAL_RANK=str(rank), **meeting) for rank in range(2)]
    until_saved(both[0])
    both[victim].kill()
    began = time.monotonic()
    talk = talk_of(both[1 - victim])
    both[victim].communicate()
    assert time.monotonic() - began < 20
    error, hint = talk.splitlines()[-2:]
    assert re.fullmatch(r"error: another process of this training is gone .*; saved is step \d+", error)
    assert hint == "hint: go on with: regard train --resume --out run (in all 2 processes)"
    assert "Traceback" not in talk


def talk_of(process: subprocess.Popen[str]) -> str:
    """What a process says until it ends; one that does not is made to say where it is."""
    try:
        return process.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        raise AssertionError(process.communicate(timeout=10)[1]) from None


@pytest.mark.slow
def test_a_process_that_is_stuck_while_another_is_gone_says_so_and_ends() -> None:
    stuck = (
        "import regard.training.trainer as t, time\n"
        "whole = t.Trainer._step\n"
        "def step(s, *a): whole(s, *a) if s.progress.step < 4 else time.sleep(600)\n"
        "t.Trainer._step = step\n"
        "from regard.cli.main import run; run()"
    )
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port()}
    both = [begin(sys.executable, "-c", stuck, RANK=str(rank), LOCAL_RANK=str(rank), **meeting) for rank in range(2)]
    until_saved(both[0])
    both[1].kill()
    talk = talk_of(both[0])
    both[1].communicate()
    assert both[0].returncode == 1
    error, hint = talk.splitlines()[-2:]
    assert re.fullmatch(r"error: another process of this training is gone .*; saved is step \d+", error)
    assert hint == "hint: go on with: regard train --resume --out run (in all 2 processes)"


@pytest.mark.slow
def test_a_process_killed_under_torchrun_ends_the_other_in_two_lines() -> None:
    how = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "regard"]
    process = begin(sys.executable, *how)
    until_saved(process)
    holder = json.loads((Path("run") / LOCK).read_text())
    assert holder["pid"] == process.pid  # the launcher's
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ranks = [int(pid) for pid in children if _rank(int(pid)) == "1"]
    os.kill(ranks[0], signal.SIGKILL)
    began = time.monotonic()
    _, talk = process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    go_on = "hint: go on with: torchrun --nproc-per-node 2 -m regard train --resume --out run"
    assert talk.splitlines().count(go_on) == 1, talk
    before = talk.splitlines()[talk.splitlines().index(go_on) - 1]
    assert re.search(r"(another process of this training is gone .*|stopped .*)", before)
    assert "Traceback" not in talk.partition(go_on)[0]


def _rank(pid: int) -> str | None:
    said = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((each[5:].decode() for each in said if each.startswith(b"RANK=")), None)


def test_a_run_that_was_refused_leaves_no_folder(command: Any, tmp_path: Path) -> None:
    table = tmp_path / "texts.csv"
    table.write_text("text,label\none,a\n")
    words = ("train", "labels", "--train", table, "--out", tmp_path / "runs" / "new")
    assert command(*words).code != 0
    assert not (tmp_path / "runs").exists()
    table.write_text("text,label\n" + "one,a\ntwo,b\n" * 4)
    start = f"model.start={Path(__file__).parents[1] / 'golden' / 'finished' / 'masked'}"
    answer = command(*words, start, "--max-memory", "1KB")
    assert answer.code != 0
    assert "1.0 kB may be used" in answer.err
    assert not (tmp_path / "runs").exists()
