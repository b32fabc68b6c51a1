"""Learning word vectors: skip-gram with negative sampling (Mikolov et al., 2013), as products of small matrices.

A batch is B blocks of C centres x, each with the S words y of its surroundings and K words of noise that its centres
share. With p = σ(x·yᵀ), m the pairs within each centre's random radius, and w = negatives · pairs / K:

    ∂/∂x = Σ_y m (1 − p) y − Σ_noise w p y      and likewise ∂/∂y            (B, C, S + K) in two matrix products

so that a word costs a few rows of memory instead of one for each pair. Gradients are written down by hand, summed by
word, and divided by the root of how often the word occurred in the batch: a batch is taken as a whole, and frequent
words would leap otherwise. The rate falls to nothing. Work is shared among threads, and how many there are changes no
bit: every random number is drawn beforehand, and sums have one order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.word_vectors import WordVectors
from regard.tasks.words.skipgrams import BlockPlan, WordStream, keep_rates, noise_table

CENTRES, NOISE = 32, 32  # of a block
_LEAST_BATCHES = 50  # an epoch of a short text has so many, if it has the blocks
_PIECE, _MEASURED, _MOST_PASSES = 2**18, 1.5, 100  # words, seconds and passes that the pace is measured by
_LAST_RATE = 1e-4  # of the first
_LONGEST = 0.5  # step of a vector: far above usual ones, it keeps rates that are too high from ending in no numbers


@dataclass(frozen=True, kw_only=True)
class SkipGramOptions:
    """What is learnt and how: widest radius, negatives a pair, subsampling, passes, rate, centres a batch, seed."""

    window: int = 5
    negatives: int = 5
    sample: float = 1e-3
    epochs: float = 5.0
    lr: float = 0.05
    batch: int = 1024
    seed: int = 1


class SkipGramProgress(NamedTuple):
    """How it goes: the share that is done, words met so far, the loss a pair of the last batch, and where it is.

    `batch` batches of epoch `epoch` are done, and `step` in all: with the vectors as they are then, that is all it
    takes to go on.
    """

    done: float = 0.0
    words: int = 0
    loss: float = 0.0
    step: int = 0
    epoch: int = 0
    batch: int = 0


class _Batch(NamedTuple):
    words: Tensor  # (B, S)
    documents: Tensor  # (B, S)
    radii: Tensor  # (B, C)
    noise: Tensor  # (B, K)


class _Gradients(NamedTuple):
    centres: Tensor  # (B·C, D)
    others: Tensor  # (B·(S + K), D)
    loss: float
    pairs: float


def learn_vectors(
    model: WordVectors,
    stream: WordStream,
    options: SkipGramOptions,
    *,
    tell: Callable[[SkipGramProgress], bool],
    after: SkipGramProgress | None = None,
) -> None:
    """Train the vectors on a stream, or go on `after` what was told before, to the same bits.

    `tell` is told after some batches how it goes, and says whether to go on.
    """
    learner = _Learner(model, stream, options)
    with _one_thread_each() as workers, ThreadPoolExecutor(max(2, workers)) as pool, torch.inference_mode():
        for progress in learner.run(pool, workers, after or SkipGramProgress()):
            if not tell(progress):
                return


def seconds_a_pass(model: WordVectors, stream: WordStream, options: SkipGramOptions) -> float:
    """About how long a pass over the stream takes: measured on its beginning, with a copy that is forgotten."""
    piece = stream._replace(ids=stream.ids[:_PIECE], documents=stream.documents[:_PIECE])
    times: list[tuple[float, int]] = []

    def tell(progress: SkipGramProgress) -> bool:
        times.append((time.monotonic(), progress.words))
        return len(times) < 2 or times[-1][0] - times[0][0] < _MEASURED

    began = time.monotonic()
    learn_vectors(deepcopy(model), piece, replace(options, epochs=_MOST_PASSES), tell=tell)
    first = times[0] if len(times) > 1 else (began, 0)  # the first batch waits for much that is made once
    words = float((keep_rates(stream.counts, options.sample) * stream.counts).sum())
    return words * max(1e-6, times[-1][0] - first[0]) / max(1, times[-1][1] - first[1])


class _Learner:
    def __init__(self, model: WordVectors, stream: WordStream, options: SkipGramOptions) -> None:
        first = model.config.n_reserved
        self.inputs, self.outputs = model.input.detach()[first:], model.output.detach()[first:]
        self.stream, self.options = stream, options
        self.plan = BlockPlan(CENTRES, options.window)
        self.keep, self.noise = keep_rates(stream.counts, options.sample), noise_table(stream.counts)
        self.bands = self.plan.bands().flatten(0, 1)  # (radii · C, S)

    def run(self, pool: ThreadPoolExecutor, workers: int, after: SkipGramProgress) -> Iterator[SkipGramProgress]:
        """All epochs, or what is left of them, batch by batch."""
        epochs, words, step = self.options.epochs, after.words, after.step
        for epoch in range(after.epoch, math.ceil(epochs)):
            batches = self._batches(epoch)
            batches = batches[: math.ceil(len(batches) * min(1.0, epochs - epoch))]
            for number in range(after.batch if epoch == after.epoch else 0, len(batches)):
                done = (epoch + number / len(batches)) / epochs
                last = number == len(batches) - 1
                words, step = words + batches[number].radii.numel(), step + 1
                loss = self._step(batches[number], pool, workers, rate=self.options.lr * max(_LAST_RATE, 1 - done))
                if last or number % 32 == 0:
                    done = min(1.0, (epoch + (number + 1) / len(batches)) / epochs)
                    yield SkipGramProgress(done, words, loss, step, epoch, number + 1)

    def _batches(self, epoch: int) -> list[_Batch]:
        """The batches of an epoch in random order, with all their random numbers."""
        rng = np.random.default_rng([self.options.seed, epoch])
        blocks = self.plan.cut(self.stream, self.keep, rng)
        n = len(blocks.words)
        size = max(1, min(self.options.batch // CENTRES, n // _LEAST_BATCHES))
        chance = torch.Generator().manual_seed(int(rng.integers(2**62)))
        order = torch.randperm(n, generator=chance)
        radii = torch.randint(1, self.options.window + 1, (n, CENTRES), generator=chance)
        noise = self.noise[torch.randint(len(self.noise), (n, NOISE), generator=chance)]
        return [
            _Batch(blocks.words[rows], blocks.documents[rows], radii[rows], noise[rows]) for rows in order.split(size)
        ]

    def _step(self, batch: _Batch, pool: ThreadPoolExecutor, workers: int, *, rate: float) -> float:
        """One update of all vectors that a batch meets; the loss a pair before it."""
        size = -(-len(batch.words) // workers)
        parts = [_Batch(*columns) for columns in zip(*(column.split(size) for column in batch), strict=True)]
        gradients = list(pool.map(self._gradients, parts))
        window = self.options.window
        centres = batch.words[:, window:-window].reshape(-1)
        others = torch.cat((batch.words, batch.noise), 1).view(-1)
        updates = [
            pool.submit(_ascend, self.inputs, centres, torch.cat([part.centres for part in gradients]), rate),
            pool.submit(_ascend, self.outputs, others, torch.cat([part.others for part in gradients]), rate),
        ]
        for update in updates:
            update.result()
        return sum(part.loss for part in gradients) / max(1.0, sum(part.pairs for part in gradients))

    @torch.inference_mode()
    def _gradients(self, batch: _Batch) -> _Gradients:
        (B, S), C, D = batch.words.shape, CENTRES, self.inputs.shape[1]
        window = self.options.window
        x = self.inputs.index_select(0, batch.words[:, window:-window].reshape(-1)).view(B, C, D)
        y = self.outputs.index_select(0, torch.cat((batch.words, batch.noise), 1).view(-1)).view(B, -1, D)
        near = self.bands.index_select(0, (batch.radii * C + torch.arange(C)).view(-1)).view(B, C, S)
        there = batch.documents
        near *= (there[:, window:-window, None] == there[:, None, :]) & (there[:, None, :] >= 0)
        pull = torch.bmm(x, y.transpose(1, 2)).sigmoid_()  # (B, C, S + K): probabilities, then what pulls or pushes
        pairs = near.sum(2, keepdim=True)
        weight = pairs * (self.options.negatives / NOISE)
        loss = _loss(pull, near, weight)
        pull[:, :, :S].neg_().add_(1).mul_(near)
        pull[:, :, S:].mul_(-weight)
        toward, back = torch.bmm(pull, y), torch.bmm(pull.transpose(1, 2), x)
        return _Gradients(toward.view(-1, D), back.view(-1, D), loss, float(pairs.sum()))


def _loss(p: Tensor, near: Tensor, weight: Tensor) -> float:
    """The summed loss of the first block's pairs scaled to all: enough to see how it goes, and free."""
    S, tiny = near.shape[2], 1e-7
    one = p[:1]
    right = (near[:1] * one[:, :, :S].clamp_min(tiny).log()).sum()
    wrong = (weight[:1] * (1 - one[:, :, S:]).clamp_min(tiny).log()).sum()
    n = float(near[:1].sum())
    return -float(right + wrong) * (float(near.sum()) / n if n else 0.0)


@torch.inference_mode()
def _ascend(table: Tensor, ids: Tensor, gradients: Tensor, rate: float) -> None:
    """Move rows of a table along their summed gradients, over the root of how often each occurs."""
    ordered, places = ids.sort(stable=True)
    rows, counts = ordered.unique_consecutive(return_counts=True)
    sums = F.embedding_bag(places, gradients, counts.cumsum(0) - counts, mode="sum")
    scale = rate * counts.float().rsqrt()
    scale = scale.minimum(_LONGEST / sums.norm(dim=1).clamp_min_(1e-12))
    table.index_add_(0, rows, sums.mul_(scale[:, None]))


@contextmanager
def _one_thread_each() -> Iterator[int]:
    """How many threads there are to share work among, while each of them computes by itself."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)
