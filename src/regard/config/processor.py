"""Whether a processor does what it announces.

Some virtual machines announce matrix units for bf16 (AMX) that they do not have. PyTorch believes them, and the process
dies in the middle of a product. So before the first one such a processor is tried, in a process of its own, once a
machine and version of PyTorch: `check_bf16` raises an error that says what helps.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

import torch

from regard.errors import EnvironmentProblem

LIMIT = "ONEDNN_MAX_CPU_ISA"
WITHOUT_TILES = "AVX512_CORE_BF16"
_PROBE = """
import torch
for n in (1, 5, 16, 40):
    torch.nn.functional.linear(torch.ones(n, 64, dtype=torch.bfloat16), torch.ones(96, 64, dtype=torch.bfloat16))
"""


def check_bf16(device: torch.device) -> None:
    """Refuse bf16 on a processor that would die of it."""
    if device.type == "cpu" and dies_of_bf16():
        raise EnvironmentProblem(
            "this processor announces matrix units for bf16 (AMX), and PyTorch dies when it uses them",
            hint=f"export {LIMIT}={WITHOUT_TILES} and try again, or use fp32",
        )


@cache
def dies_of_bf16() -> bool:
    """Whether PyTorch's products in bf16 end the process here; tried once, and remembered beside other caches."""
    known = _cpuinfo()
    if os.environ.get(LIMIT) or " amx_bf16" not in known:
        return False
    models = sorted({line for line in known.splitlines() if line.startswith(("model", "stepping", "microcode"))})
    name = blake2b(repr((models, torch.__version__)).encode(), digest_size=8).hexdigest()
    place = cache_folder() / f"bf16-{name}"
    with suppress(OSError):
        return place.read_text() == "dies"
    dies = _try()
    with suppress(OSError):  # a home that cannot be written to: tried again next time
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("dies" if dies else "works")
    return dies


def cache_folder() -> Path:
    """Where what was found out about this machine stays: under `XDG_CACHE_HOME`, if it is a whole path, or ~/.cache."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "regard"


def _try() -> bool:
    try:
        tried = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == -signal.SIGILL


def _cpuinfo() -> str:
    with suppress(OSError):
        return Path("/proc/cpuinfo").read_text()
    return ""
