"""What a folder of parts was begun with: whoever goes on has to have the same model, settings and input.

The number of workers, the engine and the names of folders may be others: they change no byte.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.config.devices import choose_device
from regard.data.io.hashes import hash_of
from regard.data.io.lines import hash_file, open_bytes
from regard.errors import UsageError
from regard.tasks.predicting.inputs import Inputs
from regard.tasks.predicting.request import Request

FORMAT = 1
_OTHERS = ("run.json", "data.json", "hashes.json", "README.md", "metrics.jsonl")  # of a run, and not of its outputs
_NOT_COMPARED = ("device", "check", "max_memory", "run", "ensemble", "few_shot", "context")  # or by what they hold


class Other(UsageError):  # noqa: N818 - nobody's mistake
    """The folder belongs to another model, other settings or another input."""

    exit_code = 1


def identity(request: Request, many: Inputs, *, words: Sequence[str], lines: str | None, size: int) -> dict[str, Any]:
    """What decides about the bytes of all parts, as JSON."""
    settings = {name: value for name, value in asdict(request).items() if name not in _NOT_COMPARED}
    settings |= {name: hash_file(path) for name, path in _files(request).items()}
    settings |= {"device": choose_device(request.device).type, "part_size": size, "chunk": many.chunk}
    found = {
        "format": FORMAT,
        "run": {"folder": str(request.run), "sha256": _hashes(request.run)},
        "ensemble": [_hashes(run) for run in request.ensemble],
        "settings": settings,
        "input": {"words": list(words)} if lines is None else {"file": lines, "sha256": _hash_lines(lines)},
    }
    return dict(json.loads(json.dumps(found, default=str)))


def check_same(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to go on with anything else than what was begun."""
    reason = _difference(before, now)
    if reason is not None:
        anew = f"rm -r {shlex.quote(str(out))}"
        raise Other(f"{out}: {reason}", hint=f"go on as it was begun, give another --out, or begin anew: {anew}")


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    if before["format"] != now["format"]:
        return "was begun by another version of regard"
    if before["run"]["sha256"] != now["run"]["sha256"]:
        folder = before["run"]["folder"]
        same = folder == now["run"]["folder"]
        return f"was begun with {folder}, which has changed since" if same else f"was begun with another run, {folder}"
    if before["ensemble"] != now["ensemble"]:
        return "was begun with another --ensemble, or without one"
    for name in now["settings"]:
        old, new = before["settings"].get(name), now["settings"][name]
        if old != new:
            return f"was begun with {_named(name, old)}, and now it is {_named(name, new)}"
    known, given = before["input"], now["input"]
    if known.get("sha256") != given.get("sha256") or known.get("words") != given.get("words"):
        if "file" in known and known.get("file") == given.get("file"):
            return f"{known['file']} has changed since it was begun"
        return f"was begun with another input, {known.get('file') or ' '.join(known['words'])}"
    return None


def _named(name: str, value: Any) -> str:
    option = {"as_json": "--json", "part_size": "--part-size", "few_shot": "--few-shot"}.get(name, f"--{name}")
    if name == "options":
        return " ".join(f"decode.{key}={one}" for key, one in value.items()) or "the run's own decoding"
    if isinstance(value, bool) or value is None:
        return option if value else f"no {option}"
    return f"another {option}" if name in ("few_shot", "context") else f"{option} {value}"


def _hash_lines(path: str) -> str:
    with open_bytes(path):  # its reader says best what is wrong with it
        return hash_file(path)


def _files(request: Request) -> dict[str, str]:
    named = {"few_shot": request.few_shot, "context": request.context}
    return {name: path for name, path in named.items() if path is not None}


def _hashes(run: Path) -> dict[str, str]:
    """The hashes of the files that a model is, by their names; a model that is one file has no name."""
    if run.is_file():
        return {"": hash_of(run).sha256}
    files = sorted(path for path in run.iterdir() if path.is_file() and not path.name.startswith("."))
    return {path.name: hash_of(path).sha256 for path in files if path.name not in _OTHERS}
