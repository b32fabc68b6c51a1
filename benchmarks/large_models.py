"""Models that fill a GPU: GPT-2 medium and a model of 1.5 billion parameters, and what holding weights in parts costs.

    python benchmarks/large_models.py [medium xl parts] [--nanogpt FILE] [--steps 12] [--save]

Training goes through the real loop (`language.py`) on made-up text of 1,024 tokens a row: tokens a second, the share of
the GPU's arithmetic that the model's own operations are, and memory. Of several batches the quickest that fits is
taken, for nanoGPT's own model.py as well, compiled. `parts`: GPT-2 medium by one process with `train.shard=full`,
beside the same loop without, compiled and captured as usual, and as it comes. On a CPU the models are toys.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from language import say, train_peer, train_regard
from language_peers import Shape
from record import row, save

SHAPES = {
    "cuda": {"medium": Shape(1024, 16, 24, 1024, 50_304, 0), "xl": Shape(1600, 25, 48, 1024, 50_304, 0)},
    "cpu": {"medium": Shape(64, 2, 2, 64, 512, 0), "xl": Shape(96, 2, 3, 64, 512, 0)},
}
TITLES = {"medium": "GPT-2 medium, 355M", "xl": "GPT-2 XL, 1.5B"}
ROWS = {"medium": (64, 32), "xl": (24, 16)}  # texts a step, tried until one fits and a smaller one is no quicker
PEER_ROWS = {"medium": (64, 32), "xl": (24, 16, 8)}
BARE = {"attention_bias": False, "feedforward_bias": False, "norm_bias": False}  # as nanoGPT's own model
PEAK = 989e12  # bf16 operations a second that an H200 is sold with
EAGER = {"compile": "off", "cuda_graphs": "off"}


def n_parameters(shape: Shape) -> int:
    """Those that are multiplied: a token costs six operations each, three passes of two."""
    return 12 * shape.n_layers * shape.d_model**2 + shape.vocabulary * shape.d_model


def share_of_peak(shape: Shape, rate: float) -> float:
    """Of the GPU's arithmetic: what the model needs, attention over its context included."""
    a_token = 6 * n_parameters(shape) + 6 * shape.n_layers * shape.context * shape.d_model
    return rate * a_token / PEAK


def quickest(shape: Shape, rows: Sequence[int], train: Callable[[Shape], dict[str, float]]) -> dict[str, float] | None:
    """The figures of the batch that does best, with its size; what does not fit is passed over."""
    best: dict[str, float] | None = None
    for n in rows:
        try:
            found = train(replace(shape, rows=n)) | {"rows": float(n)}
        except torch.OutOfMemoryError:
            say(f"    {n} texts a step do not fit")
            found = None
        torch.cuda.empty_cache()
        torch._dynamo.reset()
        if found is not None:
            say(f"    {n} texts a step: " + "  ".join(f"{key} {value:,.1f}" for key, value in found.items()))
        if found is not None and best is not None and found["tokens/s"] <= best["tokens/s"]:
            break
        best = found or best
    return best


def size_rows(size: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One size by us, and by nanoGPT's own model where it is at hand."""
    shape, device = SHAPES[options.device][size], options.device
    say(f"{TITLES[size]}: regard")
    ours = quickest(
        shape, options.rows or ROWS[size], lambda s: train_regard(s, device=device, steps=options.steps, **BARE)
    )
    assert ours is not None
    theirs = None
    if options.nanogpt is not None and size not in options.alone:
        say(f"{TITLES[size]}: nanoGPT")
        theirs = quickest(
            shape, PEER_ROWS[size], lambda s: train_peer(s, device=device, steps=options.steps, file=options.nanogpt)
        )
    facts = {"peer": theirs and "nanoGPT's model.py, compiled", "seeds": [0], "n": options.steps}
    facts["unlike"] = theirs and f"texts a step: ours {ours['rows']:.0f}, the peer {theirs['rows']:.0f}"
    rows = [
        row(f"train {TITLES[size]}", shown, round(ours[metric], digits), unit=unit,
            peer_value=theirs and round(theirs[metric], digits), **facts)
        for metric, shown, digits, unit in (("tokens/s", "tokens/s", 0, None), ("GiB", "GPU memory", 1, "GiB"))
    ]  # fmt: skip
    alone = {"seeds": [0], "n": options.steps}
    rows.append(row(f"train {TITLES[size]}", "texts a step", ours["rows"], **alone))
    used = round(100 * share_of_peak(shape, ours["tokens/s"]), 1)
    rows.append(row(f"train {TITLES[size]}", "share of the GPU's arithmetic", used, unit="%", **alone))
    return rows


def parts_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What it costs one process to hold its weights as parts that are gathered block by block."""
    shape = replace(SHAPES[options.device]["medium"], rows=ROWS["medium"][-1] if options.device == "cuda" else 4)
    ways = {"as usual": {}, "neither compiled nor captured": EAGER, "train.shard=full": EAGER | {"shard": "full"}}
    found = {}
    for name, train in ways.items():
        found[name] = train_regard(shape, device=options.device, steps=options.steps, train=train, **BARE)
        say(f"  {name:<32}" + "  ".join(f"{key} {value:,.1f}" for key, value in found[name].items()))
        torch._dynamo.reset()
    facts = {"seeds": [0], "n": options.steps}
    rows = []
    for name in ways:
        title = f"train GPT-2 medium, one process, {name}"
        rows.append(row(title, "tokens/s", round(found[name]["tokens/s"]), **facts))
        rows.append(row(title, "GPU memory", round(found[name]["GiB"], 1), unit="GiB", **facts))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["medium", "xl", "parts"], help="medium, xl, parts")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rows", type=int, nargs="+", help="texts a step to try, instead of the usual ones")
    parser.add_argument("--alone", nargs="+", default=[], help="sizes without the peer")
    parser.add_argument("--nanogpt", type=Path, default=os.environ.get("REGARD_NANOGPT"), help="nanoGPT's model.py")
    parser.add_argument("--save", action="store_true", help="write results/scale.json")
    options = parser.parse_args()
    options.nanogpt = options.nanogpt and Path(options.nanogpt)
    rows: list[dict[str, Any]] = []
    for what in options.what:
        rows += parts_rows(options) if what == "parts" else size_rows(what, options)
        if options.save:
            save("scale", rows)
    print(json.dumps({f"{r['name']}: {r['metric']}": r["value"] for r in rows}))


if __name__ == "__main__":
    main()
