"""Strings of spoken digits, joined from single recordings: speech with a small vocabulary and no end of examples.

    recordings = Recordings.read("fsdd.tar.gz")         a folder, an archive, or the .npz that `save` wrote
    strings = DigitStrings(recordings.part(...), n=2000, seed=1)      "three one four", …

Recordings are called `<digit>_<speaker>_<take>.flac` (or .wav), as in the Free Spoken Digit Dataset. A string has 3 to
6 digits of one speaker, with short pauses and changing levels; the pauses hold a faint hiss, as no room is silent.
Strings are drawn from (seed, number), and none is kept: the recordings are all that lies in memory.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from regard.config.bounded import regular_size
from regard.data.audio.files import SUFFIXES, Audio, Samples, decode_audio, read_audio
from regard.data.audio.resampling import resample
from regard.data.io.archives import DAMAGED as BROKEN
from regard.data.io.archives import read_member
from regard.data.io.arrays import DAMAGED, open_arrays
from regard.errors import DataError, UsageError

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_NAME = re.compile(r"(\d)_([A-Za-z]+)_(\d+)\.\w+")
_FULL = 32767


@dataclass(frozen=True, eq=False)
class Recordings:
    """Single digits: who said which one for the how manieth time, and the sound as whole numbers of 16 bits."""

    rate: int
    digits: npt.NDArray[np.int64]
    speakers: Sequence[str]
    takes: npt.NDArray[np.int64]
    sounds: Sequence[npt.NDArray[np.int16]]

    def __len__(self) -> int:
        return len(self.sounds)

    @classmethod
    def read(cls, path: Path | str, *, rate: int | None = None) -> Recordings:
        """All recordings of a place, in the order of their names; at another rate if one is asked for."""
        path = Path(path)
        result = cls._kept(path) if path.suffix == ".npz" else cls._of(path)
        return result if rate is None or rate == result.rate else result._at(rate)

    @classmethod
    def _of(cls, path: Path) -> Recordings:
        entries = sorted(_decoded(path), key=lambda entry: entry[0])
        if not entries:
            raise DataError(
                f"{path}: holds no recordings of digits",
                hint="files called <digit>_<speaker>_<take>.flac or .wav were expected, such as 7_theo_12.flac",
            )
        rates = sorted({audio.rate for _, audio in entries})
        if len(rates) > 1:
            raise DataError(f"{path}: its recordings have several rates: {rates}")
        sounds = [(audio.samples * _FULL).round().astype(np.int16) for _, audio in entries]
        digits, takes = (np.array([name[i] for name, _ in entries]) for i in (0, 2))
        return cls(rates[0], digits, [name[1] for name, _ in entries], takes, sounds)

    @classmethod
    def _kept(cls, path: Path) -> Recordings:
        try:
            with open_arrays(path) as held:
                sounds = np.split(held["samples"], held["ends"][:-1])
                speakers = [str(name) for name in held["speakers"]]
                return cls(int(held["rate"]), held["digits"], speakers, held["takes"], sounds)
        except FileNotFoundError:
            raise DataError(f"{path}: no such file") from None
        except DAMAGED as problem:
            raise DataError(f"{path}: not recordings of digits ({problem})") from problem

    def save(self, path: Path | str) -> None:
        """Keep everything in one .npz."""
        samples = np.concatenate(self.sounds)
        ends = np.cumsum([len(sound) for sound in self.sounds])
        speakers = np.array(self.speakers)
        np.savez_compressed(
            path, samples=samples, ends=ends, rate=self.rate, digits=self.digits, takes=self.takes, speakers=speakers
        )

    def part(self, *, speakers: Sequence[str], takes: tuple[int, int]) -> Recordings:
        """The recordings of some speakers, takes from the first number up to the second, that one not included."""
        unknown = sorted(set(speakers) - set(self.speakers))
        if unknown:
            raise UsageError(f"no speaker is called {unknown[0]!r}; there are {', '.join(sorted(set(self.speakers)))}")
        chosen = [i for i in range(len(self)) if self.speakers[i] in speakers and takes[0] <= self.takes[i] < takes[1]]
        if not chosen:
            raise DataError(f"no recording of {', '.join(speakers)} is a take from {takes[0]} to {takes[1] - 1}")
        return replace(
            self,
            digits=self.digits[chosen],
            speakers=[self.speakers[i] for i in chosen],
            takes=self.takes[chosen],
            sounds=[self.sounds[i] for i in chosen],
        )

    def _at(self, rate: int) -> Recordings:
        changed = [
            resample(torch.from_numpy(sound.astype(np.float32)), self.rate, rate).numpy() for sound in self.sounds
        ]
        return replace(
            self, rate=rate, sounds=[sound.clip(-_FULL, _FULL).round().astype(np.int16) for sound in changed]
        )


def _decoded(path: Path) -> Iterator[tuple[tuple[int, str, int], Audio]]:
    """What each recording of a folder or an archive is of, and its sound."""
    if path.is_dir():
        for file in path.rglob("*"):
            if (name := _name(file.name)) is not None:
                yield name, read_audio(file)
        return
    try:
        regular_size(path)
        with tarfile.open(path) as archive:
            for member in archive:
                if (name := _name(Path(member.name).name)) is not None and (held := archive.extractfile(member)):
                    content = read_member(held, member.name, member.size)
                    yield name, decode_audio(content, f"{path}/{member.name}")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except BROKEN as problem:
        raise DataError(f"{path}: not a folder, a tar archive or an .npz of recordings ({problem})") from problem


def _name(name: str) -> tuple[int, str, int] | None:
    match = _NAME.fullmatch(name)
    if match is None or Path(name).suffix.lower() not in SUFFIXES:
        return None
    return int(match[1]), match[2], int(match[3])


@dataclass(frozen=True, eq=False)
class DigitStrings:
    """`n` strings over some recordings."""

    recordings: Recordings
    n: int
    seed: int
    shortest: int = 3
    longest: int = 6

    def __post_init__(self) -> None:
        if self.n < 1 or not 1 <= self.shortest <= self.longest:
            raise UsageError(f"{self.n} strings of {self.shortest} to {self.longest} digits cannot be made")

    def __len__(self) -> int:
        return self.n

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self.recordings.rate

    @cached_property
    def _by_speaker(self) -> list[npt.NDArray[np.int64]]:
        names = np.array(self.recordings.speakers)
        return [np.flatnonzero(names == name) for name in sorted(set(self.recordings.speakers))]

    @cached_property
    def _loud(self) -> list[Samples]:
        """The recordings, each as loud as can be."""
        sounds = (sound.astype(np.float32) for sound in self.recordings.sounds)
        return [sound / max(1.0, float(np.abs(sound).max())) for sound in sounds]

    @cached_property
    def plans(self) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
        """Of each string: its recordings, the pauses before, between and after them in samples, and their levels."""
        result = []
        for number in range(self.n):
            chance = np.random.default_rng([self.seed, number])
            own = self._by_speaker[chance.integers(len(self._by_speaker))]
            chosen = own[chance.integers(len(own), size=chance.integers(self.shortest, self.longest + 1))]
            pauses = (chance.uniform(0.02, 0.25, len(chosen) + 1) * self.rate).astype(np.int64)
            result.append((chosen, pauses, chance.uniform(0.6, 1.0, len(chosen)).astype(np.float32)))
        return result

    @cached_property
    def texts(self) -> list[str]:
        """The words of each string."""
        return [" ".join(WORDS[self.recordings.digits[i]] for i in chosen) for chosen, _, _ in self.plans]

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many samples each string has."""
        sizes = np.array([len(sound) for sound in self.recordings.sounds])
        return np.array([sizes[chosen].sum() + pauses.sum() for chosen, pauses, _ in self.plans], np.int64)

    def samples(self, index: int) -> Samples:
        """The sound of one string."""
        chosen, pauses, levels = self.plans[index]
        chance = np.random.default_rng([self.seed, index, 1])
        hiss = 10 ** chance.uniform(-4, -2.7)
        whole = chance.standard_normal(int(self.lengths[index]), dtype=np.float32) * np.float32(hiss)
        begin = 0
        for i, pause, level in zip(chosen, pauses, levels, strict=False):
            begin += int(pause)
            sound = self._loud[i]
            whole[begin : begin + len(sound)] += np.float32(0.5) * level * sound
            begin += len(sound)
        return whole

    def where(self, index: int) -> str:
        """Who says it, and its number."""
        return f"string {index} of {self.recordings.speakers[self.plans[index][0][0]]}"

    def fingerprint(self) -> str:
        """A SHA-256 over the recordings and the way they are joined."""
        total = sha256(repr((self.n, self.seed, self.shortest, self.longest, self.rate)).encode())
        for digit, sound in zip(self.recordings.digits.tolist(), self.recordings.sounds, strict=True):
            total.update(bytes([digit]) + sound.tobytes())
        return total.hexdigest()
