"""What a server promises, measured: the same answers as alone, and looks that hold nobody up.

    python benchmarks/serving.py same [--requests 10000] [--translator RUN --gpt RUN] [--save]
    python benchmarks/serving.py look [RUN] [--rounds 3] [--seconds 20] [--save]

`same`   mixed requests (greedy, beam, seeded sampling; inputs and outputs of 1 to 500 tokens) from 32 users at a time
         to a translator and a GPT, in fp32, bf16 and int8: every answer has to be, byte for byte, that of the predictor
         alone
`look`   requests come by chance at half of what the server can do; how long 95 in 100 take at most, without looks and
         with one a second, in turn

Throughput is measured by serving_load.py, endurance by soak.py. Prints a table, and ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import regard
from record import row, save
from serving_users import GOLDEN, Exchange, User, exchanges, plain, served_process

USERS, LONGEST = 32, 500
PRECISIONS = ("fp32", "bf16", "int8")
BREATH = 0.2  # seconds after which somebody who was refused asks again


# ---- the same answers


def same(runs: Mapping[str, Path], precision: str, *, n: int, longest: int, seed: int = 1) -> list[str]:
    """Ask so many things of a server of these runs; what was answered otherwise than alone."""
    alone = {name: regard.load(place, "cpu", precision=precision) for name, place in runs.items()}
    asked = exchanges(alone, seed=seed, n=n, longest=longest)
    options = ["--precision", precision, "--queue", str(2 * USERS)]
    with served_process(runs, options) as server:
        return asked_once(server.url, asked)


def asked_once(url: str, asked: Sequence[Exchange], *, users: int = USERS) -> list[str]:
    """Let users ask each thing once, so many at a time; what was wrong."""
    crowd = [User(url, asked, seed) for seed in range(users)]
    with ThreadPoolExecutor(users) as pool:
        list(pool.map(lambda i: _share(crowd[i], asked[i::users]), range(users)))
    answered = sum(user.counts[200] for user in crowd)
    missing = [] if answered == len(asked) else [f"{len(asked) - answered} of {len(asked)} were not answered"]
    return [problem for user in crowd for problem in user.problems] + missing


def _share(user: User, own: Sequence[Exchange]) -> None:
    for exchange in own:
        for _ in range(50):
            before = user.counts[429]
            user.ask_for(exchange)
            if user.counts[429] == before:
                break
            time.sleep(BREATH)


def same_rows(given: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    runs = {"translator": given.translator, "gpt": given.gpt}
    rows, problems = [], []
    for i, precision in enumerate(PRECISIONS):
        n = given.requests // len(PRECISIONS) + (i < given.requests % len(PRECISIONS))
        begin = time.monotonic()
        found = same(runs, precision, n=n, longest=given.longest, seed=i + 1)
        print(f"{precision:5} {n:6,} requests  {len(found):4} other than alone  {time.monotonic() - begin:6.0f} s")
        name = f"mixed requests from {USERS} users, translator and GPT, {precision}"
        rows.append(row(name, "answers other than alone", float(len(found)), n=n, seeds=[i + 1]))
        problems += found
    return rows, problems


# ---- looks


class Arrivals:
    """Requests that come by chance at a rate, each from a thread of its own; `times` are from when each was due."""

    def __init__(self, url: str, asked: Sequence[Exchange]) -> None:
        self.url, self.asked = url, asked
        self.times: list[float] = []
        self.problems: list[str] = []

    def run(self, rate: float, seconds: float, *, seed: int) -> None:
        """Let them come for so long, and wait for the last."""
        chance, due, until = Random(seed), time.monotonic(), time.monotonic() + seconds
        with ThreadPoolExecutor(64) as pool:
            while (due := due + chance.expovariate(rate)) < until:
                time.sleep(max(0.0, due - time.monotonic()))
                pool.submit(self._one, chance.choice(self.asked), due)

    def _one(self, exchange: Exchange, due: float) -> None:
        user = User(self.url, [exchange], 0)
        user.act(user.ask)
        self.times.append(time.monotonic() - due)
        self.problems += user.problems


class Looking:
    """Somebody who asks for a page of attention once a second."""

    def __init__(self, url: str, texts: Sequence[str]) -> None:
        self.url, self.texts = url, texts
        self.n = 0
        self.problems: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Looking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(120.0)

    def once(self) -> None:
        """Ask for a page, and read it."""
        body = {"model": "translator", "input": self.texts[self.n % len(self.texts)], "format": "page"}
        self.n += 1
        told = Exchange("/v1/look", body, None).sent(self.url)
        if told[0] != 200 or not told[1].startswith(b"<!"):
            self.problems.append(f"a look was answered with {told[0]}: {told[1][:200]!r}")

    def _run(self) -> None:
        with ThreadPoolExecutor(16) as pool:
            due = time.monotonic()
            while not self._over.wait(max(0.0, (due := due + 1.0) - time.monotonic())):
                pool.submit(self.once)


def look_rows(given: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    alone = regard.load(given.run, "cpu", precision=given.precision)
    texts = sentences(given.run)
    asked = [
        Exchange("/v1/predict", {"model": "translator", "input": text}, plain(alone(text).record())) for text in texts
    ]
    problems: list[str] = []
    quiet: list[float] = []
    looked: list[float] = []
    with served_process({"translator": given.run}, ["--precision", given.precision]) as server:
        capacity = _capacity(server.url, asked, seconds=given.seconds / 2)
        Looking(server.url, texts).once()  # the process that draws is there
        for number in range(given.rounds):
            for times, with_looks in ((quiet, False), (looked, True)):
                arrivals = Arrivals(server.url, asked)
                looking = Looking(server.url, texts)
                if with_looks:
                    with looking:
                        arrivals.run(capacity / 2, given.seconds, seed=number)
                else:
                    arrivals.run(capacity / 2, given.seconds, seed=number)
                times.append(_p95(arrivals.times))
                problems += arrivals.problems + looking.problems
                print(f"{'a look a second' if with_looks else 'no looks':16} {len(arrivals.times):5} requests  "
                      f"p95 {1000 * times[-1]:6.1f} ms  {looking.n} looks")  # fmt: skip
    before, after = statistics.median(quiet), statistics.median(looked)
    print(f"p95 at half load ({capacity / 2:.1f} requests/s): {1000 * before:.1f} ms, with looks {1000 * after:.1f} ms")
    name = f"half load, one look a second, {given.precision}"
    facts = {"n": given.rounds, "recipe": given.run.name}
    rows = [
        row(name, "p95", round(1000 * after, 1), unit="ms", peer="no looks", peer_value=round(1000 * before, 1),
            spread=[round(1000 * value, 1) for value in looked] if given.rounds > 1 else None, **facts),
        row(name, "p95 growth", round(100 * (after / before - 1), 1), unit="%", **facts),
    ]  # fmt: skip
    return rows, problems


def sentences(run: Path) -> list[str]:
    """What is asked of a translator: English of Multi30k, else the words that the golden one knows."""
    if run == GOLDEN / "translation":
        chance = Random(1)
        return [" ".join(chance.choices(("one", "two", "three", "four"), k=chance.randint(5, 40))) for _ in range(100)]
    import gzip

    from record import DATA

    with gzip.open(DATA / "multi30k" / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as file:
        return [line.strip() for line in file][:100]


def _capacity(url: str, asked: Sequence[Exchange], *, seconds: float) -> float:
    """Answers a second to sixteen users without a pause."""
    crowd = [User(url, asked, seed) for seed in range(16)]
    until = time.monotonic() + seconds
    for user in crowd:
        user.shares = (1, 0, 0, 0)
    with ThreadPoolExecutor(len(crowd)) as pool:
        list(pool.map(lambda user: user.run(until), crowd))
    return sum(user.counts[200] for user in crowd) / seconds


def _p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = asked.add_subparsers(dest="verb", required=True)
    first = verbs.add_parser("same")
    first.add_argument("--requests", type=int, default=10_000)
    first.add_argument("--longest", type=int, default=LONGEST)
    first.add_argument("--translator", type=Path, default=GOLDEN / "translation")
    first.add_argument("--gpt", type=Path, default=GOLDEN / "language")
    second = verbs.add_parser("look")
    second.add_argument("run", type=Path, nargs="?", default=GOLDEN / "translation")
    second.add_argument("--rounds", type=int, default=3)
    second.add_argument("--seconds", type=float, default=20.0)
    second.add_argument("--precision", default="int8")
    for verb in (first, second):
        verb.add_argument("--save", action="store_true", help="write rows to results/serving.json")
    given = asked.parse_args()
    rows, problems = (same_rows if given.verb == "same" else look_rows)(given)
    for problem in problems[:20]:
        print(problem, file=sys.stderr)
    if given.save:
        save("serving", rows)
    print(json.dumps([{key: one[key] for key in ("name", "metric", "value", "n")} for one in rows]))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
