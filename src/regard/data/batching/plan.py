"""Batches of similar length under a budget of tokens, the same for the same seed, and resumable at any batch.

A batch costs `sentences × longest side`, padding included: with a budget of 4096 tokens neither the padded source nor
the padded target of a batch holds more than 4096. Lengths are those the model will see, so add what it adds (`+ 1`
for </s>). Examples are sorted by their longer side, then, in turning order, by how the sides differ; ties and the
order of batches are shuffled anew each epoch. Everything follows from (seed, epoch), so a `Position` is all that a
checkpoint has to keep.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from regard.data.batching.ragged import Ragged
from regard.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Position:
    """How far a run has read: `batch` batches of epoch `epoch` are done."""

    epoch: int = 0
    batch: int = 0


class EpochPlan(ABC):
    """Which examples go together, epoch by epoch."""

    @abstractmethod
    def epoch(self, number: int) -> Iterable[Any]:
        """The batches of an epoch."""

    def iterate(self, position: Position = Position()) -> Iterator[tuple[Position, Any]]:  # noqa: B008 - frozen
        """Batches without end from `position` on; resuming at a yielded position gives exactly what comes next."""
        number, done = position.epoch, position.batch
        while True:
            index = 0
            for index, (batch, after) in enumerate(pairwise(chain(self.epoch(number), [None])), start=1):
                if index > done >= 0:
                    yield Position(number + 1) if after is None else Position(number, index), batch
            if not 0 <= done <= index:
                raise no_such_batch(position, index)
            number, done = number + 1, 0


def no_such_batch(position: Position, n: int) -> UsageError:
    """The error for a position that its epoch does not have."""
    return UsageError(
        f"batch {position.batch} of epoch {position.epoch} does not exist, the epoch has {n}",
        hint="the data, the budget or the seed is not that of the run to be resumed",
    )


def check_lengths(longer: Indices, budget_tokens: int) -> None:
    """Refuse examples, by the lengths of their longer sides, of which there are none, or one is over the budget."""
    if not len(longer):
        raise UsageError("there are no examples to make batches of")
    if longer.max() > budget_tokens:
        raise UsageError(
            f"example {int(longer.argmax())} has {int(longer.max())} tokens on its longer side, "
            f"the budget is {budget_tokens}",
            hint="raise the budget, or leave out long examples",
        )


def example_plan(
    lengths: npt.NDArray[np.int64], *, budget_tokens: int, seed: int, batch_examples: int = 0
) -> "BatchPlan | RandomPlan":
    """The batches of rows of these lengths: `batch_examples` at random, or as many of like length as the budget holds.

    Random batches of a fixed number are what fine-tuning is usually described by; batches of like lengths pad less.
    """
    if batch_examples:
        return RandomPlan(len(lengths), batch_examples, seed=seed)
    return BatchPlan(lengths, lengths, budget_tokens=budget_tokens, seed=seed)


class RandomPlan(EpochPlan):
    """So many of `n` examples together, at random; only one batch of an epoch is smaller."""

    def __init__(self, n: int, batch_examples: int, *, seed: int) -> None:
        if not n:
            raise UsageError("there are no examples to make batches of")
        self.n, self.batch_examples, self.seed = n, batch_examples, seed

    def epoch(self, number: int) -> list[Indices]:
        """The batches of an epoch: index arrays that together hold every example once."""
        random = np.random.default_rng([self.seed, number])
        shuffled, size = random.permutation(self.n), self.batch_examples
        batches = [shuffled[begin : begin + size] for begin in range(0, self.n, size)]
        return [batches[index] for index in random.permutation(len(batches))]


class BatchPlan(EpochPlan):
    """Which examples go together, epoch by epoch: those of like length, within the budget."""

    def __init__(
        self, source_lengths: npt.ArrayLike, target_lengths: npt.ArrayLike, *, budget_tokens: int, seed: int
    ) -> None:
        self.source_lengths: Indices = np.asarray(source_lengths, np.int64)  # (n,)
        self.target_lengths: Indices = np.asarray(target_lengths, np.int64)  # (n,)
        self.budget_tokens, self.seed = budget_tokens, seed
        self._longer = np.maximum(1, np.maximum(self.source_lengths, self.target_lengths))
        check_lengths(self._longer, budget_tokens)

    def epoch(self, number: int) -> list[Indices]:
        """The batches of an epoch: index arrays that together hold every example once."""
        random = np.random.default_rng([self.seed, number])
        shuffled = random.permutation(len(self.source_lengths))
        longer = self._longer[shuffled]
        difference = (self.source_lengths - self.target_lengths)[shuffled]
        # Up for odd lengths, down for even ones: neighbours across a change of length differ little as well.
        turning = np.where(longer % 2 == 1, difference, -difference)
        order = shuffled[np.lexsort((turning, longer))]
        longer = self._longer[order]
        batches, start = [], 0
        while start < len(order):
            window = longer[start : start + self.budget_tokens // int(longer[start])]
            # Lengths rise, so the last one that still fits ends the batch.
            fits = int(np.count_nonzero(window * np.arange(1, len(window) + 1) <= self.budget_tokens))
            batches.append(order[start : start + fits])
            start += fits
        return [batches[index] for index in random.permutation(len(batches))]

    def padding(self, epoch: int = 0) -> float:
        """The share of padding in the tokens of an epoch, both sides together."""
        sides = (self.source_lengths, self.target_lengths)
        padded = sum(len(indices) * int(side[indices].max()) for indices in self.epoch(epoch) for side in sides)
        return 1.0 - int(sum(side.sum() for side in sides)) / max(1, padded)


def like_lengths(lengths: Sequence[int] | npt.NDArray[Any], budget_tokens: int) -> list[list[int]]:
    """Sequences of like length together, within a budget of padded tokens, shortest first: for use, not for training.

    A sequence that is longer than the budget goes by itself.
    """
    chunks: list[list[int]] = []
    for i in np.argsort(lengths, kind="stable").tolist():
        if chunks and (len(chunks[-1]) + 1) * int(lengths[i]) <= budget_tokens:
            chunks[-1].append(i)
        else:
            chunks.append([i])
    return chunks


def pad(
    sequences: Ragged | Sequence[npt.NDArray[Any] | Sequence[int]],
    pad_id: int,
    *,
    multiple_of: int = 1,
    most: int | None = None,
    length: int | None = None,
) -> tuple["Tensor", "Tensor"]:
    """Sequences of ids as one tensor (B, T) of int64, filled up with `pad_id`, and their lengths (B,).

    T is the longest length rounded up to `multiple_of`, but not beyond `most`; or `length` where that is given.
    """
    import torch  # here, so that planning and tokenising do without

    if len(sequences) == 1 and (multiple_of, most, length) == (1, None, None) and not isinstance(sequences, Ragged):
        ids = torch.from_numpy(np.array(sequences[0], np.int64))  # one alone has nothing to be filled up
        return ids[None], torch.tensor([len(ids)])
    rows = Ragged.of(sequences)
    longest = int(rows.lengths.max(initial=0))
    rounded = -(-longest // multiple_of) * multiple_of
    width = min(rounded, most or rounded) if length is None else length
    if width < longest:
        raise UsageError(f"sequences of {longest} ids cannot be padded to {width}")
    padded = np.full((len(rows), width), pad_id, np.int64)
    padded[np.arange(width) < rows.lengths[:, None]] = rows.ids
    return torch.from_numpy(padded), torch.from_numpy(rows.lengths.copy())
