"""Where a figure comes from: the date, versions, hardware and, in a checkout, the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch


def date() -> str:
    """Now, as ISO 8601 has it: 2026-05-17T09:30:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions() -> dict[str, str]:
    """What this was made with."""
    result = {"python": platform.python_version()}
    for name in ("regard", "torch", "tokenizers", "sacrebleu"):
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = "not installed"
    return result


def hardware(device: torch.device) -> str:
    """The device in words: a GPU's name, or the processor and its cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {os.cpu_count()} cores"


@cache
def commit() -> str | None:
    """The commit of the checkout this runs from, and whether code was changed since; nothing for an installed copy.

    REGARD_COMMIT stands in where the history did not travel along.
    """
    if given := os.environ.get("REGARD_COMMIT"):
        return given
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    here, changed = _git(root, "rev-parse", "--short", "HEAD"), _git(root, "status", "--porcelain", "src", "benchmarks")
    return f"{here}, with changes" if here and changed else here


def _git(root: Path, *words: str) -> str | None:
    try:
        answer = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
