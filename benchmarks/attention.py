"""The attention core against PyTorch: the bare kernel call, `nn.MultiheadAttention`, and the price of watching.

    python benchmarks/attention.py [--device cuda] [--lengths 1024 4096] [--save]

Forward and backward, causal, every way in one run and in turns. A table for people, then one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from record import row, save
from regard.attention import Causal, MultiHeadAttention, attend, attend_explicitly
from regard.layers import EncoderBlock, EncoderStack, FeedForward
from side_by_side import rounds_in_turns, time_in_turns


def with_backward(call: Callable[[], Tensor], leaves: list[Tensor], upstream: Tensor) -> Callable[[], None]:
    def forward_and_backward() -> None:
        for leaf in leaves:
            leaf.grad = None
        call().backward(upstream)

    return forward_and_backward


def measure_core(sizes: tuple[int, int, int], length: int, *, device: str, dtype: torch.dtype, rounds: int):
    """`attend` against the bare call on the same tensors."""
    B, H, E = sizes
    q, k, v = (torch.randn(B, H, length, E, device=device, dtype=dtype, requires_grad=True) for _ in range(3))
    upstream = torch.randn_like(q)
    ways: dict[str, Callable[[], Tensor]] = {
        "regard.attend": lambda: attend(q, k, v, mask=Causal()),
        "bare kernel call": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "bare kernel call again": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    }
    if length <= 2048:
        ways["explicit twin"] = lambda: attend_explicitly(q, k, v, mask=Causal())
    timed = {name: with_backward(call, [q, k, v], upstream) for name, call in ways.items()}
    return time_in_turns(timed, rounds=rounds, device=device)


def measure_heads(sizes: tuple[int, int, int], length: int, *, device: str, dtype: torch.dtype, rounds: int):
    """Multi-head self-attention against PyTorch's module."""
    B, H, E = sizes
    x = torch.randn(B, length, H * E, device=device, dtype=dtype, requires_grad=True)
    ours = MultiHeadAttention(H * E, H).to(device, dtype)
    theirs = nn.MultiheadAttention(H * E, H, batch_first=True, device=device, dtype=dtype)
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=device, dtype=dtype)
    ways: dict[str, Callable[[], Tensor]] = {
        "regard MultiHeadAttention": lambda: ours(x, mask=Causal()),
        "nn.MultiheadAttention": lambda: theirs(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0],
    }
    leaves = [x, *ours.parameters(), *theirs.parameters()]
    timed = {name: with_backward(call, leaves, torch.randn_like(x)) for name, call in ways.items()}
    return time_in_turns(timed, rounds=rounds, device=device)


def measure_watching(sizes: tuple[int, int, int], length: int, *, device: str, dtype: torch.dtype, rounds: int):
    """A 12-layer stack, plain and with one layer watched, beside that layer's explicit attention alone."""
    B, H, E = sizes
    D = H * E
    blocks = [EncoderBlock(D, attention=MultiHeadAttention(D, H), feedforward=FeedForward(D, D)) for _ in range(12)]
    stack = EncoderStack(blocks).to(device, dtype).eval()
    x = torch.randn(B, length, D, device=device, dtype=dtype)
    q, k, v = (torch.randn(B, H, length, E, device=device, dtype=dtype) for _ in range(3))

    def watched() -> Tensor:
        with regard.watch(stack, layers=[5]):
            return stack(x, mask=Causal())

    with torch.no_grad():
        assert torch.equal(watched(), stack(x, mask=Causal())), "watching changed the output"
        ways = {
            "12 layers": lambda: stack(x, mask=Causal()),
            "12 layers, one watched": watched,
            "one layer's explicit attention": lambda: attend_explicitly(q, k, v, mask=Causal()),
        }
        seconds = rounds_in_turns(ways, rounds=2 * rounds, device=device)
    # The difference of two long times: taken round by round, so that the machine's drift cancels.
    pairs = zip(seconds["12 layers, one watched"], seconds["12 layers"], strict=True)
    extra = statistics.median(watched - plain for watched, plain in pairs)
    return {name: statistics.median(values) for name, values in seconds.items()} | {"watching one of 12": extra}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--lengths", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--save", action="store_true", help="write results/attention.json")
    options = parser.parse_args()
    device = options.device
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    sizes = (8, 16, 64) if device == "cuda" else (2, 8, 64)
    lengths = options.lengths or ([128, 1024, 4096] if device == "cuda" else [128, 512, 1024])
    rows, summary = [], {}
    print(f"B, H, E = {sizes}, {dtype}, {device}; milliseconds a call, forward and backward, causal")
    for length in lengths:
        found = {}
        for measure in (measure_core, measure_heads, *((measure_watching,) if length <= 1024 else ())):
            torch.manual_seed(0)
            found |= measure(sizes, length, device=device, dtype=dtype, rounds=options.rounds)
        for name, seconds in found.items():
            print(f"  T={length:<6}{name:<34}{seconds * 1e3:10.3f}")
        summary[length] = ratios = compare(found)
        for name, (value, peer) in ratios.items():
            print(f"  T={length:<6}{name:<60}{value:10.3f} × {peer}")
            rows.append(row(f"{name}, T={length}", "time ratio", round(value, 4), unit="×", peer=peer, peer_value=1.0,
                            n=options.rounds, seeds=[0]))  # fmt: skip
    if options.save:
        print(f"saved {save('attention', rows)}")
    print(json.dumps({str(length): {n: round(v, 4) for n, (v, _) in r.items()} for length, r in summary.items()}))


def compare(seconds: dict[str, float]) -> dict[str, tuple[float, str]]:
    """Our times over the peers' from the same run."""
    bare = (seconds["bare kernel call"] + seconds["bare kernel call again"]) / 2
    found = {
        "attend": (seconds["regard.attend"] / bare, "bare kernel call"),
        "noise": (seconds["bare kernel call"] / seconds["bare kernel call again"], "the same call again"),
        "multi-head": (
            seconds["regard MultiHeadAttention"] / seconds["nn.MultiheadAttention"],
            "nn.MultiheadAttention",
        ),
    }
    if "12 layers" in seconds:
        explicit = seconds["one layer's explicit attention"]
        found["watching one layer of twelve"] = (seconds["watching one of 12"] / explicit, "its explicit attention")
    return found


if __name__ == "__main__":
    main()
