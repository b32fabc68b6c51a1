"""Spoil files of every format in many ways and open them: `python tests/fuzz/run.py --each 1000`, or `make fuzz`.

Prints a table of formats (tried, clean errors, correct results) and every mutant that ended otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from harness import GOOD, Finding, prepare, try_format
from seeds import FORMATS


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--each", type=int, default=40, help="mutants of each format")
    asked.add_argument("--processes", type=int, default=2)
    asked.add_argument("--only", default="", help="formats whose name holds this")
    asked.add_argument("--all", action="store_true", help="say what became of every mutant")
    given = asked.parse_args()
    names = [name for name in FORMATS if given.only in name]
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn"), initializer=prepare) as pool:
        results = {}
        for name, findings in zip(names, pool.map(_tried, names, [given.each] * len(names)), strict=True):
            results[name] = findings
            for one in findings:
                if given.all or one.verdict not in GOOD:
                    sys.stderr.write(f"{one.format} | {one.mutant} | {one.verdict} | {one.seconds} s | {one.said}\n")
            sys.stderr.flush()
    for line in table(results):
        sys.stdout.write(line + "\n")
    return int(any(one.verdict not in GOOD for findings in results.values() for one in findings))


def _tried(name: str, n: int) -> list[Finding]:
    return list(try_format(name, n))


def table(results: dict[str, list[Finding]]) -> list[str]:
    """The table, as docs/reliability.md has it."""
    lines = ["| format | tried | clean error | correct | other |", "|---|---:|---:|---:|---:|"]
    rows = list(results.items())
    rows.append(("**all**", [one for findings in results.values() for one in findings]))
    for name, findings in rows:
        counts = [sum(one.verdict == verdict for one in findings) for verdict in GOOD]
        lines.append(
            f"| {name} | {len(findings):,} | {counts[0]:,} | {counts[1]:,} | {len(findings) - sum(counts):,} |"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
