"""The container's parts, as far as they can be tried without building it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_what_is_copied_is_there_and_is_sent():
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M) for name in line.split()]
    assert set(copied) == sent
    assert all((ROOT / name).exists() for name in copied)


def test_torch_is_pinned_and_the_extras_are_known():
    assert re.search(r"^torch==\d", (ROOT / "constraints.txt").read_text(), re.M)
    extras = re.search(r'"\.\[([\w,]+)\]"', DOCKERFILE)[1].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "serve" in extras
    assert set(extras) <= set(known)


def test_it_runs_as_nobody_in_particular():
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.M) == ["10001"]


def test_the_health_check_asks_for_liveness():
    pytest.importorskip("uvicorn")
    from http_server import serving

    script = re.search(r'CMD \["python", "-c", "([^"]*)"\]', DOCKERFILE)[1]
    with serving("translation") as (url, _):
        asked = script.replace("http://127.0.0.1:8000", url)
        assert subprocess.run([sys.executable, "-c", asked], timeout=30).returncode == 0
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, timeout=30).returncode != 0
