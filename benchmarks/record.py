"""Keep what was measured: rows with where, when, how and by which code, in results/<subject>.json.

A row names the command that writes it, and rests on `inputs`: the digest of a table in the same file, which says what
each script, recipe and module was that took part (`inputs.py`). Its `seal` is a digest of everything else in the row
and is written here only, so that a row changed by hand is noticed. Rows from before `SEALED_SINCE` know no inputs.

    verdict           above, below or "no difference seen": what the seeds of both sides allow to say
    deterministic     the figure is the same whatever the seed
    chosen_on         what settings were chosen on, and for whom, where any were
    unlike            what differs between the two sides besides the software, where anything does
"""

from __future__ import annotations

import datetime
import json
import os
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from inputs import BENCHMARKS, Inputs, here, short, trace
from regard.checkpoints.provenance import commit, hardware, versions
from tables import is_quality

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("REGARD_DATA", "data"))  # where data are, unless a benchmark is told otherwise
SEALED_SINCE = "2026-11-18"
KEYS = (
    *("name", "metric", "value", "unit", "n", "spread", "peer", "peer_value", "peer_spread", "verdict"),
    *("deterministic", "chosen_on", "unlike"),
    *("recipe", "command", "seeds", "hardware", "versions", "commit", "date", "inputs", "seal"),
)
if Path(getattr(sys.modules["__main__"], "__file__", None) or "").resolve().parent == BENCHMARKS:
    trace()  # a benchmark is running: what its processes load counts as well
_TABLES: dict[str, Inputs] = {}  # of the rows made here, by their digest


def row(name: str, metric: str, value: float, **more: Any) -> dict[str, Any]:
    """One measured figure with its provenance; what is not given is null.

    `inputs` is for figures that were measured by other processes or earlier: a table, or None where it is not known.
    """
    unknown = set(more) - set(KEYS)
    if unknown:
        raise ValueError(f"a result row has no {sorted(unknown)}; it has {KEYS}")
    facts = {
        "name": name,
        "metric": metric,
        "value": value,
        "command": command(),
        "hardware": hardware(torch.device("cuda" if torch.cuda.is_available() else "cpu")),
        "versions": versions(),
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }
    table = more.pop("inputs") if "inputs" in more else here(more.get("recipe"))
    return {key: (facts | more | {"inputs": _kept(table)}).get(key) for key in KEYS}


def command() -> str:
    """What was typed, or what `measure.py` was told to do; places outside the checkout by their names alone."""
    if listed := os.environ.get("REGARD_COMMAND"):
        return listed
    words = [_placeless(word) for word in sys.argv]
    return " ".join(["python", *(f'"{word}"' if re.search(r"\s", word) else word for word in words)])


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation over seeds, to three figures, where there are several."""
    return float(f"{statistics.stdev(values):.3g}") if len(values) > 1 else None


def beside(ours: Sequence[float], theirs: Sequence[float], *, less: bool = False) -> dict[str, Any]:
    """What a row says of the peer's seeds: their mean and spread, and whether the difference exceeds what seeds change.

    Welch's test at one in twenty; `less` says that smaller is better.
    """
    from scipy.stats import ttest_ind

    facts = {"peer_value": statistics.fmean(theirs), "peer_spread": spread(theirs), "verdict": None}
    if min(len(ours), len(theirs)) > 1:
        apart = statistics.fmean(ours) - statistics.fmean(theirs)
        alike = statistics.pvariance([*ours]) == statistics.pvariance([*theirs]) == 0
        sure = apart != 0 if alike else ttest_ind(ours, theirs, equal_var=False).pvalue < 0.05
        facts["verdict"] = ("above" if (apart > 0) != less else "below") if sure else "no difference seen"
    return facts


def save(subject: str, rows: list[dict[str, Any]], *, root: Path | None = None, drop: tuple[str, ...] = ()) -> Path:
    """Write rows to results/<subject>.json, replacing those of the same name and metric (see `_identity`).

    Rows whose names begin with one of `drop` go: the script that wrote them measures something better now.
    """
    path = (root or ROOT / "results") / f"{subject}.json"
    old = json.loads(path.read_text()) if path.exists() else {"rows": []}
    fresh = {_identity(r) for r in rows}
    kept = [r for r in old["rows"] if _identity(r) not in fresh and not r["name"].startswith(drop)]
    together = kept + [r | {"seal": seal(r)} for r in rows]
    tables = old.get("inputs", {}) | _TABLES
    used = {r["inputs"]: tables[r["inputs"]] for r in together if r["inputs"] is not None}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": together, "inputs": used}, indent=1, ensure_ascii=False) + "\n")
    return path


def seal(r: dict[str, Any]) -> str:
    """A digest of everything that a row says."""
    said = {key: value for key, value in r.items() if key != "seal"}
    return short(json.dumps(said, sort_keys=True, ensure_ascii=False))


def _kept(table: Inputs | None) -> str | None:
    """The digest by which the file will know a table."""
    if table is None:
        return None
    name = short(json.dumps(table, sort_keys=True))
    _TABLES[name] = table
    return name


def _placeless(word: str) -> str:
    """A word of a command as it can be typed elsewhere."""
    path = Path(word)
    if not path.is_absolute():
        return word
    for root, said in ((DATA.absolute(), "$REGARD_DATA"), (ROOT, "")):
        if path.is_relative_to(root):
            return (Path(said) / path.relative_to(root)).as_posix()
    return path.name


def _identity(r: dict[str, Any]) -> tuple[Any, ...]:
    """Of two rows of one identity the newer stands. Speeds of a GPU and of a processor are two; quality is one."""
    return r["name"], r["metric"], not is_quality(r) and "NVIDIA" in (r["hardware"] or "")
