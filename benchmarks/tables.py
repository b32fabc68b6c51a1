"""Write the README's tables from results/*.json, between `<!-- table NAME -->` and `<!-- end -->`.

    python benchmarks/tables.py [--check]

    <!-- table series -->                            all rows of results/series.json
    <!-- table series mse: dlinear, ridge -->        those of one metric, whose names begin with one of these
    <!-- grid captions: attend, mean -->             a line for each name that begins so, a column for each metric

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
    r"(<!-- (?P<kind>table|grid) (?P<name>[\w-]+)(?P<metric> [\w-]+)?(?:: (?P<begins>[^>]*?))? -->\n).*?<!-- end -->",
    re.DOTALL,
)


def render(text: str, *, results: Path | None = None) -> str:
    """The text with every table replaced by what the result files say now."""
    folder = results or ROOT / "results"

    def fresh(asked: re.Match[str]) -> str:
        rows = _rows(folder / f"{asked['name']}.json", asked)
        return asked[1] + "\n".join(_grid(rows) if asked["kind"] == "grid" else _list(rows)) + "\n<!-- end -->"

    return _TABLE.sub(fresh, text)


def _rows(path: Path, asked: re.Match[str]) -> list[dict[str, Any]]:
    rows = json.loads(path.read_text())["rows"]
    if asked["metric"]:
        rows = [r for r in rows if r["metric"] == asked["metric"].strip()]
    if asked["begins"]:
        begins = tuple(begin.strip() for begin in asked["begins"].split(","))
        rows = [r for r in rows if r["name"].startswith(begins)]
    return rows


def _list(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"| {r['name']} | {_figure(r)} | {_peer(r)} | {r['hardware']} |" for r in rows]
    return ["| what | figure | against | machine |", "|---|---|---|---|", *lines]


def _grid(rows: list[dict[str, Any]]) -> list[str]:
    """Names down, metrics across; a peer that rows were measured against has a line of its own."""
    metrics = list(dict.fromkeys(r["metric"] for r in rows))
    cells: dict[str, dict[str, str]] = {}
    for r in rows:
        cells.setdefault(r["name"], {})[r["metric"]] = f"{_number(r['value'])}{_spread(r)}"
    for r in rows:
        if r["peer"] is not None:
            cells.setdefault(r["peer"], {})[r["metric"]] = _number(r["peer_value"])
    lines = [f"| {' | '.join([name, *(found.get(metric, '–') for metric in metrics)])} |"
             for name, found in cells.items()]  # fmt: skip
    return [f"| {' | '.join(['', *metrics])} |", "|---" * (1 + len(metrics)) + "|", *lines]


def _spread(r: dict[str, Any]) -> str:
    return f" ± {r['spread']:.2g}" if r["spread"] is not None else ""


def _figure(r: dict[str, Any]) -> str:
    return f"{r['metric']} **{_number(r['value'])}**{_spread(r)} {r['unit'] or ''}".strip()


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
