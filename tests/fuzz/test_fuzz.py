"""Spoilt files of every format end in a clear error or a correct result: never in a traceback, a crash, or a flood.

`make fuzz` tries thousands; here are the first of each format, in one process of pytest after another.
"""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("gguf")
pytest.importorskip("soundfile")
pytest.importorskip("pyarrow")

from harness import GOOD, prepare, try_format
from seeds import FORMATS

EACH = 40
SLOW = {"Whisper .pt", "tiktoken"}  # half a second a mutant

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and time are Linux's")


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    prepare()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in FORMATS]
)
def test_spoilt_files_are_met(name: str) -> None:
    findings = list(try_format(name, EACH))
    assert len(findings) == EACH
    assert [one for one in findings if one.verdict not in GOOD] == []
    assert any(one.verdict == "clean" for one in findings)
