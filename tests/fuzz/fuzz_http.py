"""Thousands of requests made of the server's own description: `python tests/fuzz/fuzz_http.py --each 1000`.

Prints a table of routes (tried, answered, refused) and, of each route that fails, the smallest request that does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from http_fuzz import described_server, fuzz, operations


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--each", type=int, default=100, help="right requests a route, and as many wrong ones")
    asked.add_argument("--only", default="", help="routes whose name holds this")
    given = asked.parse_args()
    failed = 0
    sys.stdout.write("| route | tried | answered | refused |\n|---|---:|---:|---:|\n")
    with described_server() as (url, schema):
        for name, operation in operations(schema).items():
            if given.only not in name:
                continue
            counts: Counter[int] = Counter()
            try:
                counts = fuzz(url, operation, each=given.each, fresh=True)
            except (Exception, BaseExceptionGroup) as problem:
                failed += 1
                sys.stderr.write(f"{name}: {problem}\n")
            n = sum(counts.values())
            sys.stdout.write(f"| {name} | {n:,} | {counts[200]:,} | {n - counts[200]:,} |\n")
            sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
