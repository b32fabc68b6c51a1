"""A model in the middle of decoding, its steps recorded: what `start` gives on a GPU.

    stepper = model.start_recorded(source, capacity=32)
    stepper.step(tokens)                      (N,) → logits (N, V), which hold until the next step
    stepper.select(rows, same_source=True)    beams change places: a table of numbers is reordered, no key is moved
    stepper.follow(stepper.write(tokens, …))  a greedy step, its choice included, which never leaves the device

What the rows hold is brought into the buffers of a recording at the first step. When rows leave or multiply, or the
room is outrun, it moves into those of another one. Shapes are rounded up, so that a few recordings serve many batches;
rows that only fill up are computed and never looked at.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.errors import ShapeError, UsageError
from regard.fast.gpu.capture import Recordable, Recording, Shape, attentions
from regard.fast.gpu.static_cache import LaneMemory

if TYPE_CHECKING:
    from regard.fast.gpu.greedy import GreedyBooks as Books

Layers = list[tuple[Tensor, Tensor]]  # keys and values, layer by layer

_SOURCE_STEP, _CAPACITY_STEP = 16, 32


@dataclass(frozen=True)
class Contents:
    """What N rows hold, wherever it lies; selecting rows moves numbers, not keys.

    past       (T, ·, G, E) a layer; the past of row r lies in rows ancestors[:, r] and counts from starts[r]
    source     (·, G, S, E) a layer; `per_source` rows that follow one another share a row of `sources`
    lengths    (·,) of the sources
    """

    ancestors: Tensor  # (T, N)
    starts: Tensor  # (N,)
    past: Layers = field(default_factory=list)
    source: Layers = field(default_factory=list)
    sources: Tensor | None = None  # (n,)
    lengths: Tensor | None = None
    per_source: int = 1

    @classmethod
    def of_source(cls, source: Layers, lengths: Tensor) -> Contents:
        """Rows that have read a source each (B, G, S, E) and written nothing."""
        rows = torch.arange(len(lengths), device=lengths.device)
        return cls(rows.expand(0, -1), torch.zeros_like(rows), source=source, sources=rows, lengths=lengths)

    @classmethod
    def of_past(cls, past: Layers, starts: Tensor) -> Contents:
        """Rows that have read prompts: past (T, N, G, E), or nothing at all."""
        rows = torch.arange(len(starts), device=starts.device)
        return cls(rows.expand(len(past[0][0]) if past else 0, -1), starts, past)

    @classmethod
    def of_recording(cls, recording: Recording, n_rows: int, length: int) -> Contents:
        """What a recording's buffers hold."""
        memory, per_source = recording.memory, recording.shape.per_source
        return cls(
            memory.lanes.ancestors[:length, :n_rows],
            memory.lanes.starts[:n_rows],
            [(cache.keys, cache.values) for cache in memory.past] if length else [],
            [(cache.keys, cache.values) for cache in memory.source],
            torch.arange(n_rows // per_source, device=recording.tokens.device),
            memory.source[0].lengths if memory.source else None,
            per_source,
        )

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.starts)

    def select(self, rows: Tensor, *, same_source: bool) -> Contents:
        """Row i of these is what row rows[i] was."""
        ancestors = self.ancestors[:, rows]
        if same_source:
            return replace(self, ancestors=ancestors)
        chosen = replace(self, ancestors=ancestors, starts=self.starts[rows])
        if self.sources is None or not self.source:
            return chosen
        per_source, kept = _shared((rows // self.per_source).tolist())
        return replace(chosen, sources=self.sources[torch.tensor(kept, device=rows.device)], per_source=per_source)

    def bring_into(self, memory: LaneMemory) -> None:
        """Copy it all into the first rows of fixed buffers; rows behind them stand at nothing."""
        memory.lanes.restart(len(self.ancestors), starts=self.starts)
        for cache, held in zip(memory.past, self.past, strict=bool(self.past)):
            cache.fill(*held, ancestors=self.ancestors)
        if self.source and self.sources is not None and self.lengths is not None:
            memory.source[0].lengths[: len(self.sources)] = self.lengths[self.sources]
            for source, kept in zip(memory.source, self.source, strict=True):
                source.fill(*kept, rows=self.sources)


class RecordedStepper:
    """Rows in flight over a recording's buffers; unwatched, and without gradients."""

    def __init__(self, model: Recordable, contents: Contents, *, capacity: int) -> None:
        self.model = model
        self.n_rows, self.length = contents.n_rows, len(contents.ancestors)
        self._capacity = max(1, capacity)
        self._contents: Contents | None = contents
        self._recording: Recording | None = None
        self._leases: list[weakref.finalize[..., RecordedStepper]] = []
        self._taps = [part.tap for kind in ("masked", "cross") for part in attentions(model, kind)]
        self._stream = model.recordings.stream(self.device)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.output_weight.device

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V); the next step writes over them."""
        self._check(tokens)
        if self._recording is None or self.length >= self._recording.shape.capacity:
            self._settle()
        assert self._recording is not None
        self.model.check_step(tokens, length=self.length, lanes=self._recording.memory.lanes)
        logits = self._recording.step(self.model, tokens, stream=self._stream)
        self.length += 1
        return logits

    @torch.inference_mode()
    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        if same_source and self._recording is not None:
            if self.length:
                self._recording.memory.lanes.reorder(rows, length=self.length)
            return
        self._contents = self._leave().select(rows, same_source=same_source)
        self.n_rows = len(rows)

    @torch.inference_mode()
    def write(self, tokens: Tensor, limits: Tensor, *, eos_id: int, pad_id: int, step: int, min_length: int) -> Books:
        """Stand ready for greedy steps: tokens (N,) are fed first, and rows write up to `limits` (N,) in all.

        step         how many tokens they have written before
        min_length   how many there have to be before an end
        """
        self._check(tokens)
        self._capacity = max(self._capacity, self.length + int(limits.max()) - step)
        if self._recording is None or self._capacity > self._recording.shape.capacity:
            self._settle()
        assert self._recording is not None
        self._recording.tokens[: self.n_rows] = tokens
        books = self._recording.books(eos_id=eos_id, pad_id=pad_id)
        books.begin(limits, step=step, min_length=min_length)
        return books

    @torch.inference_mode()
    def follow(self, books: Books) -> None:
        """One greedy step of what `write` has begun."""
        recording = self._recording
        assert recording is not None
        self._check(recording.tokens[: self.n_rows])
        self.model.check_step(recording.tokens[: self.n_rows], length=self.length, lanes=recording.memory.lanes)
        recording.follow(self.model, books, stream=self._stream)
        self.length += 1

    def attention(self) -> Tensor | None:
        """Nothing: recorded steps are not watched."""
        return None

    def _check(self, tokens: Tensor) -> None:
        if len(tokens) != self.n_rows:
            raise ShapeError(f"{len(tokens)} tokens were given for {self.n_rows} rows; allowed is one a row")
        if any(tap.watchers for tap in self._taps):
            raise UsageError(
                "recorded steps cannot be watched, and watching began after they did",
                hint="start the decoding inside the `watch` block, or with watched=True",
            )

    def _leave(self) -> Contents:
        """What the rows hold, taken out of the recording; its buffers stay ours until that has moved."""
        if self._recording is not None:
            self._contents = Contents.of_recording(self._recording, self.n_rows, self.length)
            self._recording = None
        assert self._contents is not None
        return self._contents

    def _settle(self) -> None:
        """Move into a recording that has room."""
        if self.length >= self._capacity:  # more steps came than were announced
            self._capacity = 2 * self.length
        contents = self._leave()
        recording = self.model.recordings.take(self.model, self._shape(contents))
        lease = weakref.finalize(self, self.model.recordings.give_back, recording)
        lease.atexit = False
        contents.bring_into(recording.memory)
        for left in self._leases:
            left()
        self._leases, self._recording, self._contents = [lease], recording, None

    def _shape(self, contents: Contents) -> Shape:
        device, per_source = self.device.type, contents.per_source
        autocast = torch.is_autocast_enabled(device)
        return Shape(
            n_rows=_rounded(contents.n_rows // per_source) * per_source,
            per_source=per_source,
            n_source=_rounded(contents.source[0][0].shape[2], _SOURCE_STEP) if contents.source else 0,
            capacity=_rounded(self._capacity, _CAPACITY_STEP),
            dtype=torch.get_autocast_dtype(device) if autocast else self.model.output_weight.dtype,
            autocast=autocast,
        )


def _rounded(number: int, step: int = 1) -> int:
    """Up to a multiple of `step`, or of an eighth or so of the number: few different ones, and little in vain."""
    step = max(step, 1 << max(0, number.bit_length() - 4))
    return -(-number // step) * step


def _shared(sources: list[int]) -> tuple[int, list[int]]:
    """How many neighbours share a source all along, and the sources without their repetitions."""
    runs = [(source, len(list(run))) for source, run in groupby(sources)]
    widths = {width for _, width in runs}
    return (widths.pop(), [source for source, _ in runs]) if len(widths) == 1 else (1, sources)
