"""`--shuffle SEED` runs the same tests in another order, across files, and the same seed gives the same order."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = ["tests/config/test_toml.py", "tests/decoding/test_decoding_ranking.py"]


def collected(*options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *options, *FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_the_order_is_random_and_can_be_had_again():
    usual, first, second = collected(), collected("--shuffle", "1"), collected("--shuffle", "2")
    assert sorted(first) == sorted(second) == sorted(usual)
    assert len({tuple(order) for order in (usual, first, second)}) == 3
    assert collected("--shuffle", "1") == first
    files = [name.partition("::")[0] for name in first]
    assert files != sorted(files), "tests of several files stand among each other"
    assert files != sorted(files, reverse=True)
