"""Models that were really trained, for tests: out of weights/, or fetched there; a test without them is skipped."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MINILM, SMOLLM, STORIES = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct.Q4_1.gguf", "stories260K.bin"


def real_weights(name: str) -> Path:
    """The path of a real model."""
    path, problem = _fetched(name)
    if problem:
        pytest.skip(f"real weights absent: {problem} (make weights)")
    return path


@cache
def _fetched(name: str) -> tuple[Path, str]:
    path = ROOT / "weights" / name
    if path.exists():
        return path, ""
    program = [sys.executable, str(ROOT / "benchmarks" / "weights.py"), name]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    return path, "" if done.returncode == 0 else done.stderr.strip().removeprefix("error: ")
