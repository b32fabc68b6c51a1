"""Text generation against transformers: GPT-2 with random weights, greedy, a prompt of 32 tokens going on for 256.

    python benchmarks/generation.py [--device cuda] [--batches 1 64 256] [--without static] [--save]

In one run: regard, on a GPU with its steps recorded as a CUDA graph, on a CPU in three precisions; and transformers'
GPT-2 with its usual cache, and with its static cache and the steps compiled, which is its best. The end mark is held
back, so that all do the same. On a CPU both go on for 64 tokens, and `--size tiny` tries it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from record import row, save
from regard.decoding import DecodeOptions, decode
from regard.fast.cpu.packed_linear import Precision, pack_linears
from regard.models.gpt import GPT, SIZES, GPTConfig

N_PROMPT = 32
SETTINGS: dict[str, Any] = {  # size, vocabulary, new tokens, batches
    "cuda": ("gpt2", 50_257, 256, (1, 64, 256)),
    "cpu": ("gpt2", 50_257, 64, (1, 8)),
}
PAD, EOS = 0, 1
KINDS: tuple[Precision, ...] = ("fp32", "bf16", "int8")

Way = Callable[[], object]


def regard_gpt(size: str, vocabulary: int) -> GPT:
    return GPT(GPTConfig(**{**SIZES[size], "n_tokens": vocabulary, "dropout": 0.0, "pad_id": PAD}))  # type: ignore[arg-type]


def transformers_gpt(size: str, vocabulary: int) -> Any:
    """transformers' GPT-2 with random weights, from its configuration alone: nothing is fetched."""
    from transformers import AutoModelForCausalLM, GPT2Config

    sizes = SIZES[size]
    config = GPT2Config(
        vocab_size=vocabulary,
        n_embd=int(sizes["d_model"]),
        n_head=int(sizes["n_heads"]),
        n_layer=int(sizes["n_layers"]),
        n_positions=int(sizes["n_positions"]),
        pad_token_id=PAD,
        bos_token_id=EOS,
        eos_token_id=EOS,
    )
    auto: Any = AutoModelForCausalLM  # its from_config carries no annotations
    return auto.from_config(config, attn_implementation="sdpa")


def with_regard(model: GPT, prompts: Tensor, n_new: int) -> Way:
    options = DecodeOptions(strategy="greedy", min_length=n_new - 1, max_length=n_new)

    @torch.inference_mode()
    def call() -> object:
        stepper = model.start(prompts, capacity=n_new)
        return decode(stepper, n_rows=len(prompts), bos_id=prompts[:, -1], eos_id=EOS, pad_id=PAD, options=options)

    return call


def with_transformers(model: Any, prompts: Tensor, n_new: int, *, cache: str | None = None) -> Way:
    more = {} if cache is None else {"cache_implementation": cache}

    @torch.inference_mode()
    def call() -> object:
        found = model.generate(
            input_ids=prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=False,
            min_new_tokens=n_new,
            max_new_tokens=n_new,
            **more,
        )
        if found.shape != (len(prompts), N_PROMPT + n_new):
            raise RuntimeError(f"transformers gave {tuple(found.shape)}, wanted {(len(prompts), N_PROMPT + n_new)}")
        return found

    return call


def measure(options: argparse.Namespace) -> dict[str, float]:
    """New tokens a second of every way at every batch size; the median of the rounds, taken in turns."""
    device = options.device
    size, vocabulary, n_new, batches = SETTINGS[device]
    size = options.size or size
    torch.manual_seed(0)
    ours, theirs = models(size, vocabulary, options)
    found = {}
    for n_rows in options.batches or batches:
        prompts = torch.randint(2, vocabulary, (n_rows, N_PROMPT), device=device)
        ways = {name: with_regard(model, prompts, n_new) for name, model in ours.items()}
        for name, (model, cache) in theirs.items():
            ways[name] = with_transformers(model, prompts, n_new, cache=cache)
        for way, seconds in timed(ways, device, options.rounds, name=f"batch {n_rows}").items():
            found[f"batch {n_rows}: {way}"] = n_rows * n_new / seconds
            print(f"  batch {n_rows}: {way:<24}{found[f'batch {n_rows}: {way}']:12,.0f} tokens/s", flush=True)
    return found


def models(
    size: str, vocabulary: int, options: argparse.Namespace
) -> tuple[dict[str, GPT], dict[str, tuple[Any, str | None]]]:
    """Both sides by name: ours, and transformers' with the cache it uses."""
    device, without = options.device, options.without
    model, peer = regard_gpt(size, vocabulary).eval(), transformers_gpt(size, vocabulary).eval()
    if device == "cuda":
        model, peer = model.to(device, torch.bfloat16), peer.to(device, torch.bfloat16)
        ours = {"regard": model}
    else:
        ours = {f"regard {kind}": pack_linears(deepcopy(model), kind) for kind in KINDS}
    theirs: dict[str, tuple[Any, str | None]] = {"transformers": (peer, None)}
    if "static" not in without:
        static = deepcopy(peer)
        if device == "cpu":  # on a GPU it compiles by itself
            static.forward = torch.compile(static.forward)
        theirs["transformers static, compiled"] = (static, "static")
    if device == "cpu":
        theirs["transformers bf16"] = (deepcopy(peer).bfloat16(), None)
    return ours, theirs


def timed(ways: dict[str, Way], device: str, rounds: int, *, name: str) -> dict[str, float]:
    """The median seconds of each way; the first call of each warms up, records and compiles, and is only told."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way, call in ways.items():
            _wait(device)
            begin = time.perf_counter()
            call()
            _wait(device)
            took = time.perf_counter() - begin
            print(f"    {name}, {'warm-up' if turn == 0 else f'round {turn}'}, {way}: {took:.3f} s", flush=True)
            if turn:
                seconds[way].append(took)
    return {way: sorted(times)[len(times) // 2] for way, times in seconds.items()}


def rows_of(found: dict[str, float], device: str) -> list[dict[str, Any]]:
    """Ours beside each of theirs at the same batch size, as a ratio and as rates."""
    rows = []
    for ours in (name for name in found if ": regard" in name):
        case, way = ours.split(": ")
        for peer in (name for name in found if name.startswith(f"{case}: transformers")):
            label, name = peer.split(": ")[1], f"{way}, {case}, {device}"
            facts: dict[str, Any] = {"peer": label, "seeds": [0], "deterministic": True, "unlike": unlike(way, label)}
            ratio = round(found[ours] / found[peer], 2)
            rows.append(row(f"{name}, {label}", "speed", ratio, unit="×", peer_value=1.0, **facts))
            rates = round(found[ours]), round(found[peer])
            rows.append(row(f"{name}, beside {label}", "tokens/s", rates[0], peer_value=rates[1], **facts))
    return rows


def unlike(way: str, peer: str) -> str | None:
    """Which side computes in what, where they differ; transformers has no int8 of its own on a CPU."""
    precision = {name: next((kind for kind in KINDS if kind in name), "fp32") for name in (way, peer)}
    if precision[way] == precision[peer]:
        return None
    return f"ours in {precision[way]}, the peer in {precision[peer]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--batches", type=int, nargs="+", help="rows at once; by default those of the device")
    parser.add_argument("--without", nargs="+", default=[], choices=["static"], help="leave out what compiles")
    parser.add_argument("--size", choices=list(SIZES), help="another model, to try this out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="write results/generation.json")
    options = parser.parse_args()
    found = measure(options)
    rows = rows_of(found, options.device)
    for r in rows:
        if r["unit"] == "×":
            print(f"  {r['name']:<64}{r['value']:8.2f} × {r['peer']}")
    if options.save and not options.size:
        print(f"saved {save('generation', rows)}")
    print(json.dumps({name: round(rate, 1) for name, rate in found.items()}))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
