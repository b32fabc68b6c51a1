"""A language model served to many at once on a GPU: GPT-2 with random weights, bf16, greedy, by OpenAI's interface.

    python benchmarks/serving_gpu.py --tokenizer FOLDER [--users 256] [--seconds 20] [--save]

Users ask one after another for a stream of 256 to 768 tokens, 512 on the average, after a prompt of about 32, each as
soon as the last has ended. Beside it, offline: the same prompts by the same decoder as one batch of as many rows, all
of 512 tokens, so that none waits for another. Reported are tokens a second while all users ask, the
time to the first token, how many events a second a client gets, and how many answers differ from those that the same
server gives to the same prompts when nobody else asks: as it is, and with `--exact`. The tokenizer's folder holds
GPT-2's vocab.json and merges.txt, or any of 50,257 pieces. On a CPU (`--device cpu`) the model is tiny.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlparse

import torch

import regard
from record import row, save
from serving_users import served_process

N_PROMPT, N_NEW = 32, 512
SIZES = {"cuda": (768, 12, 12), "cpu": (64, 2, 2)}  # width, heads, layers
N_GENERATORS = 4


@dataclass
class Seen:
    """What users have seen: the time to the first token, events a second, and texts by the number of their prompt.

    `streams` says of each when its first event came, when its last did, and how many tokens it had.
    """

    streams: list[tuple[float, float, int]] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    refused: int = 0


def make_model(folder: Path, tokenizer: Path, device: str) -> None:
    """A folder as transformers writes it, with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    vocabulary = json.loads((tokenizer / "vocab.json").read_text())
    width, heads, layers = SIZES[device]
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=len(vocabulary), n_embd=width, n_head=heads, n_layer=layers)
    model = GPT2LMHeadModel(config)
    model.save_pretrained(folder)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(tokenizer / name, folder)


def make_prompts(predictor: Any, n: int) -> list[str]:
    """Texts of about 32 pieces, drawn at random among the vocabulary's own."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(256, len(predictor.tokenizer) - 1, (n, N_PROMPT), generator=generator)
    return [predictor.tokenizer.decode(one) for one in ids.tolist()]


# ---- users


def body_of(prompt: str, n_new: int) -> bytes:
    asked = {
        "model": "gpt2", "prompt": prompt, "max_tokens": n_new, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    return json.dumps(asked).encode()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, body: bytes, seen: Seen) -> None:
    """One request on an open connection, read event by event."""
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    began = time.perf_counter()
    writer.write(head.encode() + b"\r\n" + body)
    status = await reader.readline()
    while (await reader.readline()).strip():
        pass
    if b" 200 " not in status:
        seen.refused += 1
        raise ConnectionError(status)
    first, events, n_tokens, parts = 0.0, 0, 0, []
    while size := int(await reader.readline(), 16):
        chunk = (await reader.readexactly(size + 2))[:-2]
        for line in chunk.split(b"\n"):
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                text = event["choices"][0].get("text", "") if event["choices"] else ""
                events += bool(text)
                parts.append(text)
                first = first or (time.perf_counter() - began if text else 0.0)
                n_tokens += event["usage"]["completion_tokens"] if event.get("usage") else 0
    await reader.readline()
    now = time.time()
    seen.streams.append((now - (time.perf_counter() - began) + first, now, n_tokens))
    seen.firsts.append(first)
    seen.rates.append(events / max(1e-3, time.perf_counter() - began))
    seen.texts.append((number, "".join(parts)))


async def user(address: tuple[str, int], bodies: Sequence[bytes], start: int, until: float, seen: Seen) -> None:
    reader, writer = await asyncio.open_connection(*address, limit=1 << 20)
    number = start
    while time.time() < until:
        await ask(reader, writer, number % len(bodies), bodies[number % len(bodies)], seen)
        number += 7
    writer.close()


def generate(
    address: tuple[str, int], bodies: Sequence[bytes], starts: Sequence[int], seconds: float, ready: Any, out: Any
) -> None:
    """One process of users, who begin when all are ready."""
    ready.wait(120)
    seen, until = Seen(), time.time() + seconds

    async def all_users() -> None:
        results = await asyncio.gather(
            *(user(address, bodies, start, until, seen) for start in starts), return_exceptions=True
        )
        seen.refused += sum(isinstance(one, Exception) for one in results)

    asyncio.run(all_users())
    out.put(seen)


def rate_between(streams: Sequence[tuple[float, float, int]], begin: float, end: float) -> float:
    """Tokens a second between two times; those of a stream come evenly from its first event to its last."""
    shares = (n * max(0.0, min(last, end) - max(first, begin)) / max(1e-6, last - first) for first, last, n in streams)
    return sum(shares) / (end - begin)


def load(url: str, bodies: Sequence[bytes], *, users: int, seconds: float) -> tuple[Seen, float]:
    """What so many users see in so many seconds, and tokens a second while all of them ask: from the first second on
    until the first of them asks no more."""
    parts = urlparse(url)
    address, context = (str(parts.hostname), int(parts.port or 80)), multiprocessing.get_context("spawn")
    shares = [list(range(users))[i::N_GENERATORS] for i in range(min(users, N_GENERATORS))]
    out: Any = context.Queue()
    ready = context.Barrier(len(shares) + 1)
    workers = [context.Process(target=generate, args=(address, bodies, share, seconds, ready, out)) for share in shares]
    for one in workers:
        one.start()
    ready.wait(120)
    begin, seen = time.time(), Seen()
    for _ in workers:
        part = out.get(timeout=seconds + 120)
        seen.streams, seen.refused = seen.streams + part.streams, seen.refused + part.refused
        seen.firsts += part.firsts
        seen.rates += part.rates
        seen.texts += part.texts
    for one in workers:
        one.join()
    return seen, rate_between(seen.streams, begin + min(1.0, seconds / 2), begin + seconds)


# ---- what is measured


def offline(predictor: Any, prompts: Sequence[str], users: int) -> float:
    """Tokens a second of as many rows as there are users, decoded as one batch; the best of three."""
    batch = [prompts[i % len(prompts)] for i in range(users)]
    options = {"strategy": "greedy", "max_length": N_NEW}
    predictor(batch, **options)
    rates = []
    for _ in range(3):
        begin = time.perf_counter()
        texts = predictor(batch, **options)
        rates.append(sum(len(one.ids) for one in texts) / (time.perf_counter() - begin))
    return max(rates)


def measure(folder: Path, given: argparse.Namespace, prompts: Sequence[str], exact: bool) -> tuple[Seen, float, float]:
    chance = Random(1)
    bodies = [body_of(prompt, chance.randint(N_NEW // 2, N_NEW * 3 // 2)) for prompt in prompts]
    options = ["--precision", given.precision, "--rows", str(given.users), "--queue", str(2 * given.users)]
    options += ["--exact" if exact else "--batched"]
    with served_process({"gpt2": folder}, options, device=given.device) as server:
        load(server.url, bodies, users=given.users, seconds=given.warm)
        alone, _ = load(server.url, bodies, users=1, seconds=given.alone)
        seen, rate = load(server.url, bodies, users=given.users, seconds=given.seconds)
    right = dict(alone.texts)
    told = [(number, text) for number, text in seen.texts if number in right]
    differing = sum(right[number] != text for number, text in told) / max(1, len(told))
    print(f"{'exact' if exact else 'batched'}: {len(seen.texts)} answers, {seen.refused} failures, "
          f"{len(told)} of them compared", flush=True)  # fmt: skip
    return seen, rate, differing


def measured(
    folder: Path, given: argparse.Namespace, prompts: Sequence[str], *, exact: bool, rate: float
) -> list[dict[str, Any]]:
    """The rows of one server, printed as well; `rate` is what is done offline."""
    seen, served, differing = measure(folder, given, prompts, exact)
    firsts, rates = statistics.quantiles(seen.firsts, n=20), statistics.quantiles(seen.rates, n=100)
    name = f"GPT-2, {given.users} users, streams of about {N_NEW} tokens" + (", exact" if exact else "")
    figures = {
        "tokens/s": (round(served), "tokens/s", round(rate)),
        "share of offline": (round(served / rate, 3), None, None),
        "time to first token, p50": (round(1000 * firsts[9]), "ms", None),
        "time to first token, p95": (round(1000 * firsts[-1]), "ms", None),
        "events a second and client, p99": (round(rates[-1], 1), None, None),
        "answers other than alone": (round(100 * differing, 1), "%", None),
    }  # fmt: skip
    for metric, (value, _, _) in figures.items():
        print(f"{name:50} {metric:35} {value}", flush=True)
    return [
        row(name, metric, value, unit=unit, n=len(seen.texts), peer=peer and "offline, one batch", peer_value=peer)
        for metric, (value, unit, peer) in figures.items()
    ]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--tokenizer", type=Path, required=True)
    asked.add_argument("--users", type=int, default=256)
    asked.add_argument("--seconds", type=float, default=20.0)
    asked.add_argument("--warm", type=float, default=6.0)
    asked.add_argument("--alone", type=float, default=8.0)
    asked.add_argument("--device", default="cuda")
    asked.add_argument("--precision", default="bf16")
    asked.add_argument("--only", choices=("exact", "batched"))
    asked.add_argument("--save", action="store_true", help="write rows to results/serving.json")
    given = asked.parse_args()
    rows = []
    with TemporaryDirectory() as place:
        folder = Path(place, "gpt2")
        make_model(folder, given.tokenizer, given.device)
        predictor = regard.load(folder, given.device, precision=given.precision)
        prompts = make_prompts(predictor, 97)
        rate = offline(predictor, prompts, given.users)
        print(f"offline: {rate:,.0f} tokens/s", flush=True)
        del predictor
        for exact in (False, True):
            if given.only and exact != (given.only == "exact"):
                continue
            rows += measured(folder, given, prompts, exact=exact, rate=rate)
            if given.save:  # at once: what follows may be cut short
                save("serving", rows, drop=("GPT-2, 256 users, streams of 512",))
    print(json.dumps([{key: one[key] for key in ("name", "metric", "value")} for one in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
