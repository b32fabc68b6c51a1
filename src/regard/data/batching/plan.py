"""Batches of similar length under a budget of tokens, the same for the same seed, and resumable at any batch.

A batch costs `sentences × longest side`, padding included: with a budget of 4096 tokens neither the padded source nor
the padded target of a batch holds more than 4096. Lengths are those the model will see, so add what it adds (`+ 1`
for </s>). Examples are sorted by their longer side, then, in turning order, by how the sides differ; ties and the
order of batches are shuffled anew each epoch. Everything follows from (seed, epoch), so a `Position` is all that a
checkpoint has to keep.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from regard.data.batching.ragged import Ragged
from regard.data.batching.shapes import Lengths, Shapes, choose_shapes
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
    def epoch(self, number: int) -> list[Indices]:
        """The batches of an epoch."""

    def iterate(self, position: Position = Position()) -> Iterator[tuple[Position, Indices]]:  # noqa: B008 - frozen
        """Batches without end from `position` on; resuming at a yielded position gives exactly what comes next."""
        number, done = position.epoch, position.batch
        while True:
            batches = self.epoch(number)
            if not 0 <= done <= len(batches):
                raise no_such_batch(position, len(batches))
            for place in range(done, len(batches)):
                last = place + 1 == len(batches)
                yield Position(number + 1) if last else Position(number, place + 1), batches[place]
            number, done = number + 1, 0


def no_such_batch(position: Position, n: int) -> UsageError:
    """The error for a position that its epoch does not have."""
    return UsageError(
        f"batch {position.batch} of epoch {position.epoch} does not exist, the epoch has {n}",
        hint="the data, the budget or the seed is not that of the run to be resumed",
    )


def example_plan(
    lengths: npt.NDArray[np.int64], *, budget_tokens: int, seed: int, batch_examples: int = 0
) -> "BatchPlan":
    """The batches of rows of these lengths: `batch_examples` at random, or as many of like length as the budget holds.

    Random batches of a fixed number are what fine-tuning is usually described by; only the last of an epoch is smaller.
    Batches of like lengths pad less.
    """
    if not batch_examples:
        return BatchPlan(lengths, lengths, budget_tokens=budget_tokens, seed=seed)
    room = batch_examples * int(lengths.max(initial=1))
    return BatchPlan(lengths, lengths, budget_tokens=room, seed=seed, max_sentences=batch_examples, n_shapes=1)


class BatchPlan(EpochPlan):
    """Which examples go together, epoch by epoch.

    `multiple_of` rounds padded lengths up (good for tensor cores). `n_shapes` allows only so many padded shapes, plus
    one for what is left over at the end of an epoch (good for compiled models): then each batch is full and of random
    examples of its shape, and `padded_shape` says what to pad to.
    """

    def __init__(
        self,
        source_lengths: npt.ArrayLike,
        target_lengths: npt.ArrayLike,
        *,
        budget_tokens: int,
        seed: int,
        max_sentences: int | None = None,
        multiple_of: int = 1,
        n_shapes: int | None = None,
    ) -> None:
        self.source_lengths: Lengths = np.asarray(source_lengths, np.int64)  # (n,)
        self.target_lengths: Lengths = np.asarray(target_lengths, np.int64)  # (n,)
        self.budget_tokens, self.seed, self.multiple_of = budget_tokens, seed, multiple_of
        self.max_sentences = max_sentences or max(1, len(self.source_lengths))
        _check_options(
            budget_tokens=budget_tokens, max_sentences=max_sentences, multiple_of=multiple_of, n_shapes=n_shapes
        )
        self._check_lengths()
        self._longer = np.maximum(1, np.maximum(self.source_lengths, self.target_lengths))
        self._shapes: Shapes | None = None
        if n_shapes is not None:
            self._shapes = choose_shapes(
                self.source_lengths,
                self.target_lengths,
                n=n_shapes,
                budget=budget_tokens,
                multiple_of=multiple_of,
                max_sentences=self.max_sentences,
            )

    def _check_lengths(self) -> None:
        source, target = self.source_lengths, self.target_lengths
        if source.ndim != 1 or source.shape != target.shape:
            raise UsageError(
                f"lengths are one number an example on both sides, given {source.shape} and {target.shape}"
            )
        if not len(source):
            raise UsageError("there are no examples to make batches of")
        longest = self._round_up(np.maximum(source, target))
        worst = int(np.argmax(longest))
        if longest[worst] > self.budget_tokens:
            message = (
                f"example {worst} has {longest[worst]} tokens on its longer side, the budget is {self.budget_tokens}"
            )
            raise UsageError(message, hint="raise the budget, or leave out long examples")

    def _round_up(self, lengths: Lengths) -> Lengths:
        return -(-lengths // self.multiple_of) * self.multiple_of

    def epoch(self, number: int) -> list[Indices]:
        """The batches of an epoch: index arrays that together hold every example once."""
        random = np.random.default_rng([self.seed, number])
        shuffled = random.permutation(len(self.source_lengths))
        batches = self._by_length(shuffled) if self._shapes is None else self._by_shape(shuffled, self._shapes)
        return [batches[place] for place in random.permutation(len(batches))]

    def _by_length(self, shuffled: Indices) -> list[Indices]:
        longer = self._longer[shuffled]
        difference = (self.source_lengths - self.target_lengths)[shuffled]
        # Up for odd lengths, down for even ones: neighbours across a change of length differ little as well.
        turning = np.where(longer % 2 == 1, difference, -difference)
        order = shuffled[np.lexsort((turning, longer))]
        longer = self._round_up(self._longer[order])
        batches, start = [], 0
        while start < len(order):
            count = min(self.max_sentences, self.budget_tokens // int(longer[start]))
            window = longer[start : start + count]  # rising, so the last one that still fits ends the batch
            fits = int(np.count_nonzero(window * np.arange(1, len(window) + 1) <= self.budget_tokens))
            batches.append(order[start : start + fits])
            start += fits
        return batches

    def _by_shape(self, shuffled: Indices, shapes: Shapes) -> list[Indices]:
        """Full batches shape by shape; what is left over moves on to the next longer shape."""
        of_example = shapes.assign(self.source_lengths[shuffled], self.target_lengths[shuffled])
        batches: list[Indices] = []
        left: Indices = shuffled[:0]
        for place, sentences in enumerate(shapes.sentences):
            members = np.concatenate([left, shuffled[of_example == place]])
            full = len(members) // sentences * sentences
            batches += list(members[:full].reshape(-1, sentences))
            left = members[full:]
        return [*batches, left] if len(left) else batches

    def padded_shape(self, indices: Indices) -> tuple[int, int]:
        """The source and target length that a batch of these examples is padded to."""
        source, target = int(self.source_lengths[indices].max()), int(self.target_lengths[indices].max())
        if self._shapes is not None:
            return self._shapes.fit(len(indices), source=source, target=target)
        rounded = self._round_up(np.array([source, target]))
        return int(rounded[0]), int(rounded[1])

    def padding(self, epoch: int = 0) -> float:
        """The share of padding in the tokens of an epoch, both sides together."""
        padded = sum(len(indices) * sum(self.padded_shape(indices)) for indices in self.epoch(epoch))
        return 1.0 - int(self.source_lengths.sum() + self.target_lengths.sum()) / max(1, padded)

    def shard(self, rank: int, world: int) -> "ShardedPlan":
        """The part of this plan that one of `world` processes works on."""
        return ShardedPlan(self, rank, world)


@dataclass(frozen=True)
class ShardedPlan(EpochPlan):
    """Every `world`-th example of each batch; the shards of a batch together are the batch.

    A batch with fewer examples than processes leaves some of them an empty shard.
    """

    plan: BatchPlan
    rank: int
    world: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise UsageError(f"rank is {self.rank}, 0 to {self.world - 1} is allowed in a world of {self.world}")

    def epoch(self, number: int) -> list[Indices]:
        """This process's part of each batch of an epoch."""
        return [indices[self.rank :: self.world] for indices in self.plan.epoch(number)]


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


def _check_options(**options: int | None) -> None:
    for name, value in options.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}, at least 1 is needed")


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

    rows = Ragged.of(sequences)
    longest = int(rows.lengths.max(initial=0))
    rounded = -(-longest // multiple_of) * multiple_of
    width = min(rounded, most or rounded) if length is None else length
    if width < longest:
        raise UsageError(f"sequences of {longest} ids cannot be padded to {width}")
    padded = np.full((len(rows), width), pad_id, np.int64)
    padded[np.arange(width) < rows.lengths[:, None]] = rows.ids
    return torch.from_numpy(padded), torch.from_numpy(rows.lengths.copy())
