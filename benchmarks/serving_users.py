"""Users of a server, of whom some leave, some dawdle and some send garbage; and what they should be told.

    with served_process(runs, ["--queue", "8"]) as server: ...    `regard serve` on a free port of this machine
    exchanges(predictors, seed=1, n=200)                          requests with the answers that a predictor gives alone
    User(server.url, exchanges, seed=1).run(until=...)            asks, and counts what comes back

Nothing is kept of a right answer but that it came, so that users may go on for hours.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlparse

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "finished"
REFUSED = (429, 503)
CUT = 0.5  # seconds before a server is told to end in which a request may not have been read yet
_WORDS = {
    "translation": ("one", "two", "three", "four"),
    "language": ("the", "cat", "sees", "a", "dog", "bird"),
    "labels": ("the", "cat", "dog", "bird", "sees", "a", "."),
}


# ---- a server


@dataclass(frozen=True)
class ServerProcess:
    """A running `regard serve`."""

    process: subprocess.Popen[str]
    url: str

    def resident(self) -> int:
        """Bytes that it has in memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def end(self, limit: float) -> float:
        """Tell it to end; how many seconds it takes to, which is infinite where it has to be killed."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return float("inf")
        return time.monotonic() - begin


@contextmanager
def served_process(
    runs: Mapping[str, Path], options: Sequence[str] = (), *, device: str = "cpu"
) -> Iterator[ServerProcess]:
    """`regard serve` in a process of its own, until the block ends."""
    named = [f"{name}={place}" for name, place in runs.items()]
    command = [sys.executable, "-m", "regard", "serve", *named, "--port", "0", "--device", device, *options]
    paths = [str(Path(__file__).parent.parent / "src"), os.environ.get("PYTHONPATH", "")]
    told = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | told)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        if not line.startswith("serving "):
            raise RuntimeError(line + process.stderr.read())
        server = ServerProcess(process, line.split()[-1])
        _wait_for(server.url)
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def _wait_for(url: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with _sent(url, "GET", "/live", None) as answer:
                answer.read()
                return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(url)


@contextmanager
def _sent(url: str, method: str, path: str, body: bytes | None) -> Iterator[HTTPResponse]:
    connection = HTTPConnection(urlparse(url).netloc, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        yield connection.getresponse()
    finally:
        connection.close()


# ---- what is asked, and what is right


@dataclass(frozen=True)
class Exchange:
    """A request and what a predictor says to it alone; of one that streams, the text of its events together."""

    path: str
    body: Mapping[str, Any]
    right: Any

    def sent(self, url: str) -> tuple[int, bytes]:
        """Status and body of the answer."""
        with _sent(url, "POST", self.path, json.dumps(self.body).encode()) as answer:
            return answer.status, answer.read()

    def read(self, answer: HTTPResponse) -> Any:
        """What an answer says; an error that came in a stream is the error."""
        data = answer.read()
        if answer.status != 200:
            return json.loads(data)
        if self.body.get("stream"):
            return _streamed(data)
        said = json.loads(data)
        return said["choices"][0]["text"] if "choices" in said else said["data"][0]


def _streamed(data: bytes) -> Any:
    """The text of a stream; None where it did not end as it should, an error where it says one."""
    events = [line[6:] for line in data.decode().split("\n") if line.startswith("data: ")]
    chunks = [json.loads(event) for event in events if event != "[DONE]"]
    failed = next((one for one in chunks if "error" in one), None)
    if failed is not None or events[-1:] != ["[DONE]"]:
        return failed
    return "".join(choice["text"] for one in chunks for choice in one["choices"])


def exchanges(predictors: Mapping[str, Any], *, seed: int, n: int, longest: int = 100) -> list[Exchange]:
    """So many requests to these models: greedy, beams and samples, short and long, streams and whole answers.

    Words of an input and tokens of an output are from 1 to `longest`, small numbers as often as large ones.
    """
    chance = Random(seed)
    kinds = list(predictors.items())
    return [_exchange(chance, *kinds[i % len(kinds)], longest) for i in range(n)]


def _exchange(chance: Random, name: str, predictor: Any, longest: int) -> Exchange:
    task = predictor.config.task
    text = " ".join(chance.choices(_WORDS[task], k=_some(chance, longest)))
    if task == "labels":
        return Exchange("/v1/predict", {"model": name, "input": text}, plain(predictor(text).record()))
    length = _some(chance, longest)
    ways = [{}, {"beam": chance.randint(2, 5)}, {"strategy": "sample", "seed": chance.randint(0, 99)}]
    options = chance.choice(ways) | {"max_length": length, "min_length": length // 2}
    if task == "translation":
        body = {"model": name, "input": text, "decode": options}
        return Exchange("/v1/predict", body, plain(predictor(text, **options).record()))
    body = {"model": name, "prompt": text, "decode": options, "stream": chance.random() < 0.5}
    return Exchange("/v1/completions", body, predictor(text, **options).text)


def _some(chance: Random, most: int) -> int:
    return max(1, round(most ** chance.random()))


def plain(record: Any) -> Any:
    """A record as it comes out of JSON."""
    return json.loads(json.dumps(record))


# ---- who asks


@dataclass
class User:
    """Somebody who asks again and again: two in ten leave, one dawdles, one sends garbage, the others read.

    What came back is counted by status; `problems` are wrong answers, lost requests and refusals that do not say when
    to come again. `interval` is how many seconds lie between two requests at least.
    """

    url: str
    exchanges: Sequence[Exchange]
    seed: int
    interval: float = 0.0
    counts: Counter[Any] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    ended: float = float("inf")  # when the server was told to end; from then on it may hang up

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.acts = (self.ask, self.leave, self.dawdle, self.garbage)
        self.shares = (6, 2, 1, 1)

    def run(self, until: float, most: int = 1_000_000) -> None:
        """Ask until then, and no more often than that."""
        due = time.monotonic() + self.chance.random() * self.interval
        for _ in range(most):
            time.sleep(max(0.0, min(due, until) - time.monotonic()))
            if time.monotonic() >= until or len(self.problems) > 20:
                return
            due = max(due + self.interval, time.monotonic() - self.interval)
            self.act(self.chance.choices(self.acts, self.shares)[0])

    def act(self, act: Any) -> None:
        """Do one thing; a server that hangs up has lost a request, unless it was told to end."""
        begin = time.monotonic()
        try:
            act()
        except (OSError, HTTPException, ValueError) as problem:
            if begin < self.ended - CUT:
                self.problems.append(f"{act.__name__}: {problem!r}")
            else:
                self.counts["after the end"] += 1

    def ask(self) -> None:
        """Ask for something."""
        self.ask_for(self.chance.choice(self.exchanges))

    def ask_for(self, exchange: Exchange) -> None:
        """Ask, read, and compare."""
        begin = time.monotonic()
        with _sent(self.url, "POST", exchange.path, json.dumps(exchange.body).encode()) as answer:
            said = exchange.read(answer)
        self.counts[answer.status] += 1
        if answer.status in REFUSED:
            self.refused(answer, said)
        elif answer.status != 200:
            self.problems.append(f"{answer.status}: {said} to {exchange.body}")
        elif _is_error(said) and said["error"]["code"] == "stopping":
            self.counts["ended in a stream"] += 1
        elif said != exchange.right:
            self.problems.append(f"wrong: {said} to {exchange.body}, right is {exchange.right}")
        else:
            self.times.append(time.monotonic() - begin)

    def refused(self, answer: HTTPResponse, said: Any) -> None:
        """A refusal says when to come again."""
        if not (answer.getheader("Retry-After") or "").isdecimal():
            self.problems.append(f"{answer.status} without Retry-After: {said}")

    def leave(self) -> None:
        """Ask, and go before the answer comes."""
        exchange = self.chance.choice(self.exchanges)
        connection = HTTPConnection(urlparse(self.url).netloc, timeout=60)
        connection.request("POST", exchange.path, json.dumps(exchange.body), {"Content-Type": "application/json"})
        time.sleep(self.chance.random() * 0.05)
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        self.counts["left"] += 1

    def dawdle(self) -> None:
        """Read an answer a few bytes at a time, and perhaps not to its end."""
        exchange = self.chance.choice(self.exchanges)
        with _sent(self.url, "POST", exchange.path, json.dumps(exchange.body).encode()) as answer:
            for _ in range(3):
                time.sleep(0.05)
                answer.read(20)
        if answer.status in REFUSED:
            self.refused(answer, "")
        self.counts["dawdled"] += 1

    def garbage(self) -> None:
        """Send what is no request."""
        junk = bytes(self.chance.randrange(256) for _ in range(self.chance.randint(0, 200)))
        path = self.chance.choice(("/v1/predict", "/v1/completions", "/translate", "/v1/look"))
        with _sent(self.url, "POST", path, junk) as answer:
            answer.read()
        self.counts["garbage"] += 1
        if answer.status != 400:
            self.problems.append(f"{answer.status} to garbage {junk!r}")


def _is_error(said: Any) -> bool:
    return isinstance(said, dict) and isinstance(said.get("error"), dict)
