"""Compile the kernels for this machine, once, and keep the result in the user's cache folder.

    path, reason = built()        the library, or None and why there is none

The name in the cache says what went in: the sources, the compiler and its version, the flags, and what the processor
can do. The file ends with a digest of itself, so one that was cut short or damaged is seen and made again. It is
written under a name of its own and then renamed: processes that compile at once do the work twice and harm nothing.
What a process that was killed has left is cleared by the next one that compiles.

A folder or a file that somebody else could have written is refused (`ownership`), with a line in the log of `regard`:
it is neither read nor loaded nor written over.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from regard.config import processor
from regard.fast.cpu.native.ownership import Untrusted, check_file, make_private

SOURCES = Path(__file__).parent / "kernels"
FLAGS = ("-O3", "-std=c++20", "-ffp-contract=off", "-shared", "-fPIC", "-w")
NATIVE = "native"  # what the processor at hand can do
COMPILERS = ("c++", "g++", "clang++")
SECONDS = 120.0

_MARK = b"regard:"
_DRAFT = "making-"


def built(*, machine: str = NATIVE, folder: Path | None = None) -> tuple[Path | None, str]:
    """The compiled kernels for a kind of machine, from the cache or made now; without them, the reason."""
    compiler = find_compiler()
    if isinstance(compiler, str):
        return None, compiler
    version, failed = _run([*compiler, "--version"])
    if failed:
        return None, f"{shlex.join(compiler)} does not run"
    command = [*compiler, *FLAGS, f"-march={machine}"]
    try:
        folder = make_private(folder or cache_folder())
        path = folder / f"kernels-{_key(command, version)}.so"
        check_file(path)
        return (path, "") if _is_whole(path) else _compile(command, path)
    except Untrusted as problem:
        logging.getLogger("regard").warning("compiled kernels are not used, PyTorch's own are: %s", problem)
        return None, str(problem)
    except OSError as problem:
        return None, f"{folder or cache_folder()} cannot be written: {problem.strerror or problem}"
    except RuntimeError as problem:  # nobody knows where home is
        return None, f"there is no folder for them: {problem}"


def find_compiler() -> list[str] | str:
    """The command of a C++ compiler, `CXX` first; or why there is none."""
    if given := os.environ.get("CXX"):
        command = shlex.split(given)
        return command if command and shutil.which(command[0]) else f"CXX is {given!r}, which is no command"
    for name in COMPILERS:
        if found := shutil.which(name):
            return [found]
    return f"no C++ compiler was found ({', '.join(COMPILERS)}, or CXX)"


def cache_folder() -> Path:
    """Where compiled kernels stay."""
    return processor.cache_folder() / "native"


def forget(path: Path) -> None:
    """Remove a library that turned out not to load, so that it is made again."""
    path.unlink(missing_ok=True)


def _compile(command: list[str], path: Path) -> tuple[Path | None, str]:
    _clear(path.parent)
    handle, name = tempfile.mkstemp(suffix=".so", prefix=_DRAFT, dir=path.parent)
    os.close(handle)
    made = Path(name)
    try:
        _, problem = _run([*command, str(SOURCES / "kernels.cpp"), "-o", name])
        if problem:
            return None, problem
        content = made.read_bytes()
        made.write_bytes(content + _MARK + hashlib.sha256(content).digest())
        made.chmod(0o700)
        made.replace(path)
        return path, ""
    finally:
        made.unlink(missing_ok=True)


def _clear(folder: Path) -> None:
    """Remove drafts so old that whoever began them is gone."""
    for draft in folder.glob(f"{_DRAFT}*"):
        try:
            if time.time() - draft.lstat().st_mtime > 2 * SECONDS:
                draft.unlink()
        except OSError:  # another process was faster
            pass


def _run(command: list[str]) -> tuple[str, str]:
    """What a command said, and what went wrong, or nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return "", f"{command[0]} failed: {problem}"
    if done.returncode == 0:
        return done.stdout, ""
    if done.returncode < 0:
        return "", f"{command[0]} was killed ({signal.Signals(-done.returncode).name})"
    lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
    return "", f"{command[0]} failed: {lines[0].strip() if lines else f'exit code {done.returncode}'}"


def _key(command: list[str], version: str) -> str:
    digest = hashlib.sha256()
    for part in (*command, version, platform.machine(), _processor()):
        digest.update(part.encode() + b"\0")
    for source in sorted(SOURCES.iterdir()):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}".encode() + b"\0" + content)
    return digest.hexdigest()[:20]


def _processor() -> str:
    """What `-march=native` depends on: the processor's name and abilities, where the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def _is_whole(path: Path) -> bool:
    """Whether a file is there and ends with the digest of the rest."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    size = hashlib.sha256().digest_size
    rest, end = content[: -size - len(_MARK)], content[-size - len(_MARK) :]
    return end == _MARK + hashlib.sha256(rest).digest()
