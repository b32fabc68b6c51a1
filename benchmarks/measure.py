"""Measure again what no longer stands, command by command, and go on where it stopped.

    python benchmarks/measure.py --device cpu  [--limit 60]     `make results`: start nothing that ends after an hour
    python benchmarks/measure.py --device cuda [--limit 9]      `make results-gpu`: the same on a machine with a GPU
    python benchmarks/measure.py --device cuda --list           what would run, why, and how long it takes

A command is due while rows it writes are missing, stale or of unknown origin (`stale.py`). What ended and what failed
is kept in runs/measure.json; commands that failed wait until the others are done. Rows say the command of the list.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import Listed, listed
from inputs import ROOT
from stale import kept, standing

STATE = ROOT / "runs" / "measure.json"


def reason(entry: Listed) -> str | None:
    """Why a command is due: nothing was ever written by it, or what was no longer stands."""
    rows = [one for one in kept() if one.command == entry.run]
    if not rows:
        return "never measured by this command"
    return next((why for one in rows if (why := standing(one))), None)


def due(entries: Sequence[Listed], state: dict[str, Any]) -> list[tuple[Listed, str]]:
    """What is to be done, in order; what failed comes last, and parts only for an end that is due."""
    found: list[tuple[Listed, str]] = []
    parts: list[Listed] = []
    for entry in entries:
        if entry.part:
            parts.append(entry)
            continue
        if why := reason(entry):
            found += [(part, "for the next") for part in parts if not _done_for(part, entry, state)]
            found.append((entry, why))
        parts = []
    return sorted(found, key=lambda item: state.get(item[0].run, {}).get("status", 0) != 0)


def _done_for(part: Listed, end: Listed, state: dict[str, Any]) -> bool:
    """Whether a part ended well, and after the last time that what needs it did."""
    made, used = state.get(part.run, {}), state.get(end.run, {})
    return made.get("status") == 0 and (used.get("status") != 0 or made.get("ended", "") > used.get("ended", ""))


def measured(entry: Listed) -> dict[str, Any]:
    """Run one command of the list; how it ended, and how long it took."""
    words = [os.path.expandvars(word) for word in shlex.split(entry.run)]
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    began = time.monotonic()
    told = {"REGARD_COMMAND": entry.run, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, env=os.environ | told, check=False)
    ended = datetime.datetime.now().isoformat(timespec="seconds")
    return {"status": done.returncode, "minutes": round((time.monotonic() - began) / 60, 1), "ended": ended}


def read(path: Path = STATE) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return state


def write(state: dict[str, Any], path: Path = STATE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(state, indent=1) + "\n")
    draft.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--limit", type=float, default=float("inf"), help="minutes")
    parser.add_argument("--only", default="", help="commands that contain this")
    parser.add_argument("--list", action="store_true", help="run nothing")
    options = parser.parse_args()
    state, began, failed = read(), time.monotonic(), 0
    waiting = [(entry, why) for entry, why in due(listed(options.device), state) if options.only in entry.run]
    print(f"{len(waiting)} of {len(listed(options.device))} commands are due, "
          f"about {sum(entry.minutes for entry, _ in waiting):g} minutes", flush=True)  # fmt: skip
    for entry, why in waiting:
        left = options.limit - (time.monotonic() - began) / 60
        if options.list or entry.minutes > left:
            print(f"{'' if options.list else 'later: '}{entry.run}\n    {entry.minutes:g} min, {why}")
            continue
        print(f"\n$ {entry.run}\n  about {entry.minutes:g} min: {why}", flush=True)
        state[entry.run] = measured(entry)
        write(state)
        failed += state[entry.run]["status"] != 0
        print(f"  ended with {state[entry.run]['status']} after {state[entry.run]['minutes']} min", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
