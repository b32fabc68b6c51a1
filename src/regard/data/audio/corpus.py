"""Recordings on disk, decoded once: all samples end to end in one memory-mapped file of whole numbers.

    corpus = AudioCorpus.build(read_spoken("train.csv"), folder, rate=16_000, bad="refuse", say=print)
    corpus.samples(3), corpus.texts[3], corpus.where[3]

Decoding checks everything: a file that is missing, empty, no sound, too long or too short, and a recording without a
text, are all named together with their rows, and refused or, if asked, dropped.

Recordings with what is said in them: tables, and folders of pairs of files.

    train.csv, .tsv, .jsonl, .parquet     columns `audio` (a path, from the table's folder on) and `text`
    a folder                              x.wav (or FLAC, OGG, MP3) beside x.txt, at any depth

`read_spoken` gives one `Spoken` a recording, with the place it is listed at for messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from regard.config.bounded import read_json, read_text, regular_size
from regard.config.data import BadRows
from regard.data.audio.files import SUFFIXES, Samples, read_audio
from regard.data.audio.resampling import resample
from regard.data.io.atomic import whole_or_absent
from regard.data.io.hashes import NAME as HASHES
from regard.data.io.hashes import Damaged, check_hashes, record_hashes
from regard.data.io.lines import empty_file, listed
from regard.data.io.tables import find_columns, read_texts, table_format
from regard.errors import DataError, EnvironmentProblem

_FULL = 32767
_FILES = ("index.json", "samples.i16")


@dataclass(frozen=True)
class Spoken:
    """A recording, what is said in it, and where both are listed: "train.csv:7", or the file of the text."""

    path: Path
    text: str
    where: str


def read_spoken(path: Path | str, *, audio: str = "audio", text: str = "text") -> list[Spoken]:
    """What a table lists or a folder holds; files are not opened yet."""
    path = Path(path)
    rows = _folder(path) if path.is_dir() else _table(path, audio, text)
    if not rows:
        raise empty_file(path)
    return rows


def _table(path: Path, audio: str, text: str) -> list[Spoken]:
    format = table_format(path)
    columns = find_columns(path, {"audio": audio, "text": text}, format=format)
    return [
        Spoken(path.parent / name if name else Path(), spoken.strip(), f"{path}:{line}")
        for (name, spoken), line in read_texts(path, columns, format=format)
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
    text_file = recording.with_suffix(".txt")
    try:
        text = read_text(text_file, encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        raise DataError(f"{text_file}: cannot be read as UTF-8 text ({problem})") from problem
    return Spoken(recording, " ".join(text.split()), str(text_file))


class Utterances(Protocol):
    """Recordings with their texts, all at one rate."""

    @property
    def texts(self) -> Sequence[str]:
        """What is said in each."""

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many samples each has."""

    @property
    def rate(self) -> int:
        """Samples a second."""

    def __len__(self) -> int: ...

    def samples(self, index: int) -> Samples:
        """The samples of one recording."""

    def where(self, index: int) -> str:
        """What messages call it."""

    def fingerprint(self) -> str:
        """A SHA-256 over sound and texts."""


@dataclass(frozen=True, eq=False)
class AudioCorpus:
    """Decoded recordings: `ends` are where each one's samples end in the file."""

    texts: Sequence[str]
    places: Sequence[str]
    rate: int
    ends: npt.NDArray[np.int64]
    held: npt.NDArray[np.int16]
    digest: str

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many samples each recording has."""
        return np.diff(self.ends, prepend=0)

    def __len__(self) -> int:
        return len(self.texts)

    def samples(self, index: int) -> Samples:
        """The samples of one recording."""
        begin = int(self.ends[index - 1]) if index else 0
        return np.asarray(self.held[begin : int(self.ends[index])], np.float32) / np.float32(_FULL)

    def where(self, index: int) -> str:
        """The row or the file that lists it."""
        return self.places[index]

    def fingerprint(self) -> str:
        """A SHA-256 over sound and texts."""
        return self.digest

    @classmethod
    def build(
        cls,
        rows: Sequence[Spoken],
        folder: Path,
        *,
        rate: int,
        shortest: float = 0.0,
        longest: float = 0.0,
        bad: BadRows = "refuse",
        say: Callable[[str], None] = lambda _: None,
    ) -> AudioCorpus:
        """Decode rows into a folder, or open what is there of the same rows and files; lengths are in seconds."""
        made = folder / _key(rows, (rate, shortest, longest, bad))
        if (made / "index.json").exists():
            try:
                check_hashes(made)
                return cls.open(made)
            except (DataError, Damaged) as problem:
                say(f"{problem}; it is made anew")
        with whole_or_absent(made, files=(*_FILES, HASHES), what="recordings") as draft:
            _decode(rows, draft, rate=rate, limits=(shortest, longest), bad=bad, say=say)
            record_hashes(draft, _FILES)
        return cls.open(made)

    @classmethod
    def open(cls, made: Path) -> AudioCorpus:
        """What `build` left in a folder."""
        try:
            return cls._of(read_json(made / "index.json"), made / "samples.i16")
        except (OSError, ValueError, TypeError, LookupError, ArithmeticError) as problem:
            raise DataError(
                f"{made}: not decoded recordings ({problem})", hint="remove it; it is made anew"
            ) from problem

    @classmethod
    def _of(cls, index: dict[str, Any], samples: Path) -> AudioCorpus:
        texts, places, rate, ends = (index[name] for name in ("texts", "where", "rate", "ends"))
        if not all(isinstance(some, list) and len(some) == len(ends) for some in (texts, places)):
            raise ValueError("texts, places and recordings are not as many")
        if not all(isinstance(one, str) for one in (*texts, *places, index["digest"])):
            raise ValueError("a text or a place is none")
        begins = [0, *ends]
        if not ends or not all(type(one) is int and one > before for before, one in zip(begins, ends, strict=False)):
            raise ValueError("recordings do not follow each other")
        if regular_size(samples) != 2 * ends[-1]:
            raise ValueError(f"{samples.name} has not the {ends[-1]:,} samples that were written")
        held: npt.NDArray[np.int16] = np.memmap(samples, np.int16, "r")
        return cls(texts, places, int(rate), np.array(ends, np.int64), held, index["digest"])


def _key(rows: Sequence[Spoken], options: tuple[Any, ...]) -> str:
    total = sha256(repr(options).encode())
    for row in rows:
        try:
            about = row.path.stat()
            facts = (about.st_size, about.st_mtime_ns)
        except OSError:
            facts = (0, 0)
        total.update(repr((str(row.path), row.text, row.where, facts)).encode())
    return total.hexdigest()[:24]


def _decode(
    rows: Sequence[Spoken],
    draft: Path,
    *,
    rate: int,
    limits: tuple[float, float],
    bad: BadRows,
    say: Callable[[str], None],
) -> None:
    kept: list[Spoken] = []
    ends: list[int] = []
    wrong: list[str] = []
    digest = sha256()
    with (draft / "samples.i16").open("wb") as file:
        for row in rows:
            try:
                samples = _checked(row, rate, limits)
            except DataError as problem:
                wrong.append(f"{row.where}: {problem}")
                continue
            raw = (samples * _FULL).round().astype("<i2").tobytes()
            file.write(raw)
            digest.update(raw)
            kept.append(row)
            ends.append((ends[-1] if ends else 0) + len(samples))
    if wrong and bad == "refuse":
        raise DataError(listed(wrong), hint='correct them, or leave them out: data.bad="drop"')
    if wrong:
        say(f"{len(wrong):,} of {len(rows):,} recordings dropped: {listed(wrong)}")
    if not kept:
        raise DataError(f"no recording can be used; the first: {wrong[0]}")
    texts, where = [row.text for row in kept], [row.where for row in kept]
    digest.update(repr((texts, rate)).encode())
    index = {"texts": texts, "where": where, "rate": rate, "ends": ends, "digest": digest.hexdigest()}
    (draft / "index.json").write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def _checked(row: Spoken, rate: int, limits: tuple[float, float]) -> Samples:
    if not row.path.name:
        raise DataError("names no recording")
    if not row.text:
        raise DataError("the text is empty")
    try:
        audio = read_audio(row.path)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(f"{row.where}: {problem}", hint=problem.hint) from problem
    shortest, longest = limits
    if audio.seconds < shortest or (longest and audio.seconds > longest):
        raise DataError(f"{row.path}: lasts {audio.seconds:.2f} s, allowed are {shortest:g} to {longest:g} s")
    samples = resample(torch.from_numpy(audio.samples), audio.rate, rate).numpy()
    return np.asarray(samples / max(1.0, float(np.abs(samples).max())), np.float32)
