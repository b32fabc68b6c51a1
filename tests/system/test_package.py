"""What a newcomer meets first: importing, the command, and its mistakes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("matplotlib", "transformers", "fastapi", "sklearn", "tokenizers", "typer", "rich", "pydantic")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from regard.cli.main import run; run()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def test_import_loads_nothing_heavy():
    loaded = python("import sys, regard; print(' '.join(sys.modules))").stdout.split()
    assert "torch" in loaded
    assert not set(HEAVY) & set(loaded)


def test_import_takes_little_longer_than_torch():
    def seconds(module: str) -> float:
        """Of processor time, which other tests at work on the same cores change little."""
        return float(python(f"import time, {module}; print(time.process_time())").stdout)

    pairs = [(seconds("regard"), seconds("torch")) for _ in range(5)]
    assert min(ours for ours, _ in pairs) <= min(theirs for _, theirs in pairs) + 0.3


def test_every_public_name_is_there_and_an_unknown_one_is_not():
    import regard

    for name in regard.__all__:
        assert getattr(regard, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'atention'"):
        _ = regard.atention


def test_version_is_the_packages():
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert command("--version").stdout == f"regard {declared}\n"


def test_an_unknown_command_is_one_line_and_a_hint():
    result = command("trian")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "error: No such command 'trian'" in result.stderr
    assert "hint:" in result.stderr
    assert "Traceback" not in result.stderr
