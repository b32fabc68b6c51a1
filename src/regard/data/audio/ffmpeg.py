"""Sound out of files that only ffmpeg reads: m4a, mp4, webm, aac and whatever else it knows.

needs_ffmpeg(path)            whether the name or the first bytes say so
decode_with_ffmpeg(path)      samples (n,) and their rate; the program has to be installed

It is run without a shell on one regular file, may open nothing but files, and is stopped when it takes too long.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.errors import DataError, EnvironmentProblem

SUFFIXES = (".m4a", ".mp4", ".webm", ".aac", ".mkv", ".mov", ".wma", ".amr", ".3gp", ".avi", ".m4b", ".ac3")
_RATE = 48_000  # samples a second that it is asked for
_LIMIT = 600.0  # seconds that it may take
_HINT = "install it (apt install ffmpeg, or brew install ffmpeg), or turn the file into WAV"


def needs_ffmpeg(path: Path, head: bytes) -> bool:
    """Whether a file is of a kind that only ffmpeg reads: by its name, or as MP4, Matroska or AAC by its beginning."""
    known = head[4:8] == b"ftyp" or head[:4] == b"\x1aE\xdf\xa3" or (head[:1] == b"\xff" and head[1:2] in b"\xf1\xf9")
    return path.suffix.lower() in SUFFIXES or (len(head) > 1 and known)


def decode_with_ffmpeg(path: Path, *, limit: float = _LIMIT) -> tuple[npt.NDArray[np.float32], int]:
    """The first sound of a file, its channels averaged."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise EnvironmentProblem(f"{path}: reading it needs the program ffmpeg, which is not installed", hint=_HINT)
    if not path.is_file():
        raise DataError(f"{path}: not a regular file")
    command = [program, "-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-i", f"file:{path.resolve()}"]
    command += ["-map", "0:a:0", "-vn", "-sn", "-dn", "-ac", "1", "-ar", str(_RATE), "-f", "s16le", "pipe:1"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise DataError(f"{path}: ffmpeg was not done after {limit:g} s", hint="turn it into WAV first") from None
    except OSError as problem:
        raise EnvironmentProblem(f"{path}: ffmpeg cannot be run ({problem})", hint=_HINT) from problem
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it does not say why"]
        raise DataError(f"{path}: not a sound file that can be read (ffmpeg: {said[-1][:200]})", hint="is it whole?")
    held = done.stdout[: len(done.stdout) // 2 * 2]
    return np.frombuffer(held, "<i2").astype(np.float32) / np.float32(2**15), _RATE
