"""How far training in parts goes, on paper: memory and time by size and number of GPUs, computed from a few measures.

    python benchmarks/scale_plan.py

Nothing here is measured. What a token costs follows from the account of operations (six a weight, and attention over
the context), what a GPU does of it from the share of its arithmetic that GPT-2 medium reached (results/scale.json),
what a process holds from the way weights are shared out (docs/scale.md). Links are given by their speed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

PEAK = 989e12  # bf16 operations a second of an H100 or H200
LINKS = {8: 400e9, 64: 50e9}  # bytes a second a GPU: within a machine, between machines
ROW = "train GPT-2 medium, 355M", "share of the GPU's arithmetic"


@dataclass(frozen=True)
class Size:
    """A decoder, with what it reads at once."""

    name: str
    d_model: int
    n_layers: int
    context: int
    vocabulary: int = 50_304

    @property
    def n_parameters(self) -> float:
        """Matrices of blocks, and one table of tokens."""
        return 12 * self.n_layers * self.d_model**2 + self.vocabulary * self.d_model

    @property
    def a_token(self) -> float:
        """Operations of a token, forward and backward; attention sees half of its context on the average."""
        return 6 * self.n_parameters + 6 * self.n_layers * self.context * self.d_model

    def state(self, n: int) -> float:
        """Bytes that each of n processes holds: weights, gradients and two averages in single precision."""
        return 16 * self.n_parameters / n

    @property
    def gathered(self) -> float:
        """Bytes of the largest parts that are whole for a moment: two blocks in bf16, the table in single precision."""
        return 2 * 2 * 12 * self.d_model**2 + 4 * self.vocabulary * self.d_model

    def activations(self, rows: int) -> float:
        """Bytes of a batch where blocks are computed again: the inputs of all of them, and the inside of one."""
        return 2 * rows * self.context * self.d_model * (self.n_layers + 34)


SIZES = (
    Size("124M", 768, 12, 1024),
    Size("355M", 1024, 24, 1024),
    Size("1.5B", 1600, 48, 1024),
    Size("7B", 4096, 32, 4096),
)


def share_of_peak() -> float:
    """What GPT-2 medium reached on one GPU."""
    rows = json.loads((Path(__file__).parents[1] / "results" / "scale.json").read_text())["rows"]
    return next(r["value"] for r in rows if (r["name"], r["metric"]) == ROW) / 100


def main() -> None:
    share = share_of_peak()
    print("| size | GPUs | held a GPU | gathered, activations (8 rows) | tokens/s | links carry, of a step |")
    print("|---|---|---|---|---|---|")
    for size in SIZES:
        for n in (1, 8, 64):
            rate = share * PEAK / size.a_token * n
            step = 8 * size.context * n / rate
            carried = f"{8 * size.n_parameters / LINKS[n] / step:.0%}" if n in LINKS else "–"
            held, moment = size.state(n) / 2**30, (size.gathered + size.activations(8)) / 2**30
            print(f"| {size.name} | {n} | {held:.1f} GiB | {moment:.1f} GiB | {rate:,.0f} | {carried} |")


if __name__ == "__main__":
    main()
