"""Keep what was measured: rows with where, when, how and by which code, in results/<subject>.json."""

from __future__ import annotations

import datetime
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from regard.checkpoints.provenance import commit, hardware, versions

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("REGARD_DATA", "data"))  # where data are, unless a benchmark is told otherwise
KEYS = (
    *("name", "metric", "value", "unit", "n", "spread", "peer", "peer_value"),
    *("recipe", "command", "seeds", "hardware", "versions", "commit", "date"),
)


def row(name: str, metric: str, value: float, **more: Any) -> dict[str, Any]:
    """One measured figure with its provenance; what is not given is null."""
    unknown = set(more) - set(KEYS)
    if unknown:
        raise ValueError(f"a result row has no {sorted(unknown)}; it has {KEYS}")
    facts = {
        "name": name,
        "metric": metric,
        "value": value,
        "command": "python " + " ".join(sys.argv),
        "hardware": hardware(torch.device("cuda" if torch.cuda.is_available() else "cpu")),
        "versions": versions(),
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }
    return {key: (facts | more).get(key) for key in KEYS}


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation over seeds, to three figures, where there are several."""
    return float(f"{statistics.stdev(values):.3g}") if len(values) > 1 else None


def save(subject: str, rows: list[dict[str, Any]], *, root: Path | None = None) -> Path:
    """Write rows to results/<subject>.json, replacing rows of the same name, metric and hardware."""
    path = (root or ROOT / "results") / f"{subject}.json"
    old = json.loads(path.read_text())["rows"] if path.exists() else []
    fresh = {_identity(r) for r in rows}
    kept = [r for r in old if _identity(r) not in fresh]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": kept + rows}, indent=1, ensure_ascii=False) + "\n")
    return path


def _identity(r: dict[str, Any]) -> tuple[Any, ...]:
    return r["name"], r["metric"], r["hardware"]
