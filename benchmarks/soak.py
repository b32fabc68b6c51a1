"""A server of three tasks at three times what it can do, for minutes, and then told to end in the middle of it.

    python benchmarks/soak.py [--minutes 10] [--save]

Six users in ten ask and compare what they are told with what the predictor says alone, two leave before the answer
comes, one reads slowly, one sends garbage. What has to hold: no wrong answer, no accepted request lost, every refusal
429 or 503 with `Retry-After`, less than 2 % more memory at the end than after the warm-up, and an end within the grace.
Models are those of tests/golden. Prints a table, and ends with one line of JSON; exit code 1 if anything did not hold.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import regard
from record import row, save
from serving_users import GOLDEN, Exchange, ServerProcess, User, exchanges, served_process

TASKS = ("translation", "language", "labels")
USERS, OVERLOAD = 128, 3.0
ROWS, QUEUE, GRACE = 8, 8, 5.0
WARM = 0.3  # the share of the time in which memory may still grow
MOST_GROWTH = 2.0  # percent
END = 2.0  # seconds beyond the grace for the last answers and the process itself


@dataclass(frozen=True)
class Outcome:
    """What came of a soak."""

    seconds: float
    capacity: float
    offered: float
    counts: Counter[Any]
    problems: list[str]
    growth: float
    resident: int
    exit_seconds: float
    exit_code: int | None

    def failures(self) -> list[str]:
        """What did not hold."""
        found = list(self.problems)
        if self.growth > MOST_GROWTH:
            found.append(f"memory grew by {self.growth:.2f} %")
        if self.exit_seconds > GRACE + END or self.exit_code != 0:
            found.append(f"it took {self.exit_seconds:.1f} s to end, with exit code {self.exit_code}")
        if not self.counts[200] or not self.counts[429]:
            found.append(f"it was no soak: {dict(self.counts)}")
        return found

    def facts(self) -> dict[str, Any]:
        """All of it in numbers."""
        return {
            "seconds": round(self.seconds, 1),
            "answers a second it can give": round(self.capacity, 1),
            "requests a second it was given": round(self.offered, 1),
            "answered": self.counts[200],
            "refused with 429": self.counts[429],
            "refused with 503": self.counts[503],
            "left": self.counts["left"],
            "read slowly": self.counts["dawdled"],
            "garbage": self.counts["garbage"],
            "ended by an event of the stream": self.counts["ended in a stream"],
            "wrong or lost": len(self.problems),
            "memory growth, %": round(self.growth, 2),
            "resident, MB": round(self.resident / 1e6),
            "seconds to end": round(self.exit_seconds, 2),
        }


def soak(seconds: float, *, users: int = USERS, seed: int = 1) -> Outcome:
    """Start a server, find what it can do, give it three times as much, and end it."""
    alone = {task: regard.load(GOLDEN / task, "cpu") for task in TASKS}
    asked = exchanges(alone, seed=seed, n=300)
    options = ["--rows", str(ROWS), "--queue", str(QUEUE), "--grace", str(GRACE)]
    with served_process({task: GOLDEN / task for task in TASKS}, options) as server:
        capacity = _capacity(server.url, asked, seconds=min(10.0, seconds / 6))
        return _storm(server, asked, capacity=capacity, seconds=seconds, users=users, seed=seed)


def _capacity(url: str, asked: list[Exchange], *, seconds: float) -> float:
    """Answers a second to users of whom none leaves, as many as there are rows."""
    calm = [User(url, asked, seed) for seed in range(ROWS)]
    for user in calm:
        user.shares = (1, 0, 0, 0)
    _run(calm, time.monotonic() + seconds)
    return sum(user.counts[200] for user in calm) / seconds


def _storm(
    server: ServerProcess, asked: list[Exchange], *, capacity: float, seconds: float, users: int, seed: int
) -> Outcome:
    interval = users / (OVERLOAD * capacity)
    crowd = [User(server.url, asked, 1000 * seed + i, interval) for i in range(users)]
    begin = time.monotonic()
    threads = _started(crowd, begin + seconds + GRACE)
    sizes = []
    while time.monotonic() < begin + seconds:
        time.sleep(0.25)
        sizes.append(server.resident())
    told = time.monotonic()
    for user in crowd:
        user.ended = told
    n = sum(sum(user.counts.values()) for user in crowd)
    exit_seconds = server.end(GRACE + 20.0)
    _joined(threads)
    early, late = sizes[int(WARM * len(sizes)) :][:8], sizes[-8:]
    return Outcome(
        seconds=told - begin,
        capacity=capacity,
        offered=n / (told - begin),
        counts=sum((user.counts for user in crowd), Counter()),
        problems=[problem for user in crowd for problem in user.problems],
        growth=100 * (statistics.median(late) / statistics.median(early) - 1),
        resident=int(statistics.median(late)),
        exit_seconds=exit_seconds,
        exit_code=server.process.poll(),
    )


def _run(users: list[User], until: float) -> None:
    _joined(_started(users, until))


def _started(users: list[User], until: float) -> list[threading.Thread]:
    threads = [threading.Thread(target=user.run, args=(until,), daemon=True) for user in users]
    for thread in threads:
        thread.start()
    return threads


def _joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(120.0)


def rows(outcome: Outcome) -> list[dict[str, Any]]:
    """What is kept of a soak."""
    name, n = "soak of a server of three tasks", sum(outcome.counts.values())
    return [
        row(name, "minutes", round(outcome.seconds / 60, 1), n=n),
        row(name, "load", round(outcome.offered / outcome.capacity, 1), unit="times what it can do", n=n),
        row(name, "wrong or lost", float(len(outcome.problems)), n=n),
        row(name, "memory growth", round(outcome.growth, 2), unit="%", n=n),
        row(name, "time to end", round(outcome.exit_seconds, 2), unit="s", n=n),
    ]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=10.0)
    asked.add_argument("--users", type=int, default=USERS)
    asked.add_argument("--save", action="store_true", help="write rows to results/serving.json")
    given = asked.parse_args()
    outcome = soak(60 * given.minutes, users=given.users)
    for name, value in outcome.facts().items():
        print(f"{name:40} {value:>12,}")
    for problem in outcome.failures()[:20]:
        print(problem, file=sys.stderr)
    if given.save:
        save("serving", rows(outcome))
    print(json.dumps(outcome.facts()))
    return int(bool(outcome.failures()))


if __name__ == "__main__":
    sys.exit(main())
