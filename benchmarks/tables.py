"""Write the README's tables from results/*.json, between `<!-- table NAME -->` and `<!-- end -->`.

    python benchmarks/tables.py [--check]

    <!-- table series -->                            all rows of results/series.json
    <!-- table series mse: dlinear, ridge -->        those of one metric, whose names begin with one of these

A test runs `render` and holds the README to it, so a figure in the README is always one that was recorded.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_TABLE = re.compile(
    r"(<!-- table (?P<name>[\w-]+)(?: (?P<metric>[\w-]+): (?P<begins>[^>]*?))? -->\n).*?(<!-- end -->)", re.DOTALL
)


def render(text: str, *, results: Path | None = None) -> str:
    """The text with every table replaced by what the result files say now."""
    folder = results or ROOT / "results"
    return _TABLE.sub(lambda found: found[1] + _table(folder / f"{found['name']}.json", found) + found[5], text)


def _table(path: Path, asked: re.Match[str]) -> str:
    rows = json.loads(path.read_text())["rows"]
    if asked["metric"]:
        begins = tuple(begin.strip() for begin in asked["begins"].split(","))
        rows = [r for r in rows if r["metric"] == asked["metric"] and r["name"].startswith(begins)]
    lines = ["| what | figure | against | machine |", "|---|---|---|---|"]
    lines += [f"| {r['name']} | {_figure(r)} | {_peer(r)} | {r['hardware']} |" for r in rows]
    return "\n".join(lines) + "\n"


def _figure(r: dict[str, Any]) -> str:
    spread = f" ± {r['spread']:.2g}" if r["spread"] is not None else ""
    return f"{r['metric']} **{_number(r['value'])}**{spread} {r['unit'] or ''}".strip()


def _peer(r: dict[str, Any]) -> str:
    if r["peer"] is None:
        return "–"
    return r["peer"] if r["unit"] == "×" else f"{r['peer']}: {_number(r['peer_value'])}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def main() -> None:
    path = ROOT / "README.md"
    text = path.read_text()
    fresh = render(text)
    if "--check" in sys.argv:
        sys.exit(0 if fresh == text else "README.md: tables differ from results/; run `make tables`")
    path.write_text(fresh)


if __name__ == "__main__":
    main()
