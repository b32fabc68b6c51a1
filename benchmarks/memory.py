"""Host memory of training on a corpus far larger than memory should hold: 2 million pairs by default.

    python benchmarks/memory.py [--pairs 2000000] [--steps 20] [--save]

Writes a made-up table, trains a small Transformer on it through the real command, and reports the peak resident memory
of that process, data checks, tokenizer, ids on disk, batch plan and all. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import row, save

WORDS = 20_000


def write_pairs(path: Path, n: int) -> int:
    """A table of n pairs of 5 to 20 words, some frequent and some rare; its size in bytes."""
    draw = random.Random(0)
    words = [f"{draw.choice('bdfgklmnprst')}{draw.choice('aeiou')}{i:x}" for i in range(WORDS)]

    def sentence() -> str:
        return " ".join(words[int(WORDS * draw.random() ** 3)] for _ in range(draw.randint(5, 20)))

    with path.open("w", encoding="utf-8") as file:
        for _ in range(n):
            file.write(f"{sentence()}\t{sentence()}\n")
    return path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save", action="store_true", help="write results/memory.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train, valid = Path(folder) / "train.tsv", Path(folder) / "valid.tsv"
        size = write_pairs(train, options.pairs)
        write_pairs(valid, 50)
        command = [
            *(sys.executable, "-m", "regard", "train", "translation", "--train", str(train), "--valid", str(valid)),
            *("--out", str(Path(folder) / "run"), "model.size=tiny", f"train.steps={options.steps}"),
            *("train.eval_every=1000000", "train.log_every=5", "train.device=cpu", "decode.max_length=8"),
        ]
        begin = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"  {options.pairs:,} pairs, {size / 2**20:,.0f} MiB of text: peak {peak:.2f} GiB, {seconds:.0f} s")
    if options.save:
        name = f"training on {options.pairs:,} pairs ({size / 2**20:,.0f} MiB of text)"
        print(f"saved {save('memory', [row(name, 'peak host memory', round(peak, 2), unit='GiB', seeds=[0])])}")
    print(json.dumps({"pairs": options.pairs, "peak_gib": round(peak, 3), "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main()
