"""Examples of a corpus of sentences as batches, with pieces hidden.

padded   ids (B, T), one example a row; rows without an example hold special tokens only and are asked nothing
packed   ids (1, budget), examples end to end: no padding
slots    places (N,) among all positions, and labels (N,): what is to be guessed. N is fixed, what is not used is
         labelled -1; so every batch has one shape, and only these positions need to go through the output
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.attention import Rows
from regard.data.batching.packing import pack
from regard.data.batching.tensors import TensorBatch, rows_of
from regard.data.text.templates import TemplatedIds
from regard.data.text.tokenizers import Tokenizer
from regard.models.bert import Bert
from regard.tasks.masked.masking import UNUSED, MaskedRows, Masking
from regard.tasks.masked.sentence_pairs import Examples
from regard.tasks.masked.sentences import SentenceCorpus

FOLLOWS, RANDOM = 0, 1  # the judge's classes, in the order of published models
Ints = npt.NDArray[Any]


@dataclass(frozen=True)
class MaskedBatch(TensorBatch):
    """Examples with pieces hidden, as tensors. `longest` is set for a packed one."""

    ids: Tensor
    lengths: Tensor
    segments: Tensor
    places: Tensor
    labels: Tensor
    nexts: Tensor  # (B,), or one a document: FOLLOWS, RANDOM, or UNUSED where there is no example
    n_tokens: int
    longest: int | None = None

    @property
    def n_rows(self) -> int:
        """How many rows or documents there are, filling included."""
        return len(self.lengths)

    def rows(self) -> Rows:
        """The ids as models read them."""
        return rows_of(self.ids, self.lengths, self.longest)

    def encoded(self, model: Bert) -> Tensor:
        """What a model reads in them, (B, T, D)."""
        return model.encode(self.rows(), segments=self.segments if model.config.n_segments else None)


@dataclass(frozen=True)
class Hidden:
    """Examples as rows (n, T) before and after pieces are hidden."""

    whole: Ints
    segments: Ints
    lengths: Ints
    masked: MaskedRows


class Assembler:
    """Puts examples of a corpus between special tokens, hides pieces, and lays them out; `length` is T."""

    def __init__(
        self, corpus: SentenceCorpus, tokenizer: Tokenizer, masking: Masking, *, length: int, pairs: bool
    ) -> None:
        self.corpus, self.tokenizer, self.masking = corpus, tokenizer, masking
        self.length, self.pairs = length, pairs
        self.empty = self.framed([], [])
        self._marks = np.array(self.empty.ids)
        self._second = max(self.framed([0], [0]).segments)  # the segment of what comes after the first text's marks

    @property
    def marks(self) -> int:
        """How many special tokens an example has."""
        return len(self.empty.ids)

    def framed(self, first: list[int], second: list[int]) -> TemplatedIds:
        """One segment or two between their special tokens."""
        return self.tokenizer.frame(first, second if self.pairs else None)

    def hidden(self, examples: Examples, *, epoch: int) -> Hidden:
        """Examples as rows, filled up with padding, with pieces hidden as their epoch says."""
        whole = np.full((len(examples), self.length), self.tokenizer.pad_id, np.int64)
        segments, lengths = np.zeros_like(whole), examples.lengths + self.marks
        places = [examples.a_starts, examples.a_lengths, examples.b_starts, examples.b_lengths, lengths]
        for row, segment, (a, n, b, m, end) in zip(whole, segments, np.stack(places, 1).tolist(), strict=True):
            self._frame_into(row, segment, self.corpus.ids[a : a + n], self.corpus.ids[b : b + m], end)
        masked = self.masking.apply(whole, lengths, examples=examples.numbers, epoch=epoch)
        return Hidden(whole, segments, lengths, masked)

    def _frame_into(self, row: Ints, segment: Ints, first: Ints, second: Ints, end: int) -> None:
        """What `framed` does, in place and without lists: the marks of the empty frame, with texts in between."""
        special, starts = self._marks, self.empty.starts
        n, m = starts[0], starts[0] + len(first)
        row[:n], row[n:m] = special[:n], first
        if not self.pairs:
            row[m:end] = special[n:]
            return
        k = m + starts[1] - starts[0]
        row[m:k], row[k : k + len(second)], row[k + len(second) : end] = (
            special[n : starts[1]],
            second,
            special[starts[1] :],
        )
        segment[k:end] = self._second

    def padded(self, examples: Examples, *, epoch: int, n_rows: int) -> MaskedBatch:
        """A batch of `n_rows` rows, examples first."""
        hidden, n = self.hidden(examples, epoch=epoch), len(examples)
        ids = np.full((n_rows, self.length), self.tokenizer.pad_id, np.int64)
        ids[n:, : self.marks], ids[:n] = self.empty.ids, hidden.masked.ids
        segments = np.zeros_like(ids)
        segments[n:, : self.marks], segments[:n] = self.empty.segments, hidden.segments
        lengths = np.full(n_rows, self.marks, np.int64)
        lengths[:n] = hidden.lengths
        places = np.zeros((n_rows, hidden.masked.places.shape[1]), np.int64)
        labels = np.full_like(places, UNUSED)
        places[:n], labels[:n] = hidden.masked.places, hidden.masked.labels
        places += np.arange(n_rows)[:, None] * self.length
        nexts = _nexts(examples, n_rows)
        return _batch(ids, lengths, segments, places.ravel(), labels.ravel(), nexts, n_tokens=hidden.masked.n_masked)

    def packed(self, examples: Examples, *, epoch: int, budget: int, most: int) -> MaskedBatch:
        """A batch of `budget` positions for at most so many examples."""
        hidden = self.hidden(examples, epoch=epoch)
        # What is left of the budget becomes documents of padding, which need places among the lengths too.
        documents = most + -(-budget // self.length)
        room = {"budget_tokens": budget, "max_documents": documents, "longest": self.length}
        rows = zip(hidden.masked.ids, hidden.segments, hidden.lengths, strict=True)
        sides = [(ids[:n], segments[:n]) for ids, segments, n in rows]
        ids, lengths = pack([ids for ids, _ in sides], self.tokenizer.pad_id, **room)
        segments, _ = pack([segments for _, segments in sides], 0, **room)
        used, n = hidden.masked.labels != UNUSED, hidden.masked.n_masked
        starts = (np.cumsum(hidden.lengths) - hidden.lengths)[:, None]
        # Rounding, and the one piece that is hidden at least, add less than one an example to its share.
        places = np.zeros(int(budget * self.masking.share) + most, np.int64)
        labels = np.full_like(places, UNUSED)
        places[:n], labels[:n] = (starts + hidden.masked.places)[used], hidden.masked.labels[used]
        nexts = _nexts(examples, documents)
        rows_and_lengths = (ids.numpy()[None], lengths.numpy(), segments.numpy()[None])
        return _batch(*rows_and_lengths, places, labels, nexts, n_tokens=n, longest=self.length)


def _nexts(examples: Examples, n: int) -> Ints:
    nexts = np.full(n, UNUSED)
    nexts[: len(examples)] = np.where(examples.follows, FOLLOWS, RANDOM)
    return nexts


def _batch(*arrays: Ints, n_tokens: int, longest: int | None = None) -> MaskedBatch:
    """Ids, lengths, segments, places, labels and nexts as a batch."""
    ids, lengths, segments, places, labels, nexts = map(torch.from_numpy, arrays)
    return MaskedBatch(ids, lengths, segments, places, labels, nexts, n_tokens, longest)
