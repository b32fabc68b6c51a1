"""Recordings as a task's data: where they are, how they are heard, and what is kept of them.

`SpeechData` and `SpeechPieces` are the `[data]` and `[tokenizer]` sections of a recipe:

    train = ["train.csv"]                tables with the columns `audio` and `text`, or folders of x.wav beside x.txt
    digits = "fsdd/fsdd.tar.gz"          instead: strings of spoken digits, made from single recordings

Of the digits' speakers `unseen` is kept for a test of its own. Of the others, takes 0 to 4 are tested on, 5 to 9 chosen
by, and the rest trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from regard.data.audio.corpus import AudioCorpus, BadRows, Spoken, Utterances, read_spoken
from regard.data.audio.mel import Front, FrontName, Normal, Scale
from regard.data.io.lines import listed
from regard.data.io.paths import find_data
from regard.data.synthetic.digits import DigitStrings, Recordings
from regard.data.text.tokenizers import Tokenizer
from regard.errors import ConfigError, DataError
from regard.tasks.files import DataFiles, Say, split_off
from regard.tasks.texts import TokenizerKind


@dataclass(frozen=True, kw_only=True)
class SpeechData:
    """The `[data]` section.

    `audio` and `text` name the columns of tables; without `valid`, a share `valid_share` of the training recordings is
    kept to choose by. `rate`, `n_mels`, `window`, `hop` (in seconds), `front` and `normal` say how sound is heard: see
    `regard.data.audio.mel`. Recordings shorter than `min_seconds` or longer than `max_seconds` are bad rows; whatever
    is longer when a model is asked is cut into pieces at quiet places.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: dict[str, tuple[str, ...]] = field(default_factory=dict)
    audio: str = "audio"
    text: str = "text"
    valid_share: float = 0.05
    bad: BadRows = "refuse"
    digits: str | None = None
    unseen: str = "theo"
    n_train: int = 8_000
    n_valid: int = 300
    n_test: int = 500
    front: FrontName = "mel"
    rate: int = 16_000
    n_mels: int = 80
    window: float = 0.025
    hop: float = 0.01
    normal: Normal = "utterance"
    min_seconds: float = 0.05
    max_seconds: float = 30.0

    def __post_init__(self) -> None:
        wrong = []
        if not 0 < self.valid_share < 1:
            wrong.append(f"data.valid_share is {self.valid_share}, above 0 and below 1")
        if not 0 <= self.min_seconds < self.max_seconds:
            wrong.append(f"data.min_seconds is {self.min_seconds} and max_seconds {self.max_seconds}; 0 <= min < max")
        if self.digits and self.train:
            wrong.append("data.digits and data.train are both given; allowed is one of the two")
        if min(self.n_train, self.n_valid, self.n_test) < 1:
            wrong.append("data.n_train, n_valid and n_test are at least 1")
        if wrong:
            raise ConfigError("; ".join(wrong))

    def hearing(self, scale: Scale | None = None) -> Front:
        """How sound is heard; a scale is needed where bands are normalised by the training data's."""
        return Front(
            kind=self.front,
            rate=self.rate,
            n_mels=self.n_mels,
            window=self.window,
            hop=self.hop,
            normal=self.normal,
            scale=scale,
        )


@dataclass(frozen=True, kw_only=True)
class SpeechPieces:
    """The `[tokenizer]` section: characters, words or subwords; `file` names a tokenizer.json to use instead."""

    kind: TokenizerKind = "chars"
    size: int = 1_000
    lowercase: bool = True
    min_frequency: int = 1
    file: str | None = None


class SpokenSets(NamedTuple):
    """What to learn from, what to choose by, and what to report on."""

    train: Utterances
    valid: Utterances
    tests: Mapping[str, Utterances]


class SpeechFiles(DataFiles[SpeechData]):
    """The recordings of a recipe; what is decoded of them is kept in the folder `made`."""

    holds = "file or folder"

    def read(self, *, say: Say = lambda _: None) -> SpokenSets:
        """Everything, decoded and checked."""
        if self.data.digits:
            return SpokenSets(self._digits("train"), self._digits("valid"), self.tests())
        rows = self._rows(self.data.train, "train")
        if self.data.valid:
            chosen = self._rows(self.data.valid, "valid")
        else:
            rows, chosen = _held_out(rows, share=self.data.valid_share)
        return SpokenSets(self._decoded(rows, say), self._decoded(chosen, say), self.tests(say=say))

    def tests(self, *, say: Say = lambda _: None) -> dict[str, Utterances]:
        """The test sets by name: those of the recipe, or of the digits."""
        if self.data.digits:
            return {name: self._digits(name) for name in ("test", "unseen")}
        return {name: self.given(files, say=say) for name, files in self.data.test.items()}

    def given(self, files: Sequence[str], *, say: Say = lambda _: None) -> Utterances:
        """Other tables and folders, read in the same way; any length is allowed."""
        rows = self._rows(files, "test")
        return AudioCorpus.build(rows, self.made, rate=self.data.rate, bad=self.data.bad, say=say)

    def _rows(self, files: Sequence[str], what: str) -> list[Spoken]:
        paths, data = self.find(files, what=what), self.data
        return [row for path in paths for row in read_spoken(path, audio=data.audio, text=data.text)]

    def _decoded(self, rows: Sequence[Spoken], say: Say) -> Utterances:
        data = self.data
        return AudioCorpus.build(
            rows, self.made, rate=data.rate, shortest=data.min_seconds, longest=data.max_seconds, bad=data.bad, say=say
        )

    @cached_property
    def _recordings(self) -> Recordings:
        assert self.data.digits is not None
        return Recordings.read(find_data(self.data.digits, self.root), rate=self.data.rate)

    def _digits(self, part: Literal["train", "valid", "test", "unseen"] | str) -> DigitStrings:
        """Strings of a part; each part has seeds and recordings of its own."""
        unseen = self.data.unseen
        others = sorted(set(self._recordings.speakers) - {unseen})
        parts = {
            "train": (others, (10, 10**6), self.data.n_train),
            "valid": (others, (5, 10), self.data.n_valid),
            "test": (others, (0, 5), self.data.n_test),
            "unseen": ([unseen], (0, 10**6), self.data.n_test),
        }
        speakers, takes, n = parts[part]
        seed = list(parts).index(part)
        return DigitStrings(self._recordings.part(speakers=speakers, takes=takes), n, seed)


def _held_out(rows: list[Spoken], *, share: float) -> tuple[list[Spoken], list[Spoken]]:
    """What is left to learn from, and what is held out: chosen at random, the same every time."""
    kept, held = split_off(len(rows), share)
    if not kept:
        raise DataError(
            f"{len(rows)} recordings are too few to hold some out", hint="give others with --valid, or more"
        )
    return [rows[i] for i in kept], [rows[i] for i in held]


def encode_texts(tokenizer: Tokenizer, spoken: Utterances) -> list[list[int]]:
    """The ids of all texts; a character or word that the tokenizer does not know is named with its row."""
    encoded, unknown = tokenizer.encode_batch(list(spoken.texts)), tokenizer.special_tokens.unk
    wrong = []
    for i, ids in enumerate(encoded):
        if not ids:
            wrong.append(f"{spoken.where(i)}: nothing is left of the text {spoken.texts[i]!r:.60}")
        elif unknown is not None and unknown in ids:
            spans = tokenizer.spans(spoken.texts[i])
            begin, end = spans[ids.index(unknown)]
            wrong.append(f"{spoken.where(i)}: {spoken.texts[i][begin:end]!r} is not known to the tokenizer")
    if wrong:
        raise DataError(
            listed(wrong), hint="training has to show every character; or cut texts into bytes: tokenizer.kind=bytes"
        )
    return encoded


def scale_of(front: Front, spoken: Utterances, *, n: int = 200) -> Scale:
    """Mean and deviation of the bands over some of the training recordings."""
    import torch

    bare = replace(front, normal="none", scale=None)
    sample = np.linspace(0, len(spoken) - 1, min(n, len(spoken))).astype(int)
    frames = []
    for i in sample:
        samples = torch.from_numpy(spoken.samples(int(i)))[None]
        frames.append(bare(samples, torch.tensor([samples.shape[1]]))[0][0])
    return Scale.of(torch.cat(frames))
