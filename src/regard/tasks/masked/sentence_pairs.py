"""Pairs of segments from documents, for next-sentence prediction (Devlin et al., 2018), epoch by epoch.

A walk goes through each document: sentences are taken until there are as many pieces as a row has room for, and at
least two sentences. At a random border among them they become segment A and what follows. In half of the examples B is
what follows; in the other half it begins at a random sentence of another document, and what followed A is left for the
next example. A last sentence without a successor always gets a random B. One example in ten aims at a random shorter
length. What is too long is shortened piece by piece, always the longer segment, at its front or back at random.

Without next-sentence prediction an example is one segment: as many whole sentences as there is room for.

A walk follows from (seed, epoch). Many documents are walked at once, in arrays, a block of documents at a time; the
examples of a block are shuffled. So memory holds one block, and a `Position` is all that a checkpoint has to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from regard.data.batching.plan import EpochPlan
from regard.errors import DataError
from regard.tasks.masked.sentences import SentenceCorpus

Ints = npt.NDArray[np.int64]

_BLOCK = 2**24  # pieces of a block
_STRETCH = 2**12  # sentences after which a walk is left to another: no document is walked alone for long


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples as places among the ids of a corpus, all (n,); B is empty where there is one segment only."""

    numbers: Ints  # in their epoch
    a_starts: Ints
    a_lengths: Ints
    b_starts: Ints
    b_lengths: Ints
    follows: npt.NDArray[np.bool_]  # whether B is what comes after A

    @classmethod
    def joined(cls, several: Sequence[Examples]) -> Examples:
        """Some examples after others."""
        return cls(**{f.name: np.concatenate([getattr(examples, f.name) for examples in several]) for f in fields(cls)})

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, chosen: slice | Ints) -> Examples:
        return Examples(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    @property
    def lengths(self) -> Ints:
        """Pieces of both segments, without marks."""
        return self.a_lengths + self.b_lengths


class PairPlan(EpochPlan):
    """Which segments of a corpus make up which batch.

    `room` is how many pieces an example has at most. A batch holds at most `max_examples`, and at most `budget` pieces
    where that is given, each example counted with `marks` more.
    """

    def __init__(
        self,
        corpus: SentenceCorpus,
        *,
        room: int,
        max_examples: int,
        seed: int,
        budget: int | None = None,
        marks: int = 0,
        next_sentence: bool = True,
        short: float = 0.1,
    ) -> None:
        self.corpus, self.room, self.seed = corpus, room, seed
        self.max_examples, self.budget, self.marks = max_examples, budget, marks
        self.next_sentence, self.short = next_sentence, short

        if next_sentence and len(corpus) < 2:
            raise DataError(
                f"{corpus.folder}: one document only, there is no other to take a random next sentence from",
                hint="give more documents (how is the text split into them?), or switch next-sentence prediction off",
            )

    def epoch(self, number: int) -> Iterator[Examples]:
        """The batches of an epoch; all but the last are as full as they can be."""
        left = None
        for examples in self.blocks(number):
            *full, left = self._batches(examples if left is None else Examples.joined([left, examples]))
            yield from full
        if left is not None:
            yield left

    def blocks(self, epoch: int) -> Iterator[Examples]:
        """The examples of an epoch, a block at a time, shuffled and numbered."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self._stretches))
        first, end, _ = self._stretches[order].T
        pieces = np.cumsum(self.corpus.borders[end] - self.corpus.borders[first])
        cuts = np.flatnonzero(np.diff(pieces // _BLOCK)) + 1
        n = 0
        for block, members in enumerate(np.split(order, cuts)):
            random = np.random.default_rng([self.seed, epoch, block])
            examples = self._walk(self._stretches[members], random)
            examples = examples[random.permutation(len(examples))]
            yield replace(examples, numbers=np.arange(n, n + len(examples)))
            n += len(examples)

    @cached_property
    def _stretches(self) -> Ints:
        """First sentence, end and document (n, 3) of every walk: a document, or a part of a long one."""
        sizes = np.diff(self.corpus.documents)
        parts = -(-sizes // _STRETCH)
        document = np.repeat(np.arange(len(sizes)), parts)
        part = np.arange(len(document)) - np.repeat(np.cumsum(parts) - parts, parts)
        first = self.corpus.documents[document] + part * _STRETCH
        end = np.minimum(first + _STRETCH, self.corpus.documents[document + 1])
        return np.stack([first, end, document], 1)

    def _walk(self, stretches: Ints, random: np.random.Generator) -> Examples:
        """Walk through some stretches, one example of each at a time, until all are at their ends."""
        start, end, document = stretches.T
        parts = []
        while len(start):
            aims = np.where(
                random.random(len(start)) < self.short,
                random.integers(min(2, self.room), self.room + 1, len(start)),
                self.room,
            )
            step = self._pairs if self.next_sentence else self._singles
            examples, start = step(start, end, document, aims=aims, random=random)
            parts.append(examples)
            on = start < end
            start, end, document = start[on], end[on], document[on]
        return Examples.joined(parts)

    def _singles(
        self, start: Ints, end: Ints, document: Ints, *, aims: Ints, random: np.random.Generator
    ) -> tuple[Examples, Ints]:
        """An example of each walk, one segment only, and where the walks go on."""
        borders = self.corpus.borders
        stop = np.searchsorted(borders, borders[start] + aims, side="right") - 1  # the last border within reach
        stop = np.minimum(np.maximum(stop, start + 1), end)
        kept, skipped = self._cut(borders[stop] - borders[start], self.room, random)
        nothing = np.zeros_like(start)
        return Examples(nothing, borders[start] + skipped, kept, nothing, nothing, nothing == 0), stop

    def _pairs(
        self, start: Ints, end: Ints, document: Ints, *, aims: Ints, random: np.random.Generator
    ) -> tuple[Examples, Ints]:
        """An example of each walk, and where the walks go on."""
        borders = self.corpus.borders
        stop = np.minimum(np.maximum(np.searchsorted(borders, borders[start] + aims), start + 2), end)
        middle = start + 1 + random.integers(0, np.maximum(stop - start - 1, 1))
        follows = (random.random(len(start)) < 0.5) & (middle < stop)
        a_lengths = borders[middle] - borders[start]
        elsewhere, elsewhere_end = self._elsewhere(document, np.maximum(aims - a_lengths, 1), random)
        b_first, b_end = np.where(follows, middle, elsewhere), np.where(follows, stop, elsewhere_end)
        b_lengths = borders[b_end] - borders[b_first]
        # The longer one gives first; where both are long, they end up equal, with the odd piece left to A.
        b_room = np.maximum(self.room - a_lengths, self.room // 2)
        b_kept, b_skipped = self._cut(b_lengths, b_room, random)
        a_kept, a_skipped = self._cut(a_lengths, self.room - b_kept, random)
        examples = Examples(
            np.zeros_like(start), borders[start] + a_skipped, a_kept, borders[b_first] + b_skipped, b_kept, follows
        )
        return examples, np.where(follows, stop, middle)

    def _elsewhere(self, document: Ints, pieces: Ints, random: np.random.Generator) -> tuple[Ints, Ints]:
        """Sentences (first, end) of other documents, from a random one on, until there are so many pieces."""
        borders, documents = self.corpus.borders, self.corpus.documents
        other = (document + 1 + random.integers(0, len(self.corpus) - 1, len(document))) % len(self.corpus)
        first = documents[other] + random.integers(0, documents[other + 1] - documents[other])
        stop = np.maximum(np.searchsorted(borders, borders[first] + pieces), first + 1)
        return first, np.minimum(stop, documents[other + 1])

    def _cut(self, lengths: Ints, room: Ints | int, random: np.random.Generator) -> tuple[Ints, Ints]:
        """How much is kept of segments, and how much is skipped at their fronts; the rest goes at their backs."""
        kept = np.minimum(lengths, room)
        return kept, random.binomial(lengths - kept, 0.5)

    def _batches(self, examples: Examples) -> list[Examples]:
        """Cut examples into batches; the last one may not be full."""
        used = np.cumsum(examples.lengths + self.marks)
        batches, start, base = [], 0, 0
        while start < len(examples):
            end = min(start + self.max_examples, len(examples))
            if self.budget is not None:
                end = min(end, int(np.searchsorted(used, base + self.budget, side="right")))
            batches.append(examples[start:end])
            start, base = end, int(used[end - 1])
        return batches
