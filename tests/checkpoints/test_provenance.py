"""Where a run comes from: what git says, as text, and nothing where it does not know."""

import shutil
from pathlib import Path

import pytest

from regard.checkpoints.provenance import _git


@pytest.mark.skipif(shutil.which("git") is None, reason="git absent")
def test_what_git_says(tmp_path: Path) -> None:
    assert _git(tmp_path, "init", "--quiet") == ""
    (tmp_path / "new.txt").write_text("x")
    assert _git(tmp_path, "status", "--porcelain") == "?? new.txt"
    assert _git(tmp_path, "rev-parse", "--short", "HEAD") is None, "there is no commit yet"
    assert _git(tmp_path / "absent", "status") is None
