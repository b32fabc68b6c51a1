"""What was chosen for a side of a benchmark on data that is not reported: benchmarks/chosen.json.

    keep("glue", "peer", {"rte": "train.lr=1e-4", ...})     written by the script that tried them
    chosen("glue", "peer").get("rte", "")                   read by the one that measures

Both sides of a comparison are searched over the same rates and on the same examples.
"""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).with_name("chosen.json")


def chosen(benchmark: str, side: str) -> dict[str, str]:
    """What was chosen for a side; nothing where nothing was."""
    told: dict[str, dict[str, dict[str, str]]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return told.get(benchmark, {}).get(side, {})


def keep(benchmark: str, side: str, settings: dict[str, str]) -> None:
    """Write down what was chosen, beside what was before for other tasks."""
    told = json.loads(FILE.read_text()) if FILE.exists() else {}
    sides = told.setdefault(benchmark, {})
    sides[side] = sides.get(side, {}) | settings
    FILE.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
