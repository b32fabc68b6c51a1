"""What every test stands on: fixed seeds, one thread a worker, and the folder of real data where there is one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# Without a GPU Triton's kernels are interpreted; Triton reads this once, when something first imports it.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Products the same on every processor, as MKL promises of this setting, which it reads once: what was recorded, or
# learnt to a threshold, on one machine is compared on another.
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")

import torch

import tiny_runs
from regard.config.processor import LIMIT, WITHOUT_TILES, dies_of_bf16

if dies_of_bf16():  # PyTorch looks at it when it multiplies for the first time
    os.environ[LIMIT] = WITHOUT_TILES


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--shuffle 7`: run what was collected in the random order of that seed, to find tests that need another one."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order, by this seed")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle every test by itself, across files."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which order it is, so that it can be had again."""
    seed = config.getoption("--shuffle")
    return None if seed is None else f"random order: --shuffle {seed}"


def pytest_configure(config: pytest.Config) -> None:
    """Workers of pytest-xdist share the cores: one thread each, or they wait for one another."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeds() -> Iterator[int]:
    """Every test starts from the same random numbers, whatever ran before it, and leaves torch's as they were."""
    seed = 20170612
    before = torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    yield seed
    torch.set_rng_state(before)


@pytest.fixture
def data_root() -> Path:
    """The folder of real data; a test that needs it is skipped where it is absent."""
    root = os.environ.get("REGARD_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("real data absent: set REGARD_DATA")
    return Path(root)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tiny_runs.Command:
    """The command line, in this process."""
    return tiny_runs.Command(capsys, monkeypatch)
