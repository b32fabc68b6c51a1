"""Recordings with what is said in them: tables, and folders of pairs of files.

    train.csv, .tsv, .jsonl, .parquet     columns `audio` (a path, from the table's folder on) and `text`
    a folder                              x.wav (or FLAC, OGG, MP3) beside x.txt, at any depth

`read_spoken` gives one `Spoken` a recording, with the place it is listed at for messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.data.audio.files import SUFFIXES
from regard.data.io.lines import empty_file, listed
from regard.data.io.tables import read_texts, table_format
from regard.errors import DataError


@dataclass(frozen=True)
class Spoken:
    """A recording, what is said in it, and where both are listed: "train.csv:7", or the file of the text."""

    path: Path
    text: str
    where: str


def read_spoken(path: Path | str, *, audio: str = "audio", text: str = "text") -> list[Spoken]:
    """What a table lists or a folder holds; files are not opened yet."""
    path = Path(path)
    found = _folder(path) if path.is_dir() else _table(path, audio, text)
    if not found:
        raise empty_file(path)
    return found


def _table(path: Path, audio: str, text: str) -> list[Spoken]:
    return [
        Spoken(path.parent / name if name else Path(), spoken.strip(), f"{path}:{line}")
        for (name, spoken), line in read_texts(path, (audio, text), format=table_format(path))
    ]


def _folder(path: Path) -> list[Spoken]:
    recordings = sorted(entry for entry in path.rglob("*") if entry.suffix.lower() in SUFFIXES and entry.is_file())
    if not recordings:
        raise DataError(
            f"{path}: holds no recordings", hint=f"files that end in {', '.join(SUFFIXES[:4])} were expected"
        )
    lonely = [recording for recording in recordings if not recording.with_suffix(".txt").exists()]
    if lonely:
        names = [f"{recording}: there is no {recording.stem}.txt beside it" for recording in lonely]
        raise DataError(listed(names), hint="each recording needs a text of the same name, or name a table instead")
    return [_pair(recording) for recording in recordings]


def _pair(recording: Path) -> Spoken:
    written = recording.with_suffix(".txt")
    try:
        text = written.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{written}: cannot be read as UTF-8 text ({problem})") from problem
    return Spoken(recording, " ".join(text.split()), str(written))
