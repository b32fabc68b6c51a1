"""A training that is killed again and again, and started again, until it is done; a program of its own.

    python killing.py RECIPE FOLDER KILLS

Everything is imported once; each attempt is a fork. FOLDER/whole is trained without a break, FOLDER/killed with kills:
by turns after a random time, and right before a random operation on the run's files. Prints one JSON object.
"""

import gc
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

import sacrebleu  # noqa: F401 - imported before the forks, like all that a training imports on its way
import torch
import torch.utils.tensorboard

from regard.config.recipe import read_recipe
from regard.tasks.recipes import make_recipe
from regard.tasks.training import train

DISK = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")


def start(recipe: Path, out: Path, *, die_at: int = 0, count: Path | None = None) -> int:
    """Fork a training; it kills itself before operation number `die_at` on its files, or counts them."""
    pid = os.fork()
    if pid:
        return pid
    seen = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in DISK and str(out) in str(args[0]):
            seen += 1
            if seen == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    os.dup2(os.open(out.parent / f"{out.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    try:
        train(make_recipe(read_recipe(recipe)), out, data_root=None, resume=True, say=lambda _: None)
        if count is not None:
            count.write_text(str(seen))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait(pid: int, seconds: float) -> int | None:
    """The exit code of a child (−9: killed); None when it still runs after so many seconds."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.001)


def newest(out: Path) -> int:
    """The step that a resumed training would go on from."""
    return max((int(path.name[5:]) for path in out.glob("checkpoints/step-*")), default=0)


def main(recipe: Path, folder: Path, kills: int) -> dict[str, Any]:
    """Train both ways."""
    random, began = Random(1), time.monotonic()
    assert wait(start(recipe, folder / "whole", count=folder / "count"), 300) == 0, "the whole run failed"
    seconds, operations = time.monotonic() - began, int((folder / "count").read_text())
    out, steps, died_at = folder / "killed", newest(folder / "whole"), []
    while len(died_at) < kills:
        # First while the data is prepared; then whoever is ahead of the plan dies early, whoever lags gets further.
        early = len(died_at) < kills / 4
        share = 0.04 if early else 0.1 if newest(out) > steps * len(died_at) / kills else 0.3
        if len(died_at) % 2:
            code = wait(start(recipe, out, die_at=random.randint(1, int(share * operations))), 300)
        else:
            pid = start(recipe, out)
            code = wait(pid, random.uniform(0, share * seconds))
            if code is None:
                os.kill(pid, signal.SIGKILL)
                code = wait(pid, 300)
        if code != -signal.SIGKILL:
            break
        died_at.append(newest(out))
    assert wait(start(recipe, out), 300) == 0, "the killed run could not be finished"
    return {"died_at": died_at, "seconds": seconds, "operations": operations, "all": time.monotonic() - began}


if __name__ == "__main__":
    torch.set_num_threads(1)
    gc.freeze()
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201
