"""A storm over tiny runs of all ten tasks: what it leaves has to be what a quiet day leaves, to the bit.

    python benchmarks/storm.py [--kills 30] [--tasks translation words …] [--no-flips] [--save]

    kills       a training is killed (-9) again and again and resumed: by turns after a random time, and right before a
                random operation on its files, so that saves are hit too
    disk full   it trains on a disk that is full on the way; then there is room, and it goes on (a file system of its
                own where `unshare` may mount one, else a limit on the size of a file)
    removed     its folder is moved away while it trains; then it is put back, and it goes on
    flips       in every file of a stopped run a bit is flipped, and it is resumed; in every file of a finished one, and
                it is opened: the file has to be named, or never be read

Recipes and data are those of tests/golden. Everything is imported once, each attempt is a fork. Prints a table, and
ends with one line of JSON; exit code 1 if anything was lost or silent.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import sacrebleu  # noqa: F401 - imported before the forks, like all that a training imports on its way
import torch
import torch.utils.tensorboard
from safetensors.torch import load_file

from record import row, save
from regard.config.recipe import read_recipe
from regard.errors import RegardError
from regard.tasks.opening import load
from regard.tasks.recipes import make_recipe
from regard.tasks.registry import OURS
from regard.tasks.training import train

GOLDEN = Path(__file__).parent.parent / "tests" / "golden"
SETTINGS = ["train.plan=off", "train.device=cpu"]
SHORT = [f"train.{each}" for each in ("epochs=0", "steps=20", "eval_every=10", "save_every=4", "log_every=2")]
DISK = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")
UNREAD = ("README.md", "samples/", "events/")  # for people, and nothing reads them
TIMES = {"tokens_per_second", "seconds", "unreported", "date"}
LIMIT = 120.0  # seconds that nothing here takes
FINE, REFUSED, CRASHED = 0, 1, 3


@dataclass
class Outcome:
    """What came of a task: how often each thing was tried, and what was lost or silent."""

    task: str
    kills: int = 0
    in_saves: int = 0
    full: int = 0
    removed: int = 0
    flips: int = 0
    named: int = 0
    unread: int = 0
    problems: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """All of it in numbers, as people name them."""
        tried = {"kills": self.kills, "in saves": self.in_saves, "disks full": self.full, "removed": self.removed}
        flipped = {"bits flipped": self.flips, "named": self.named, "never read": self.unread}
        return tried | flipped | {"lost or silent": len(self.problems)}


def fork(work: Callable[[], None], log: Path, *, hook: Callable[[str, tuple[Any, ...]], None] | None = None) -> int:
    """Do work in a process of its own, which talks to a log: FINE, REFUSED with an error, or CRASHED."""
    pid = os.fork()
    if pid:
        return pid
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    if hook is not None:
        sys.addaudithook(hook)
    code = FINE
    try:
        work()
    except (RegardError, OSError) as problem:
        sys.stderr.write(f"error: {problem}\nhint: {getattr(problem, 'hint', None)}\n")
        code = REFUSED
    except BaseException:
        traceback.print_exc()
        code = CRASHED
    sys.stderr.flush()
    os._exit(code)


def wait(pid: int, seconds: float = LIMIT) -> int | None:
    """The exit code of a child (-9: killed); None when it still runs after so many seconds."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.002)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def newest(run: Path) -> int:
    """The step that a resumed training would go on from."""
    return max((int(path.name[5:]) for path in run.glob("checkpoints/step-*")), default=0)


class Storm:
    """One task, in the folder that we are in."""

    def __init__(self, task: str, seed: int) -> None:
        self.task, self.chance, self.found = task, Random(seed), Outcome(task)
        self.log = Path(f"{task}.log").absolute()
        self.whole = Path(f"runs/{task}-whole")
        table = read_recipe(GOLDEN / "finished" / task / "config.toml")
        self.recipe = make_recipe(table, SETTINGS + ([] if task == "words" else SHORT))

    def start(self, out: Path, hook: Callable[[str, tuple[Any, ...]], None] | None = None) -> int:
        """Train in a fork: begin, or go on."""

        def work() -> None:
            train(self.recipe, out, data_root=None, resume=True, say=lambda line: print(line, file=sys.stderr))

        return fork(work, self.log, hook=hook)

    def finish(self, out: Path, what: str) -> None:
        """Let a run end, and compare it with the undisturbed one."""
        code = wait(self.start(out))
        if code != FINE:
            self.problem(f"{what}: could not be finished ({code}): {self.said()[-300:]}")
            return
        for difference in differences(self.whole, out):
            self.problem(f"{what}: {difference}")

    def problem(self, text: str) -> None:
        self.found.problems.append(f"{self.task}: {text}")

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def quiet(self) -> tuple[float, int]:
        """Train without a break: how many seconds it takes, and operations on files."""
        count, counted = Path(f"{self.task}.count").absolute(), 0

        def hook(event: str, args: tuple[Any, ...]) -> None:
            nonlocal counted
            if event in DISK and str(self.whole) in str(args[0]):
                counted += 1
                if str(args[0]).endswith("run.json"):
                    os.write(handle, f"{counted}\n".encode())

        handle = os.open(count, os.O_WRONLY | os.O_CREAT)
        began = time.monotonic()
        code = wait(self.start(self.whole, hook))
        os.close(handle)
        if code != FINE:
            raise SystemExit(f"{self.task}: the undisturbed run failed: {self.said()}")
        return time.monotonic() - began, int(count.read_text().split()[-1])

    def kills(self, n: int, seconds: float, operations: int) -> None:
        out = Path(f"runs/{self.task}-killed")
        last_step = newest(self.whole)
        for number in range(3 * n):
            if self.found.kills == n:
                break
            early = self.found.kills < n / 4  # first while data is prepared; then who is ahead of the plan dies early
            share = 0.1 if early else 0.2 if newest(out) * n > last_step * self.found.kills else 0.7
            if number % 2:
                last, seen = self.chance.randint(1, max(2, int(share * operations))), 0

                def hook(event: str, args: tuple[Any, ...], last: int = last) -> None:
                    nonlocal seen
                    if event in DISK and str(out) in str(args[0]):
                        seen += 1
                        if seen == last:
                            if "checkpoints" in str(args[0]):
                                sys.stderr.write("in a save\n")
                                sys.stderr.flush()
                            os.kill(os.getpid(), signal.SIGKILL)

                code = wait(self.start(out, hook))
                self.found.in_saves += "in a save" in self.said()
            else:
                pid = self.start(out)
                code = wait(pid, self.chance.uniform(0, share * seconds))
                if code is None:
                    kill(pid)
                    code = -signal.SIGKILL
            if code == -signal.SIGKILL:
                self.found.kills += 1
            elif code == FINE:
                shutil.rmtree(out)  # it got through before its kill: once more from the beginning
            else:
                self.problem(f"kill {number}: ended with {code}: {self.said()[-300:]}")
                return
        self.finish(out, "killed")

    def removed(self) -> None:
        out, aside = Path(f"runs/{self.task}-removed"), Path(f"runs/{self.task}-aside")
        pid = self.start(out)
        until = time.monotonic() + LIMIT
        while not list(out.glob("checkpoints/step-*")) and time.monotonic() < until:
            if (code := wait(pid, 0.0)) is not None:
                break  # it has saved at its end only
        else:
            out.rename(aside)
            code = wait(pid)
        if code == FINE:
            return
        self.found.removed += 1
        if code != REFUSED or "the run folder is gone" not in self.said():
            self.problem(f"removed: ended with {code}: {self.said()[-300:]}")
        if out.exists():
            self.problem(f"removed: something was made in its place: {sorted(out.rglob('*'))[:5]}")
            shutil.rmtree(out)
        aside.rename(out)
        self.finish(out, "removed")

    def full(self) -> None:
        """Run out of disk at a third and at two thirds of what a run needs."""
        need = sum(path.stat().st_size for path in self.whole.rglob("*") if path.is_file())
        for part in (1, 2):
            out = Path(f"runs/{self.task}-full-{part}")
            with small_disk(out.with_name(f"{out.name}-disk"), need * part // 3) as (disk, grow):
                place = disk / "run"
                code = wait(self.start(place, None if disk.is_mount() else limit_files(need * part // 12)))
                if code == FINE:
                    continue
                self.found.full += 1
                if code != REFUSED:
                    self.problem(f"disk full: ended with {code}: {self.said()[-300:]}")
                grow()
                self.finish(place, "disk full")

    def flips(self) -> None:
        """Flip a bit in every file of a stopped run, and of a finished one."""
        stopped = Path(f"runs/{self.task}-stopped")
        pid = self.start(stopped)
        while wait(pid, 0.0) is None:
            if len(list(stopped.glob("checkpoints/step-*"))) > 1:
                kill(pid)
                break
        for base, use in ((stopped, self._resumes), (self.whole, self._opens)):
            for path in sorted(one for one in base.rglob("*") if one.is_file() and one.name != ".lock"):
                name = str(path.relative_to(base))
                if path.stat().st_size == 0 or (use == self._opens and name.startswith(("checkpoints/", "data/"))):
                    continue  # opening does not need them
                copy = Path(f"runs/{self.task}-flipped")
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(base, copy)
                self._flip(copy / name)
                self.found.flips += 1
                use(copy, name)

    def _flip(self, path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[self.chance.randrange(len(content))] ^= 1 << self.chance.randrange(7)
        path.write_bytes(content)

    def _resumes(self, copy: Path, name: str) -> None:
        code = wait(self.start(copy))
        self._judge(code, name, "resumed")
        if code == FINE:
            for difference in differences(self.whole, copy):
                self.problem(f"a bit of {name} flipped, resumed: {difference}")

    def _opens(self, copy: Path, name: str) -> None:
        from regard.checkpoints.history import read_history

        def work() -> None:
            load(copy, "cpu")
            read_history(copy / "metrics.jsonl")

        self._judge(wait(fork(work, self.log)), name, "opened")

    def _judge(self, code: int | None, name: str, what: str) -> None:
        said = self.said()
        if Path(name).name in said and ("damaged" in said or code == REFUSED):
            self.found.named += 1
        elif code == FINE and (name.startswith(UNREAD) or self._is_idle(name, what)):
            self.found.unread += 1
        else:
            self.problem(f"a bit of {name} flipped, {what}: ended with {code}: {said[-300:]}")

    def _is_idle(self, name: str, what: str) -> bool:
        """Whether nothing needs a file to go on: of a checkpoint before the newest, and weights not yet the best."""
        if what != "resumed":
            return False
        steps = sorted(Path(f"runs/{self.task}-stopped/checkpoints").glob("step-*"))
        older = name.startswith("checkpoints/") and not (steps and name.startswith(f"checkpoints/{steps[-1].name}/"))
        return older or name == "model.safetensors"


def limit_files(size: int) -> Callable[[str, tuple[Any, ...]], None]:
    """A hook that lets no file grow beyond a size, from the first file on."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in DISK:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return hook


class small_disk:  # noqa: N801 - used as a function
    """A file system of a size, or a mere folder where none may be mounted; and what gives it more room."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size

    def __enter__(self) -> tuple[Path, Callable[[], None]]:
        self.folder.mkdir(parents=True)
        self.mounted = not self._mount(f"size={self.size}")
        return self.folder.absolute(), lambda: self._mount("remount,size=1g") and None

    def __exit__(self, *_: object) -> None:
        if self.mounted:
            subprocess.run(["umount", str(self.folder)], check=False, capture_output=True)

    def _mount(self, how: str) -> int:
        command = ["mount", "-t", "tmpfs", "-o", how, "none", str(self.folder)]
        return subprocess.run(command, check=False, capture_output=True).returncode


def differences(one: Path, other: Path) -> Iterator[str]:
    """What is not the same in two runs: any bit of the last weights and states, any report but its times."""
    last = one / "checkpoints" / f"step-{newest(one):08d}"
    names = ["model.safetensors", *(str(path.relative_to(one)) for path in last.glob("*.safetensors"))]
    for name in names:
        if not (other / name).exists():
            yield f"{name} is lost"
            continue
        mine, theirs = load_file(one / name), load_file(other / name)
        if mine.keys() != theirs.keys() or any(not torch.equal(mine[key], theirs[key]) for key in mine):
            yield f"{name} differs"
    if one.name.startswith("words"):
        return  # its reports come by the clock
    reports = [
        [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in (run / "metrics.jsonl").open()]
        for run in (one, other)
    ]
    if reports[0] != reports[1]:
        yield "metrics.jsonl differs"


def weather(task: str, seed: int, kills: int, *, flips: bool) -> Outcome:
    """All that happens to one task."""
    storm = Storm(task, seed)
    seconds, operations = storm.quiet()
    storm.kills(kills, seconds, operations)
    storm.full()
    storm.removed()
    if flips:
        storm.flips()
    return storm.found


def table(found: list[Outcome]) -> str:
    """As docs/reliability.md shows it."""
    heads = ["task", *found[0].counts()]
    rows = [[one.task, *map(str, one.counts().values())] for one in found]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=30, help="how often each task is killed")
    parser.add_argument("--tasks", nargs="+", default=list(OURS), choices=OURS)
    parser.add_argument("--no-flips", action="store_true", help="leave the bits alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="keep the figures in results/reliability.json")
    given = parser.parse_args()
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    if (
        "REGARD_STORM" not in os.environ
        and subprocess.run([*own, "true"], check=False, capture_output=True).returncode == 0
    ):
        os.environ["REGARD_STORM"] = "mounts"  # where a disk of a size can be made
        os.execvp(own[0], [*own, sys.executable, *sys.argv])
    torch.set_num_threads(1)
    gc.freeze()
    found = []
    place = os.getcwd()
    memory = Path("/dev/shm")  # where waiting for a disk takes no time
    with tempfile.TemporaryDirectory(prefix="storm-", dir=memory if memory.is_dir() else None) as folder:
        os.chdir(folder)
        for name in ("data", "finished"):
            shutil.copytree(GOLDEN / name, name)
        for task in given.tasks:
            began = time.monotonic()
            found.append(weather(task, given.seed, given.kills, flips=not given.no_flips))
            print(f"{task}: {time.monotonic() - began:.0f} s, {len(found[-1].problems)} problems", file=sys.stderr)
            shutil.rmtree("runs")
        os.chdir(place)
    print(table(found))
    problems = [problem for one in found for problem in one.problems]
    for problem in problems:
        print(problem)
    if given.save:
        save("reliability", [row(one.task, what, value) for one in found for what, value in one.counts().items()])
    print(json.dumps({"tasks": len(found), "kills": sum(o.kills for o in found), "problems": len(problems)}))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
