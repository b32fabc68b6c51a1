"""Prediction in parts under kills: what it leaves has to be what one undisturbed process writes, to the byte.

    python benchmarks/parts_storm.py RUN [--lines 200000] [--kills 10] [--engines local ray] [--save]

    one process     `regard predict RUN --input lines.gz --out one.txt`
    storm           the same with two workers, for each engine; by turns a worker and the driver are killed (-9), each
                    after as many parts as make the kills even; a driver that was killed is started again
    memory          the largest peak (VmHWM) of any worker, undisturbed, over a tenth of the lines and over all
    speed           lines a second by two workers, one thread each, against one, once every worker has written a part

RUN is a translator, best a tiny one; lines are the first words of Multi30k's English captions, again and again, and
outputs are short. Prints a table, and ends with one line of JSON; exit code 1 if a byte differs.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from record import DATA, row, save

SHORT = ["decode.beam=1", "decode.max_length=6"]
WORDS = 3
WORKERS = 2
LOOK = 0.5  # seconds between two looks at processes
MARKS = {"local": b"spawn_main", "ray": b"ray::_Actor"}  # how the command lines of workers are told


@dataclass
class Watched:
    """A prediction in parts: seconds, the peak of its workers in bytes, and how often it was killed."""

    seconds: float = 0.0
    peak: int = 0
    workers_killed: int = 0
    drivers_killed: int = 0
    rate: float = 0.0


def write_lines(path: Path, n: int, texts: Path) -> None:
    """The first words of texts, again and again."""
    with gzip.open(texts, "rt", encoding="utf-8") as file:
        lines = [" ".join(line.split()[:WORDS]) for line in file]
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        file.writelines(f"{line}\n" for line in itertools.islice(itertools.cycle(lines), n))


def command(run: Path, lines: Path, out: Path, *options: str) -> list[str]:
    given = ["--input", str(lines), "--out", str(out), *SHORT, *options]
    return [sys.executable, "-m", "regard", "predict", str(run), *given]


def watch(arguments: list[str], out: Path, *, engine: str, n_parts: int, kills: int = 0) -> Watched:
    """Run a prediction to its end, with kills by turns: a worker, a worker, the driver."""
    seen, began = Watched(), time.monotonic()
    driver = start(arguments)
    while (code := driver.poll()) is None:
        time.sleep(LOOK)
        workers = list(workers_of(driver.pid, MARKS[engine]))
        seen.peak = max([seen.peak, *map(peak_of, workers)])
        killed = seen.workers_killed + seen.drivers_killed
        if killed == kills or len(list(out.glob("part-*"))) < (killed + 1) * n_parts // (kills + 1):
            continue
        if killed % 3 == 2:
            driver.kill()
            driver.wait()
            seen.drivers_killed += 1
            driver = start(arguments)
        elif workers:
            kill(workers[killed % len(workers)])
            seen.workers_killed += 1
    if code != 0:
        raise SystemExit(f"{' '.join(arguments)} ended with {code}")
    seen.seconds = time.monotonic() - began
    return seen


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}  # Ray tells of killed workers
    return subprocess.Popen(arguments, **silent, env=os.environ | {"OMP_NUM_THREADS": "1"})


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has just ended
        return


def workers_of(pid: int, mark: bytes) -> Iterator[int]:
    """The processes below one whose command line has the mark."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = [int(child) for child in (task / "children").read_text().split()]
        except OSError:  # it has just ended
            continue
        for child in children:
            try:
                if mark in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield child
            except OSError:
                continue
            yield from workers_of(child, mark)


def peak_of(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def rate_of(out: Path, workers: int) -> float:
    """Lines a second once every worker has written a part."""
    listed = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    sizes = {record["part"]["number"]: record["part"]["n"] for record in listed if "part" in record}
    times = sorted((os.stat(out / f"part-{number:06d}").st_mtime, n) for number, n in sizes.items())
    rest = times[workers:]
    return sum(n for _, n in rest) / (rest[-1][0] - times[workers - 1][0]) if rest else 0.0


def same(out: Path, whole: Path) -> bool:
    joined = b"".join(path.read_bytes() for path in sorted(out.glob("part-*")))
    return joined == whole.read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--engines", nargs="+", choices=list(MARKS), default=list(MARKS))
    parser.add_argument("--texts", type=Path, default=DATA / "multi30k" / "train.en.gz")
    parser.add_argument("--part-size", default="2048")
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    few = given.lines // 10
    rows, differ, said = [], 0, {}

    def note(name: str, metric: str, value: float, **more: object) -> None:
        rows.append(row(name, metric, value, recipe=given.run.name, n=given.lines, **more))
        said[f"{name}: {metric}"] = value
        print(f"{name:<52}{metric:<44}{value:>12,.4g} {more.get('unit') or ''}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        many, some, whole = folder / "many.gz", folder / "some.gz", folder / "one.txt"
        write_lines(many, given.lines, given.texts)
        write_lines(some, few, given.texts)
        began = time.monotonic()
        subprocess.run(command(given.run, many, whole), check=True, stderr=subprocess.DEVNULL)
        seconds = time.monotonic() - began
        note(f"Predict {given.lines:,} lines, one process", "time", seconds, unit="s")

        def parts(lines: Path, n: int, engine: str, workers: int, kills: int = 0) -> tuple[Watched, Path]:
            out = folder / f"{engine}-{workers}-{n}-{kills}"
            options = ["--workers", str(workers), "--engine", engine, "--part-size", given.part_size]
            n_parts = n // int(given.part_size)
            seen = watch(command(given.run, lines, out, *options), out, engine=engine, n_parts=n_parts, kills=kills)
            seen.rate = rate_of(out, workers)
            return seen, out

        alone, _ = parts(some, few, "local", 1)
        for engine in given.engines:
            title = f"Predict {given.lines:,} lines in parts, {engine}"
            stormy, out = parts(many, given.lines, engine, WORKERS, given.kills)
            differs = not same(out, whole)
            differ += differs
            note(title, "outputs that differ from one process", float(differs), unit="files")
            note(title, "workers killed", stormy.workers_killed)
            note(title, "drivers killed", stormy.drivers_killed)
            note(title, "time with all kills", stormy.seconds, unit="s")
            small, _ = parts(some, few, engine, WORKERS)
            quiet, out = parts(many, given.lines, engine, WORKERS) if engine == "local" else (stormy, out)
            differ += not same(out, whole)
            facts = {"peer": f"{few:,} lines", "peer_value": small.peak / 2**30}
            note(title, "peak memory a worker", quiet.peak / 2**30, unit="GiB", **facts)
            print(f"{'':<52}{f'over {few:,} lines':<44}{small.peak / 2**30:>12,.4g} GiB")
            if engine == "local":
                facts = {"peer": "one worker, one thread", "peer_value": alone.rate}
                note(title, "lines a second, two workers of one thread", quiet.rate, unit="lines/s", **facts)
                if alone.rate:
                    note(title, "two workers against one", quiet.rate / alone.rate, unit="×")
    if given.save:
        print(f"saved: {save('scale', rows)}")
    print(json.dumps(said))
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
