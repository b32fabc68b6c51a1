"""One training at a time in a folder: who holds it is said, and who is gone is told from who is there."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from regard.checkpoints.lock import NAME, Busy, Gone, Holder, Lock, locked, read_lock
from regard.checkpoints.run import RunFolder
from regard.errors import CheckpointError


def put(folder: Path, holder: Holder, *, age: float = 0.0) -> None:
    (folder / NAME).write_text(json.dumps(asdict(holder)))
    os.utime(folder / NAME, (time.time() - age, time.time() - age))


def test_a_second_training_is_refused_and_told_why(tmp_path: Path) -> None:
    with locked(tmp_path) as lock:
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(Busy, match="another training is at work here") as problem, locked(tmp_path):
            pass
        assert str(os.getpid()) in str(problem.value)
        assert socket.gethostname() in str(problem.value)
        assert lock.holder.since in str(problem.value)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        assert lock.is_held()
    assert list(tmp_path.iterdir()) == []


def test_it_is_given_back_however_the_training_ends(tmp_path: Path) -> None:
    for problem in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(problem), locked(tmp_path):
            raise problem
        assert not (tmp_path / NAME).exists()


def test_folders_in_which_nothing_was_written_are_removed(tmp_path: Path) -> None:
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / NAME).exists()
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "config.toml").touch()
    assert (tmp_path / "a" / "b" / "config.toml").exists()


def test_a_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    if not (pid := os.fork()):
        with locked(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)
    while read_lock(tmp_path) is None or not _is_zombie(pid):
        time.sleep(0.01)
    with locked(tmp_path):  # also as long as nobody has waited for it
        holder = read_lock(tmp_path)
        assert holder is not None
        assert holder.pid == os.getpid() != pid
    os.waitpid(pid, 0)
    assert read_lock(tmp_path) is None


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_another_process_of_the_same_number_is_another(tmp_path: Path) -> None:
    holder = replace(Holder.here(), id="other")
    put(tmp_path, holder)
    with pytest.raises(Busy), locked(tmp_path):
        pass
    put(tmp_path, replace(holder, started="long ago"))
    with locked(tmp_path):
        pass


def test_on_another_machine_signs_of_life_decide(tmp_path: Path) -> None:
    holder = replace(Holder.here(), id="other", host="elsewhere")
    put(tmp_path, holder)
    with pytest.raises(Busy, match="on elsewhere") as problem, locked(tmp_path):
        pass
    assert problem.value.hint == f"if it no longer runs there: rm {tmp_path / NAME}"
    put(tmp_path, holder, age=600)
    with locked(tmp_path):
        pass


def test_processes_of_one_launcher_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for named in ("none", "7c1f"):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", named)
        one = Holder.here()
        assert one.pid == os.getppid()
        put(tmp_path, replace(one, since="before a restart"))
        with locked(tmp_path) as lock:
            assert lock.holder.id == one.id
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
        put(tmp_path, one)
        with pytest.raises(Busy), locked(tmp_path):
            pass


def test_a_lock_shows_that_somebody_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.checkpoints.lock._BEAT", 0.01)
    with locked(tmp_path) as lock:
        os.utime(lock.path, (0, 0))
        until = time.monotonic() + 10
        while lock.path.stat().st_mtime == 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert lock.path.stat().st_mtime > 0


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    put(tmp_path, replace(Holder.here(), id="stale", started="long ago"))
    program = (
        "import sys, time; from pathlib import Path; from regard.checkpoints.lock import locked, Busy\n"
        "try:\n    with locked(Path(sys.argv[1])): print('mine', flush=True); sys.stdin.read()\n"
        "except Busy: print('busy', flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    those = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [one.stdout.readline().strip() for one in those if one.stdout is not None]
    for one in those:
        one.communicate("")
    assert sorted(said) == ["busy", "busy", "busy", "mine"]


def test_nothing_is_written_into_a_folder_that_is_gone(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with locked(run.path) as lock:
        run.lock = lock
        run.path.rename(tmp_path / "aside")
        for write in (
            lambda: run.write_text("a", "b"),
            lambda: run.write_weights({}),
            lambda: run.save(1, files={}, facts={}),
            run.seal,
        ):
            with pytest.raises(Gone, match="the run folder is gone: it was removed, moved or unmounted"):
                write()
    assert not run.path.exists()
    run.path.mkdir()
    put(run.path, replace(Holder.here(), id="another"))
    with pytest.raises(Gone, match="the run folder is another's now"):
        Lock(run.path, Holder.here()).check()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(CheckpointError, match="is a file, a folder for a run was expected"), locked(tmp_path / "run"):
        pass
