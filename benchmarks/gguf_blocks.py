"""A GGUF model with its weights in their blocks, beside llama.cpp: tokens a second, memory, perplexity.

    python benchmarks/gguf_blocks.py [weights/SmolLM2-135M-Instruct.Q4_1.gguf] [--format Q8_0] [--save]

Both decode greedily with two threads, in turns, one text and eight at a time. llama.cpp runs in the environment that
`--peer` names, through its own interface, with its weights repacked as it does by itself. `--format Q8_0` rewrites the
file's matrices in that format first. Perplexity is measured on the first tokens of WikiText-2's test part: with weights
in blocks and inputs rounded, and with the same weights made plain numbers.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import math
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from record import DATA, ROOT, row, save

SMOLLM = ROOT / "weights" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "The history of writing begins with marks on clay, and"


class Peer:
    """llama.cpp in its own process."""

    def __init__(self, python: str, model: Path, threads: int) -> None:
        script = Path(__file__).with_name("llama_peer.py")
        command = [python, str(script), str(model), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = ""

    def ask(self, what: str, **more: Any) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"what": what, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"llama.cpp ended with exit code {self.process.wait()}; see benchmarks/README.md")
        said = json.loads(line)
        self.version = said["version"]
        return float(said["answer"])

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@torch.inference_mode()
def decode(model: Any, prompt: list[int], n_rows: int, n_steps: int) -> float:
    """Seconds for so many greedy steps of rows that began with the prompt."""
    stepper = model.start(torch.tensor([prompt] * n_rows), capacity=n_steps + 8)
    tokens, begun = torch.full((n_rows,), prompt[-1]), 0.0
    for step in range(n_steps + 4):
        if step == 4:
            begun = time.perf_counter()
        tokens = stepper.step(tokens).argmax(-1)
    return time.perf_counter() - begun


@torch.inference_mode()
def read(model: Any, prompt: list[int]) -> float:
    """Seconds for reading a prompt."""
    begun = time.perf_counter()
    model.start(torch.tensor([[*prompt, prompt[-1]]]), capacity=1)
    return time.perf_counter() - begun


@torch.inference_mode()
def perplexity(model: Any, windows: torch.Tensor) -> float:
    """Of windows (n, T), each read by itself."""
    losses = [
        torch.nn.functional.cross_entropy(model(window[None, :-1])[0].float(), window[1:]).item() for window in windows
    ]
    return math.exp(statistics.fmean(losses))


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def opened(path: Path) -> tuple[Any, float]:
    """The predictor, and by how many bytes the process grew: at a second opening, so that libraries do not count."""
    predictor = regard.load(path, "cpu")
    predictor("Hello", max_length=2)
    del predictor
    gc.collect()
    before = resident()
    predictor = regard.load(path, "cpu")
    predictor("Hello", max_length=2)
    gc.collect()
    return predictor, float(resident() - before)


def rewritten(path: Path, form: str, folder: Path) -> Path:
    """The same model with its matrices in another format."""
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
    from gguf.quants import dequantize, quantize

    made = folder / f"{path.name.split('.')[0]}.{form}.gguf"
    if made.exists():
        return made
    reader, kind = GGUFReader(path), GGMLQuantizationType[form]
    draft = made.with_suffix(".draft")
    writer = GGUFWriter(draft, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if numbers.ndim == 2:
            writer.add_tensor(tensor.name, quantize(numbers, kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor.name, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    draft.rename(made)
    return made


def windows_of(predictor: Any, n: int, length: int) -> torch.Tensor:
    with gzip.open(DATA / "wikitext-2" / "test.txt.gz", "rt", encoding="utf-8") as file:
        ids = predictor.tokenizer.encode(file.read(12 * n * length))
    return torch.tensor(ids[: n * (length + 1)]).view(n, length + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, default=SMOLLM)
    parser.add_argument("--format", choices=("Q8_0", "Q4_0", "Q4_1"), help="write the matrices in this format first")
    parser.add_argument("--peer", default="weights/llama-venv/bin/python", help="a Python that has llama-cpp-python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--windows", type=int, default=8, help="of 512 tokens, for perplexity; 0: none")
    parser.add_argument("--save", action="store_true", help="write results/gguf.json")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    path = rewritten(given.model, given.format, given.model.parent) if given.format else given.model
    predictor, grown = opened(path)
    rows = [*speeds(predictor, path, given), *memory(path, grown)]
    rows += quality(predictor, path, given.windows) if given.windows else []
    for one in rows:
        beside = f", {one['peer']} {one['peer_value']:.4g}" if one["peer"] else ""
        print(f"{one['name']:<44} {one['metric']:<28} {one['value']:.4g} {one['unit']}{beside}")
    if given.save:
        save("gguf", rows)
    print(json.dumps({f"{one['name']}: {one['metric']}": one["value"] for one in rows}))


def speeds(predictor: Any, path: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    """In turns, so that both meet the same moments of the machine; medians over the rounds."""
    model, prompt = predictor.writer.models[0], predictor.tokenizer.encode(PROMPT)
    long = (prompt * 512)[:512]
    peer = Peer(given.peer, path, given.threads)
    works: dict[str, tuple[int, list[float], list[float]]] = {}
    for _ in range(given.rounds):
        for n in (1, 8):
            ours, theirs = works.setdefault(f"batch {n}", (n * given.steps, [], []))[1:]
            ours.append(decode(model, prompt, n, given.steps))
            theirs.append(peer.ask("decode", prompt=prompt, n_rows=n, n_steps=given.steps))
        ours, theirs = works.setdefault("prompt of 512", (512, [], []))[1:]
        ours.append(read(model, long))
        theirs.append(peer.ask("read", prompt=long))
    peer.close()
    rows = []
    for name, (n_tokens, ours, theirs) in works.items():
        rates = [[n_tokens / seconds for seconds in side] for side in (ours, theirs)]
        facts: dict[str, Any] = {
            "unit": "tok/s", "n": given.rounds, "spread": float(f"{statistics.stdev(rates[0]):.3g}"),
            "peer": f"llama.cpp (llama-cpp-python {peer.version}), {given.threads} threads",
            "peer_value": statistics.median(rates[1]),
        }  # fmt: skip
        rows.append(row(f"{path.stem}, {given.threads} cores, {name}", "speed", statistics.median(rates[0]), **facts))
    return rows


def memory(path: Path, grown: float) -> list[dict[str, Any]]:
    size = path.stat().st_size
    return [row(f"{path.stem}, opened", "memory over file size", grown / size, unit="×", n=1)]


def quality(predictor: Any, path: Path, n_windows: int) -> list[dict[str, Any]]:
    """Perplexity in blocks; its peer is that of the same weights as plain numbers."""
    windows = windows_of(predictor, n_windows, 512)
    ours, exact = perplexity(predictor.writer.models[0], windows), perplexity(predictor.module, windows)
    facts: dict[str, Any] = {"unit": "", "n": windows.numel() - len(windows), "peer": "dequantised, fp32"}
    return [row(f"{path.stem}, WikiText-2 test", "perplexity", ours, peer_value=exact, **facts)]


if __name__ == "__main__":
    main()
