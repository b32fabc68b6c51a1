"""Whether another process of this machine still runs.

Numbers of processes are used again: what tells two of the same number apart is when they began.
"""

from __future__ import annotations

import os
from pathlib import Path


def start_of(pid: int) -> str | None:
    """When a process began, by the kernel's clock; None where there is none, or it has ended; "" if it is not said."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self").exists() or not exists(pid) else ""
    except OSError:
        return ""
    return None if fields[0] in "ZX" else f"{_boot()}:{fields[19]}"


def _boot() -> str:
    """Which start of the machine this is: process numbers and clocks begin anew with each."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def exists(pid: int) -> bool:
    """Whether there is a process of that number, ended or not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
