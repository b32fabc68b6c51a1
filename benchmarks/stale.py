"""List the figures that may no longer be true, and the commands that measure them again.

    python benchmarks/stale.py               rows whose script, recipe or code changed, and rows of unknown origin
    python benchmarks/stale.py --seeds       rows of a trained model's quality that rest on one seed
    python benchmarks/stale.py --check       rows that were changed by hand or that no command writes; then it fails

What counts as changed is in `inputs.py`: not comments, docstrings or layout. The commands are those of `commands.toml`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands import Listed, listed
from inputs import RECIPES, ROOT, Inputs, changed, recipe_files
from record import SEALED_SINCE, seal
from tables import rests_on_one_seed

_SHOWN = 3  # files that are named; the rest are counted


@dataclass(frozen=True)
class Kept:
    """A row as it lies in a result file, and the table of what it rests on."""

    subject: str
    row: dict[str, Any]
    inputs: Inputs | None

    @property
    def command(self) -> str:
        return str(self.row["command"])

    @property
    def name(self) -> str:
        return f"results/{self.subject}.json: {self.row['name']!r}, {self.row['metric']}"


def kept(results: Path | None = None) -> list[Kept]:
    """Every row of every result file."""
    found = []
    for path in sorted((results or ROOT / "results").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        tables = told.get("inputs", {})
        found += [Kept(path.stem, r, tables[r["inputs"]] if r.get("inputs") else None) for r in told["rows"]]
    return found


def standing(one: Kept, *, root: Path = ROOT) -> str:
    """Why a row is to be measured again; nothing where it stands."""
    if one.inputs is None:
        return "not known"
    files = changed(one.inputs, root=root)
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(files[:_SHOWN]) + more


def faults(rows: list[Kept], *, root: Path = ROOT) -> Iterator[str]:
    """What no row may be: changed by hand, without a script, by a command that does not exist, of unknown origin."""
    for one in rows:
        if one.row.get("seal") != seal(one.row):
            yield f"{one.name}: was changed by hand; measure it again: {again(one)}"
        if one.inputs is None and one.row["date"] > SEALED_SINCE:
            yield f"{one.name}: does not say what it rests on; record.save writes that"
        if problem := _impossible(one.command, root):
            yield f"{one.name}: {problem}"


def one_seed(rows: list[Kept]) -> list[Kept]:
    """Rows of a trained model's quality that could have come out otherwise with another seed."""
    return [one for one in rows if rests_on_one_seed(one.row)]


def again(one: Kept) -> str:
    """The command that writes a row: the listed one, where the list has it."""
    here = "cuda" if "NVIDIA" in one.row["hardware"] else "cpu"
    for device in (here, "cpu" if here == "cuda" else "cuda"):
        ends = [entry for entry in listed(device) if not entry.part]
        by_name = [entry.run for entry in ends if entry.run == one.command or _writes(entry, one)]
        by_script = [entry.run for entry in ends if entry.run.split()[1] == one.command.split()[1]]
        if by_name or len(by_script) == 1:
            return (by_name or by_script)[0]
    return one.command


def _writes(entry: Listed, one: Kept) -> bool:
    return any(one.subject == subject and one.row["name"].startswith(begin) for subject, begin in entry.writes)


def _impossible(command: str, root: Path) -> str | None:
    """Why nobody can type this; the options have to stand in the script, the recipe has to be shipped."""
    words = shlex.split(command.replace("python -m regard", "regard", 1))
    if words[:2] == ["regard", "train"]:
        return None if recipe_files(words[2]) else f"no recipe {words[2]} is shipped"
    if len(words) < 2 or words[0] != "python" or not words[1].startswith("benchmarks/"):
        return f"{command!r} is no command of a script in benchmarks/"
    script = root / words[1]
    if not script.exists():
        return f"{words[1]} is not there"
    text = script.read_text(encoding="utf-8")
    unknown = [word for word in words[2:] if word.startswith("--") and f'"{word.split("=")[0]}"' not in text]
    return f"{words[1]} has no {' '.join(unknown)}" if unknown else None


def _shown(title: str, rows: list[tuple[Kept, str]]) -> None:
    """Rows by the command that measures them again."""
    groups: dict[str, list[tuple[Kept, str]]] = {}
    for one, why in rows:
        groups.setdefault(again(one), []).append((one, why))
    print(f"{title}: {len(rows)} rows, {len(groups)} commands")
    for command, found in groups.items():
        subjects = ", ".join(sorted({one.subject for one, _ in found}))
        reasons = "; ".join(sorted({why for _, why in found} - {""}))
        print(f"  {command}\n    {len(found)} rows of {subjects}{f': {reasons}' if reasons else ''}")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", action="store_true", help="list rows of one seed instead")
    parser.add_argument("--check", action="store_true", help="fail where a row was changed by hand or has no command")
    options = parser.parse_args()
    rows = kept()
    if options.check:
        found = list(faults(rows))
        sys.exit("\n".join(found) if found else 0)
    if options.seeds:
        _shown("one seed", [(one, "") for one in one_seed(rows)])
        return
    reasons = [(one, standing(one)) for one in rows]
    _shown("changed since", [(one, why) for one, why in reasons if why not in ("", "not known")])
    _shown("not known what they rest on", [(one, "") for one, why in reasons if why == "not known"])
    print(f"{sum(not why for _, why in reasons)} of {len(rows)} rows stand; recipes are in {RECIPES.name}/")


if __name__ == "__main__":
    main()
