"""Recordings as a task's data: where they are, how they are heard, and what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from regard.data.audio.corpus import AudioCorpus, Spoken, Utterances, read_spoken
from regard.data.audio.mel import Front, Scale
from regard.data.io.lines import listed
from regard.data.io.paths import find_data
from regard.data.synthetic.digits import DigitStrings, Recordings
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError
from regard.tasks.files import DataFiles, Say, Sets, hold_some_out
from regard.tasks.speech.config import SpeechData


def hearing(data: SpeechData, scale: Scale | None = None) -> Front:
    """How sound is heard; a scale is needed where bands are normalised by the training data's."""
    return Front(
        kind=data.features,
        rate=data.rate,
        n_mels=data.n_mels,
        window=data.window,
        hop=data.hop,
        normal=data.normalize,
        scale=scale,
    )


SpokenSets = Sets[Utterances]


class SpeechFiles(DataFiles[SpeechData]):
    """The recordings of a recipe; what is decoded of them is kept in the folder `made`."""

    holds = "file or folder"

    def read(self, *, say: Say = lambda _: None) -> SpokenSets:
        """Everything, decoded and checked."""
        if self.data.digits:
            return SpokenSets(self._digits("train"), self._digits("valid"), self.tests())
        rows = self.train_rows()
        if self.data.valid:
            chosen = self._rows(self.data.valid, "valid")
        else:
            hint = "give others with --valid, or more"
            rows, chosen = hold_some_out(rows, self.data.valid_share, what="recordings", hint=hint)
        return SpokenSets(self._decoded(rows, say), self._decoded(chosen, say), self.tests(say=say))

    def train_rows(self) -> list[Spoken]:
        """What there is to learn from, undecoded; validation that is held out is among it."""
        return self._rows(self.data.train, "train")

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


def named_files(data: SpeechData, root: Path | None) -> list[Path]:
    """The recordings that tables name."""
    files = SpeechFiles(data, root)
    paths = [path for name, names in files.sets().items() for path in files.find(names, what=name)]
    tables = [path for path in paths if not Path(path).is_dir()]
    return [row.path for table in tables for row in read_spoken(table, audio=data.audio, text=data.text)]


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
