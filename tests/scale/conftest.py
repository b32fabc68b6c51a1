"""The command in a folder with the golden data, with workers that need no process of their own."""

import shutil

import pytest

import inline_engine
from golden_inputs import GOLDEN
from regard.cli import parts


@pytest.fixture
def here(monkeypatch, tmp_path):
    """A folder with a copy of the golden data, where commands are given."""
    shutil.copytree(GOLDEN / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    return tmp_path


@pytest.fixture
def inline(monkeypatch):
    """Workers answer within this process; the engines that were made."""
    made = []

    def engine(options, request, many):
        made.append(inline_engine.working(request, many))
        return made[-1]

    monkeypatch.setattr(parts, "_engine", engine)
    return made
