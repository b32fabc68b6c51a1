"""A storm over several processes: 1 → 2 → 4 → 3 → 1 of them, killed again and again, learn what one undisturbed does.

    python benchmarks/process_storm.py [--kills 20] [--shard off full] [--save]

A tiny translator of dates is trained by `torchrun`, in double precision, with dropout and with draws that do not depend
on the number of processes. By turns a process and the launcher are killed (-9): mostly once training is so far that the
kills are even over the run, every third time at a random instant while everything starts. After each kill the same
command goes on with the next number of processes. In the end the digest of the examples has to be that of a single
process that nothing happened to, and the loss of the last step within 1e-6 of its.

    --shard off     every process has a copy of the model
    --shard full    every process has a part of it

Prints a table, and ends with one line of JSON; exit code 1 if anything is lost or differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from parts_storm import kill, workers_of
from record import row, save
from storm import newest

NUMBERS = (1, 2, 4, 3)
STEPS_A_KILL = 30
REPORTED = 30  # a run ends one step after a report: what its last state has not reported is the loss of that step
STARTING = 6.0  # seconds that a start takes at least
LIMIT = 240.0  # seconds that nothing here takes
BOUND = 1e-6
MARK = b"regard\0train"  # in the command lines of trainings
RECIPE = """translation data.synthetic=dates data.n_train=200 data.n_valid=4 data.n_test=4 tokenizer.size=300
tokenizer.dropout=0.1 model.name=transformer model.d_model=16 model.n_heads=2 model.d_feedforward=32
model.n_encoder_layers=1 model.n_decoder_layers=1 model.dropout=0.1 model.attention_dropout=0.1
train.batch_tokens=120 train.clip=1.0 train.warmup=5 train.epsilon=1e-6 train.ema=0.9 train.same_draws=true
train.precision=fp64 train.plan=off train.device=cpu train.n_samples=1 train.save_every=5 train.eval_every=300
decode.max_length=8"""


@dataclass
class Outcome:
    """What came of a storm: what was killed, how far the last losses are apart, and what was lost."""

    ranks: int = 0
    launchers: int = 0
    starting: int = 0
    apart: float = float("inf")
    differs: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return self.ranks + self.launchers

    def counts(self) -> dict[str, float]:
        """All of it in numbers, as people name them."""
        killed = {"processes killed": self.ranks, "launchers killed": self.launchers, "while starting": self.starting}
        return killed | {"digests that differ": self.differs, "last losses apart": self.apart}


class Storm:
    """Trainings of one recipe into one folder, by ever other numbers of processes."""

    def __init__(self, out: Path, *, steps: int, shard: str, seed: int) -> None:
        self.out, self.steps, self.shard = out, steps, shard
        self.chance, self.found = Random(seed), Outcome()
        self.log = out.with_suffix(".log")

    def start(self, processes: int) -> subprocess.Popen[bytes]:
        """Begin, or go on, by so many processes; without torchrun where they are none."""
        how = ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"] if processes else []
        length = [f"train.steps={self.steps}", f"train.log_every={REPORTED}", f"train.shard={self.shard}"]
        command = [
            sys.executable,
            "-m",
            *how,
            "regard",
            "train",
            *RECIPE.split(),
            *length,
            "--out",
            str(self.out),
            "--resume",
        ]
        few = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        with self.log.open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | few)

    def rage(self, kills: int) -> None:
        """So many kills, each of another number of processes than the one before; then what is left, to its end."""
        numbers = cycle(NUMBERS)
        while self.found.kills < kills:
            processes = next(numbers)
            launcher = self.start(processes)
            if not self._await(launcher, kills):
                self.found.problems.append(f"{processes} processes ended with {launcher.returncode}: {self._said()}")
                return
            self._kill(launcher)
            print(f"{self.shard}: {processes} killed at step {newest(self.out)}", file=sys.stderr)
        code = self.start(next(numbers)).wait(LIMIT)
        if code:
            self.found.problems.append(f"could not be finished ({code}): {self._said()}")

    def _await(self, launcher: subprocess.Popen[bytes], kills: int) -> bool:
        """Wait for the instant of a kill: whether there is anything left to be killed then."""
        began = time.monotonic()
        if self.found.kills % 3 == 2:
            self.found.starting += 1
            time.sleep(self.chance.uniform(0, STARTING))
            return launcher.poll() is None
        goal = (self.found.kills + self.chance.random()) * self.steps / (kills + 1)
        while newest(self.out) <= goal and launcher.poll() is None and time.monotonic() < began + LIMIT:
            time.sleep(0.01)
        time.sleep(self.chance.uniform(0, 0.1))
        return launcher.poll() is None and time.monotonic() < began + LIMIT

    def _kill(self, launcher: subprocess.Popen[bytes]) -> None:
        """A process, or the launcher; then wait until all others have noticed."""
        workers, number = list(workers_of(launcher.pid, MARK)), self.found.kills
        if workers and (number + number // len(NUMBERS)) % 2 == 0:  # so that both happen to every number of processes
            self.found.ranks += 1
            kill(self.chance.choice(workers))
        else:
            self.found.launchers += 1
            launcher.kill()
        launcher.wait(LIMIT)
        until = time.monotonic() + LIMIT
        while left := [worker for worker in workers if is_running(worker)]:
            if time.monotonic() > until:
                self.found.problems.append(f"still running after a kill: {left}: {self._said()}")
                for worker in left:
                    kill(worker)
            time.sleep(0.01)

    def compare(self, whole: Path) -> None:
        """The last state with that of an undisturbed run."""
        if self.found.problems:
            return
        one, other = (last_state(run, self.steps) for run in (whole, self.out))
        self.found.differs = sum(one[name] != other[name] for name in ("examples", "position", "tokens"))
        self.found.apart = abs(last_loss(one) - last_loss(other))
        if self.found.differs or not self.found.apart <= BOUND:
            self.found.problems.append(f"{self.shard}: {other} is not {one}")

    def _said(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


def is_running(pid: int) -> bool:
    """Whether a process is there, and not merely waits to be forgotten."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def last_state(run: Path, steps: int) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((run / f"checkpoints/step-{steps:08d}/state.json").read_text())
    return state


def last_loss(state: dict[str, Any]) -> float:
    """The loss a token of the last step, unrounded."""
    total, _, tokens, _ = state["unreported"]
    return float(total / tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="how often each way of training is killed")
    parser.add_argument("--shard", nargs="+", default=["off", "full"], choices=["off", "full"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="keep the figures in results/reliability.json")
    given = parser.parse_args()
    steps = -(-(given.kills + 1) * STEPS_A_KILL // REPORTED) * REPORTED + 1
    memory, problems, said = Path("/dev/shm"), list[str](), {}
    with tempfile.TemporaryDirectory(prefix="storm-", dir=memory if memory.is_dir() else None) as folder:
        whole = Storm(Path(folder) / "whole", steps=steps, shard="off", seed=given.seed)
        if whole.start(0).wait(LIMIT):
            raise SystemExit(f"the undisturbed run failed: {whole._said()}")
        for shard in given.shard:
            began = time.monotonic()
            storm = Storm(Path(folder) / shard, steps=steps, shard=shard, seed=given.seed)
            storm.rage(given.kills)
            storm.compare(whole.out)
            problems += storm.found.problems
            name = f"several processes, {'parts' if shard == 'full' else 'copies'} of the model"
            said[name] = storm.found.counts()
            print(f"{name}: {time.monotonic() - began:.0f} s, {said[name]}", flush=True)
            if given.save and not storm.found.problems:
                save("reliability", [row(name, what, value, n=steps) for what, value in said[name].items()])
    for problem in problems:
        print(problem)
    print(json.dumps(said))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
