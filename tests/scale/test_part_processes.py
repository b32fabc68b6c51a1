"""Workers that are processes: killed, replaced, and ended with whoever started them; and the same on Ray."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from golden_inputs import GOLDEN, GOOD
from regard.cli.progress import Progress
from regard.scale.local import LocalEngine

TRANSLATION = GOLDEN / "finished" / "translation"
SMALL = ["--part-size", "1", "decode.max_length=8"]
pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def lines(here):
    path = here / "in.txt"
    path.write_text("".join(f"{line}\n" for line in GOOD["translation"]) * 250)
    return path


@pytest.fixture
def whole(command, here, lines):
    """What one process writes."""
    command("predict", TRANSLATION, "--input", lines, "--out", "one.txt", "decode.max_length=8")
    return (here / "one.txt").read_bytes()


def test_killed_workers_are_replaced(command, here, lines, whole, monkeypatch):
    submit, add, killed = LocalEngine.submit, Progress.add, []

    def kill(engine, worker, part):
        submit(engine, worker, part)
        if not killed:  # while it is busy
            killed.append(engine._taken[worker][1])
            killed[0].kill()

    def kill_idle(progress, n):
        add(progress, n)
        if len(killed) == 1:
            killed.extend(multiprocessing.active_children())
            killed[1].kill()
            killed[1].join()

    monkeypatch.setattr(LocalEngine, "submit", kill)
    monkeypatch.setattr(Progress, "add", kill_idle)
    answer = command("predict", TRANSLATION, lines, "--out", "parts", "--workers", 1, "--join", "out.txt", *SMALL)
    assert answer.code == 0
    assert (here / "out.txt").read_bytes() == whole
    assert [process.exitcode for process in killed] == [-signal.SIGKILL, -signal.SIGKILL]
    assert multiprocessing.active_children() == []


DIES = """
import multiprocessing, os, pathlib, signal, sys
from regard.cli import main
from regard.cli.progress import Progress

def die(self, n):
    pids = [str(process.pid) for process in multiprocessing.active_children()]
    pathlib.Path("pids").write_text(" ".join(pids))
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    Progress.add = die
    main.run()
"""


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_killed_driver_takes_its_workers_along_and_the_next_goes_on(command, here, lines, whole, inline):
    (here / "dies.py").write_text(DIES)
    arguments = ["predict", TRANSLATION, lines, "--out", "parts", "--workers", "1", *SMALL]
    died = subprocess.run([sys.executable, "dies.py", *map(str, arguments)], capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    stood = {path.name: path.stat().st_mtime_ns for path in (here / "parts").glob("part-*")}
    assert len(stood) == 1
    pids = (here / "pids").read_text().split()
    assert len(pids) == 1
    until = time.monotonic() + 60
    while not all(map(gone, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert all(map(gone, pids))
    answer = command(*arguments, "--join", "out.txt")
    assert answer.code == 0
    assert (here / "out.txt").read_bytes() == whole
    assert "64 inputs of 500 had been predicted for before" in answer.err
    assert stood.items() <= {path.name: path.stat().st_mtime_ns for path in (here / "parts").glob("part-*")}.items()


@pytest.mark.slow
def test_ray_runs_the_same_and_replaces_actors(command, here, lines, whole, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    from regard.scale.ray_actors import RayEngine, _Actor

    submit, killed = RayEngine.submit, []
    monkeypatch.setattr(_Actor, "pid", lambda self: os.getpid(), raising=False)

    def kill(engine, worker, part):
        if not killed:
            killed.append(engine._ray.get(engine._taken[worker][1].pid.remote()))
            os.kill(killed[0], signal.SIGKILL)
        submit(engine, worker, part)

    monkeypatch.setattr(RayEngine, "submit", kill)
    given = ["--out", "parts", "--engine", "ray", "--workers", 1, "--join", "out.txt"]
    answer = command("predict", TRANSLATION, lines, *given, *SMALL)
    assert answer.code == 0, answer.err
    assert (here / "out.txt").read_bytes() == whole
    assert len(killed) == 1
    bad = command("predict", TRANSLATION, lines, "--out", "bad", "--engine", "ray", "--workers", 1, "--embed")
    assert (bad.code, "--embed means nothing to a model for translation" in bad.err) == (2, True)
