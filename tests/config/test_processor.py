"""A processor that announces what it does not have: said in one line, instead of a process that dies."""

import pytest
import torch

from regard.config import processor
from regard.errors import EnvironmentProblem


@pytest.fixture
def announcing(monkeypatch, tmp_path):
    """A machine that announces tiles for bf16, of which nothing is known yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(processor.LIMIT, raising=False)
    monkeypatch.setattr(processor, "_cpuinfo", lambda: "model name : some\nflags : avx512f amx_bf16 amx_tile\n")
    processor.dies_of_bf16.cache_clear()
    yield
    processor.dies_of_bf16.cache_clear()


def test_one_that_dies_is_refused_with_what_helps(announcing, monkeypatch):
    monkeypatch.setattr(processor, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    with pytest.raises(EnvironmentProblem, match="announces") as refused:
        processor.check_bf16(torch.device("cpu"))
    assert f"export {processor.LIMIT}={processor.WITHOUT_TILES}" in str(refused.value.hint)
    processor.check_bf16(torch.device("meta"))  # somebody else's units
    monkeypatch.setattr(processor, "_PROBE", "pass")
    processor.dies_of_bf16.cache_clear()
    assert processor.dies_of_bf16()  # it is known by now


def test_one_that_works_and_one_that_is_told_not_to_are_not_refused(announcing, monkeypatch):
    monkeypatch.setattr(processor, "_PROBE", "pass")
    processor.check_bf16(torch.device("cpu"))
    monkeypatch.setattr(processor, "_try", lambda: pytest.fail("it was tried before"))
    processor.dies_of_bf16.cache_clear()
    processor.check_bf16(torch.device("cpu"))
    monkeypatch.setenv(processor.LIMIT, "AVX2")
    processor.dies_of_bf16.cache_clear()
    assert not processor.dies_of_bf16()


def test_a_processor_without_such_units_is_never_tried(announcing, monkeypatch):
    monkeypatch.setattr(processor, "_cpuinfo", lambda: "flags : avx2\n")
    monkeypatch.setattr(processor, "_try", lambda: pytest.fail("there is nothing to try"))
    assert not processor.dies_of_bf16()
