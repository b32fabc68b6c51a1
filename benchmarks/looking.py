"""What looking costs: `look` with one layer asked, beside the plain forward pass, in one run.

    python benchmarks/looking.py [--tokens 512] [--rounds 9]

A GPT-2 of 12 layers and 12 heads reads one text on the CPU. `look` computes the weights of the layer asked for beside
the fused kernel, and finds the likeliest next tokens at every place. Prints a table and ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from record import row, save
from regard.data.text.vocabulary import learn_tokenizer
from regard.inspection.look import look_at, text_case
from regard.models.registry import build
from side_by_side import rounds_in_turns


def measure(tokens: int, rounds: int) -> list[dict[str, Any]]:
    """Seconds of each way, and the ratio round by round, its median and range."""
    torch.manual_seed(0)
    tokenizer = learn_tokenizer([" ".join(f"w{i}" for i in range(2000))], "words", size=1500)
    module = build("gpt", {"size": "gpt2", "n_tokens": 50_257, "n_positions": max(1024, tokens)}).eval()
    ids = torch.randint(5, len(tokenizer), (tokens,)).tolist()
    tokenizer.tokens = lambda ids: [f"t{index}" for index in ids]  # type: ignore[method-assign]
    case = text_case(module, tokenizer, ids, says="next")

    def plain() -> object:
        with torch.inference_mode():
            return module(case.inputs[0])

    ways = {
        "forward": plain,
        "look, one layer": lambda: look_at(case, layers=[6]),
        "look, one layer, with queries": lambda: look_at(case, layers=[6], queries=True),
        "look, all layers": lambda: look_at(case),
    }
    seconds = rounds_in_turns(ways, rounds=rounds, device="cpu")
    rows = []
    for name in list(ways)[1:]:
        ratios = sorted(mine / base for mine, base in zip(seconds[name], seconds["forward"], strict=True))
        facts = {"n": rounds, "spread": [ratios[0], ratios[-1]], "peer": "plain forward pass", "peer_value": 1.0}
        middle = ratios[len(ratios) // 2]
        rows.append(row(name, f"time of the forward pass, gpt2, {tokens} tokens", middle, unit="×", **facts))
    look = look_at(case)
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("html", "npz"):
            path = Path(folder) / f"a.{suffix}"
            look.page(path) if suffix == "html" else look.save(path, half=True)
            size = path.stat().st_size / 1e6
            rows.append(row(f"{suffix} of 144 heads", f"file size, gpt2, {tokens} tokens", size, unit="MB"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--save", action="store_true", help="write results/looking.json")
    given = parser.parse_args()
    rows = measure(given.tokens, given.rounds)
    for found in rows:
        spread = "" if found["spread"] is None else f"  ({found['spread'][0]:.2f} to {found['spread'][1]:.2f})"
        print(f"{found['name']:32} {found['value']:8.2f} {found['unit']}{spread}")
    if given.save:
        print(f"saved to {save('looking', rows)}")
    print(json.dumps({found["name"]: found["value"] for found in rows}))


if __name__ == "__main__":
    main()
