"""Translation served on a CPU: our engine beside CTranslate2, behind one small HTTP app and under one load.

    regard train multi30k-tiny model.dropout=0.1 model.n_encoder_layers=2 model.n_decoder_layers=2 train.steps=4000 \\
        train.batch_tokens=2048 train.lr=0.004 train.warmup=300 train.ema=0 train.eval_from=4000 --out RUN    minutes
    python benchmarks/serving_load.py load RUN [--users 32] [--rounds 3] [--save]
    python benchmarks/serving_load.py poisson RUN [--share 0.7] [--save]

The model is Transformer base; a smaller run, such as this one, is widened to it and says the same (`widened.py`).
Both sides have the same weights in int8, the same tokenizer before and after, greedy decoding, and single sentences of
Multi30k's test set: those that either side ends by itself, well before its limit. `load`: so many users who ask again
as soon as they are answered. CTranslate2 is called once a request, and by a collector that waits 5 ms for company, each
with the threads and the batch that do best in a short search. `poisson`: requests come by chance at 70 % of what users
without a pause got through; a latency counts from when its request was due. Servers and the load generator are
processes of their own on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

TEST = Path(os.environ.get("REGARD_DATA", "data")) / "multi30k" / "test_2016_flickr.en.gz"
THREADS = [(1, 2), (2, 1)]  # workers of CTranslate2, and threads of each, on two cores
BATCHES = [16, 32]
GREEDY = {"strategy": "greedy", "beam": 1}
Latencies = list[float]


# ---- the server: one app, whoever answers


class Backend(Protocol):
    """Who answers."""

    async def answer(self, text: str) -> str:
        """The translation of a text."""


class Ours:
    """The engine of `regard serve`."""

    def __init__(self, predictor: Any) -> None:
        from regard.serve.engine import Engine
        from regard.serve.limits import Limits
        from regard.serve.tickets import Ask

        self.engine, self.ask = Engine(predictor, Limits()), Ask

    async def answer(self, text: str) -> str:
        """The translation."""
        ticket = self.engine.submit([self.ask(text, GREEDY, finish=lambda output: output.text)])[0]
        told: str = await asyncio.wrap_future(ticket.future)
        return told


def base_model(run: str) -> Any:
    """The predictor of a run as Transformer base in int8."""
    import regard
    from widened import widened

    predictor = regard.load(run, "cpu", precision="int8")
    if predictor.module.config.d_model < 512:
        predictor = widened(predictor, size="base", precision="int8")
    return predictor


def backend_of(name: str, run: str) -> Backend:
    """One of `regard`, `once INTER INTRA` and `collected INTER INTRA BATCH`."""
    from ctranslate2_peer import Collected, Once, exported

    kind, *numbers = name.split()
    predictor = base_model(run)
    if kind == "regard":
        return Ours(predictor)
    folder, given = exported(predictor, Path(run) / "ctranslate2"), [int(number) for number in numbers]
    if kind == "once":
        return Once(predictor, folder, inter=given[0], intra=given[1])
    return Collected(predictor, folder, inter=given[0], intra=given[1], batch=given[2])


def serve(name: str, run: str, port: int) -> None:
    """Answer POSTs of a text with its translation, until killed."""
    import uvicorn

    from regard.config.process import short_turns

    backend = backend_of(name, run)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        told = (await backend.answer(body.decode())).encode()
        headers = [(b"content-length", str(len(told)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": told})

    # uvicorn stops, and then lets the signal do what it would have done: end without a word of what was loaded.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "lifespan": "off"}
    with short_turns():  # as `regard serve` has them
        uvicorn.run(app, host="127.0.0.1", port=port, http="h11", timeout_keep_alive=600, **quiet)


@dataclass
class Server:
    """A server process; it is ready when it has answered once."""

    name: str
    run: str
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.process = _python("serve", self.name, self.run, str(self.port))

    def wait(self) -> Server:
        """Until it answers."""
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            try:
                asyncio.run(_ask_all(self.port, ["A dog runs."], users=1, seconds=0.0))
                return self
            except OSError:
                time.sleep(0.3)
        raise RuntimeError(f"the server of {self.name} does not answer")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()  # not killed: it says what it loaded
        self.process.wait()


# ---- the load: a process that only asks


class Connection:
    """A connection that is kept, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> Connection:
        """A new one."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, text: str) -> bytes:
        """A request and its answer."""
        body = text.encode()
        head = f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        self.writer.write(head + body)
        headers = await self.reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in headers[:20], headers
        length = int(headers.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return await self.reader.readexactly(length)


async def _ask_all(port: int, texts: Sequence[str], *, users: int, seconds: float) -> tuple[Latencies, float]:
    """Users who ask again at once, for so long; who has begun finishes. Gives latencies, and answers a second."""
    latencies: Latencies = []
    turn, begin = iter(range(10**9)), time.perf_counter()
    ends: list[float] = []

    async def user() -> None:
        connection = await Connection.to(port)
        while True:
            text, asked = texts[next(turn) % len(texts)], time.perf_counter()
            await connection.ask(text)
            ends.append(time.perf_counter())
            latencies.append(ends[-1] - asked)
            if ends[-1] - begin >= seconds:
                break
        connection.writer.close()

    await asyncio.gather(*(user() for _ in range(users)))
    within = sum(end - begin <= seconds for end in ends)
    return latencies, within / seconds if seconds else 0.0


async def _by_chance(port: int, texts: Sequence[str], *, rate: float, seconds: float) -> tuple[Latencies, float]:
    """Requests that come independently of each other; latencies count from when one was due."""
    chance, latencies, idle = random.Random(7), [], [await Connection.to(port) for _ in range(64)]

    async def request(text: str, due: float) -> None:
        connection = idle.pop() if idle else await Connection.to(port)
        await connection.ask(text)
        latencies.append(time.perf_counter() - due)
        idle.append(connection)

    tasks, due = [], time.perf_counter()
    end = due + seconds
    for turn in range(10**9):
        due += chance.expovariate(rate)
        if due > end:
            break
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(request(texts[turn % len(texts)], due)))
    await asyncio.gather(*tasks)
    return latencies, len(latencies) / seconds


def generate(how: str, port: int, texts: Path, number: float, seconds: float) -> None:
    """What the load generator's process does: a line of JSON with latencies and answers a second."""
    lines = json.loads(texts.read_text())
    work: Coroutine[Any, Any, tuple[Latencies, float]]
    if how == "users":
        work = _ask_all(port, lines, users=int(number), seconds=seconds)
    else:
        work = _by_chance(port, lines, rate=number, seconds=seconds)
    latencies, rate = asyncio.run(work)
    print(json.dumps({"latencies": latencies, "rate": rate}))


@dataclass(frozen=True)
class Measured:
    """Sentences a second, and the latencies of one run."""

    rate: float
    latencies: Latencies

    def percentile(self, share: float) -> float:
        """So many of the latencies are below this, in milliseconds."""
        return 1000 * sorted(self.latencies)[min(len(self.latencies) - 1, int(share * len(self.latencies)))]


@dataclass(frozen=True)
class Load:
    """A generator with the sentences it sends."""

    texts: Path
    seconds: float

    def users(self, server: Server, n: int, *, seconds: float | None = None) -> Measured:
        """Of so many users without a pause."""
        return self._of("users", server, n, seconds or self.seconds)

    def by_chance(self, server: Server, rate: float) -> Measured:
        """Of requests that come at this rate."""
        return self._of("chance", server, rate, self.seconds)

    def _of(self, how: str, server: Server, number: float, seconds: float) -> Measured:
        with _python(
            "generate", how, str(server.port), str(self.texts), str(number), str(seconds), out=True
        ) as process:
            told, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the load generator failed at {server.name}")
        line = json.loads(told)
        return Measured(line["rate"], line["latencies"])


def _python(*words: str, out: bool = False) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE if out else None)


# ---- what is measured


def sentences(run: str, made: Path) -> Path:
    """Sentences of the test set that both sides end by themselves; written once."""
    path = made / "sentences.json"
    if path.exists():
        return path
    from ctranslate2_peer import Once, exported

    texts = gzip.decompress(TEST.read_bytes()).decode().splitlines()
    predictor = base_model(run)
    peer = Once(predictor, exported(predictor, made), inter=1, intra=2)
    ours = [len(one.ids) for one in predictor(texts, **GREEDY)]
    theirs = [n for start in range(0, len(texts), 50) for _, n in peer.translate(texts[start : start + 50])]
    sources = [len(ids) + 1 for ids in predictor.languages.source.encode(texts)]
    fit = [i for i, n in enumerate(sources) if max(ours[i], theirs[i]) < 2 * n]
    print(
        f"  {len(fit)} of {len(texts)} sentences end by themselves: {_mean(sources, fit):.1f} tokens each become "
        f"{_mean(ours, fit):.1f} by regard and {_mean(theirs, fit):.1f} by CTranslate2; "
        f"{sum(ours[i] == theirs[i] for i in fit)} as many on both sides",
        flush=True,
    )
    path.write_text(json.dumps([texts[i] for i in fit]))
    return path


def _mean(values: Sequence[int], chosen: Sequence[int]) -> float:
    return statistics.mean(values[i] for i in chosen)


def best(names: Sequence[str], run: str, load: Load, *, users: int) -> str:
    """Whichever gets most through in a short time."""
    rates = {}
    for name in names:
        with Server(name, run, 8731) as server:
            load.users(server.wait(), users, seconds=2.0)
            rates[name] = load.users(server, users, seconds=5.0).rate
            print(f"  search: {name:<20}{rates[name]:8.1f} sentences/s", flush=True)
    return max(rates, key=lambda name: rates[name])


def load_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Users without a pause: all three in turns."""
    run, users = options.run, options.users
    load = Load(sentences(run, Path(run) / "ctranslate2"), options.seconds)
    once = best([f"once {inter} {intra}" for inter, intra in THREADS], run, load, users=users)
    collected = best([f"collected {i} {j} {b}" for i, j in THREADS for b in BATCHES], run, load, users=users)
    names = {"regard": "regard", "CTranslate2 once a request": once, "CTranslate2 behind a collector": collected}
    found: dict[str, list[Measured]] = {label: [] for label in names}
    with ExitStack() as stack:
        servers = {
            label: stack.enter_context(Server(name, run, 8741 + i)) for i, (label, name) in enumerate(names.items())
        }
        for server in servers.values():
            load.users(server.wait(), users, seconds=3.0)
        for turn in range(options.rounds):
            for label, server in servers.items():
                found[label].append(load.users(server, users))
                one = found[label][-1]
                print(f"  round {turn + 1}: {label:<32}{_line(one)}", flush=True)
    return _load_rows(found, names, users)


def _load_rows(found: dict[str, list[Measured]], names: dict[str, str], users: int) -> list[dict[str, Any]]:
    from record import row

    ours, rows = found["regard"], []
    for label, several in found.items():
        facts = {"n": len(several), "seeds": None}
        rates = [one.rate for one in several]
        told = label if names[label] == label else f"{label} ({names[label]})"
        rows.append(row(f"{users} users, {told}", "sentences/s", round(statistics.median(rates), 1), **facts))
        for share in (0.5, 0.95):
            value = statistics.median(one.percentile(share) for one in several)
            rows.append(row(f"{users} users, {told}", f"p{share * 100:.0f}", round(value, 1), unit="ms", **facts))
        if several is not ours:
            ratios = [mine.rate / other.rate for mine, other in zip(ours, several, strict=True)]
            value = round(statistics.median(ratios), 2)
            rows.append(
                row(f"{users} users, over {label}", "speed", value, unit="×", peer=told, peer_value=1.0, **facts)
            )
    return rows


def poisson_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Requests by chance, beside one user alone and beside users without a pause, all in one run."""
    from record import row

    run = options.run
    load = Load(sentences(run, Path(run) / "ctranslate2"), options.seconds)
    found: dict[str, list[Measured]] = {"unloaded": [], "full": [], "poisson": []}
    with Server("regard", run, 8751) as server:
        load.users(server.wait(), options.users, seconds=3.0)
        for turn in range(options.rounds):
            found["unloaded"].append(load.users(server, 1))
            found["full"].append(load.users(server, options.users))
            found["poisson"].append(load.by_chance(server, options.share * found["full"][-1].rate))
            for label, several in found.items():
                print(f"  round {turn + 1}: {label:<32}{_line(several[-1])}", flush=True)
    tails = {label: statistics.median(one.percentile(0.95) for one in several) for label, several in found.items()}
    each = zip(found["poisson"], found["unloaded"], strict=True)  # side by side, as a machine drifts
    ratios = [loaded.percentile(0.95) / alone.percentile(0.95) for loaded, alone in each]
    name, facts = f"requests by chance at {options.share:.0%} load", {"n": options.rounds}
    return [
        row(name, "p95", round(tails["poisson"], 1), unit="ms", **facts),
        row("one user", "p95", round(tails["unloaded"], 1), unit="ms", **facts),
        row(name, "p95 over one user's", round(statistics.median(ratios), 2), unit="×", **facts),
    ]


def _line(one: Measured) -> str:
    return f"{one.rate:8.1f} sentences/s, p50 {one.percentile(0.5):7.1f} ms, p95 {one.percentile(0.95):7.1f} ms"


def main() -> None:
    inner: dict[str, Callable[..., None]] = {
        "serve": lambda name, run, port: serve(name, run, int(port)),
        "generate": lambda how, port, texts, number, seconds: generate(
            how, int(port), Path(texts), float(number), float(seconds)
        ),
    }
    if sys.argv[1:2] and sys.argv[1] in inner:
        inner[sys.argv[1]](*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "poisson"])
    parser.add_argument("run", help="a run of translation with a Transformer on Multi30k")
    parser.add_argument("--users", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.7, help="poisson: of what users without a pause got through")
    parser.add_argument("--save", action="store_true", help="write results/serving.json")
    options = parser.parse_args()
    rows = load_rows(options) if options.what == "load" else poisson_rows(options)
    for r in rows:
        print(f"  {r['name']:<62}{r['value']:10.2f} {r['unit'] or r['metric']}")
    if options.save:
        from record import save

        print(f"saved {save('serving', rows)}")
    print(json.dumps({f"{r['name']}: {r['metric']}": r["value"] for r in rows}))


if __name__ == "__main__":
    main()
