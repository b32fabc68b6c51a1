"""KV caches that stay where they are, for rows that are decoded step by step: what a CUDA graph is captured over.

    StaticSlots         where N rows stand: positions (N,), ancestors (capacity, N); shared by all layers
    StaticKVCache       the past keys and values of one layer, (capacity, N, G, E)
    StaticCrossCache    the source's keys and values of one layer, (n, G, S, E), with lengths (n,)
    StaticDecoderCache  those of all layers
    CacheContents       what rows hold before it is copied into such caches, or between two of them

Every row of N writes its key of time t into its own row of the caches, once, and its own number into ancestors[t, r].
Row r's past lies in the rows that stand there, so that beams change places by moving these numbers. Each row stands at
a position of its own: prompts of different lengths all begin at time 0, and rows come and go while others go on.
`attend` is one Triton kernel on a GPU, see `decode_attention`; elsewhere it is written out, which is what the kernels
are tested against.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard.attention.core import attend_explicitly
from regard.attention.scores import ScaledDot
from regard.errors import ShapeError
from regard.layers.kv_cache import shared_sources

Layers = list[tuple[Tensor, Tensor]]  # keys and values, layer by layer


class StaticSlots:
    """Where N rows stand in time, and whose past is whose: row r holds times 0 to positions[r] − 1."""

    def __init__(self, n_rows: int, *, capacity: int, device: torch.device) -> None:
        self.n_rows, self.capacity = n_rows, capacity
        self.positions = torch.zeros(n_rows, dtype=torch.int64, device=device)
        self.ancestors = self._themselves().expand(capacity, -1).contiguous()
        self._spare = torch.empty_like(self.ancestors)

    def restart(self, positions: Tensor) -> None:
        """The first rows stand at these positions, those behind them at 0, each with its own past."""
        self.positions.zero_()
        self.positions[: len(positions)] = positions
        self.ancestors.copy_(self._themselves())

    def reorder(self, rows: Tensor, *, length: int) -> None:
        """Row i goes on with the past of row rows[i], of which `length` positions are filled."""
        moved = self._spare[:length, : len(rows)]
        torch.index_select(self.ancestors[:length], 1, rows, out=moved)
        self.ancestors[:length, : len(rows)] = moved

    def first(self, n_rows: int) -> StaticSlots:
        """The first rows alone, in the same memory."""
        some = copy(self)
        some.n_rows, some.positions = n_rows, self.positions[:n_rows]
        return some

    def _themselves(self) -> Tensor:
        return torch.arange(self.n_rows, dtype=torch.int32, device=self.positions.device)


class StaticKVCache:
    """The keys and values that N rows have cached in one layer; it attends by itself."""

    def __init__(
        self, slots: StaticSlots, n_kv_heads: int, width: int, *, dtype: torch.dtype, memory: Tensor | None = None
    ) -> None:
        """`memory` (2, capacity, N, G, E), all zeros, is where its keys and values are to lie."""
        shape = (slots.capacity, slots.n_rows, n_kv_heads, width)
        self.slots = slots
        self.keys, self.values = _keys_and_values(memory, shape, dtype, slots.positions.device)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scale: float) -> Tensor:
        """Cache key and value (N, G, E) at the rows' positions, and attend up to there: query (N, H, E) → (N, H, E)."""
        if len(query) != self.slots.n_rows:
            raise ShapeError(f"a cache of {self.slots.n_rows} rows cannot take {len(query)} rows")
        if not query.is_cuda:
            return attend_past_explicitly(query, key, value, cache=self, scale=scale)
        from regard.fast.gpu.decode_attention import attend_past  # here, because Triton comes with GPU builds only

        slots = self.slots
        query, key, value = _together(query), _together(key), _together(value)
        output: Tensor = attend_past(query, key, value, self.keys, self.values, slots.positions, slots.ancestors, scale)
        return output

    def fill(self, keys: Tensor, values: Tensor, *, ancestors: Tensor, into: Tensor | slice) -> None:
        """Take over a past (T, ·, G, E) in which the row of each time and slot is ancestors (T, N), into some rows."""
        length = len(ancestors)
        times = torch.arange(length, device=ancestors.device)[:, None]
        rows = ancestors.long()
        self.keys[:length, into] = keys[times, rows]
        self.values[:length, into] = values[times, rows]

    def first(self, slots: StaticSlots) -> StaticKVCache:
        """The rows of these first slots alone, in the same memory."""
        some = copy(self)
        some.slots = slots
        return some


class StaticCrossCache:
    """The keys and values of n sources in one layer, each looked at by `per_source` rows that follow one another."""

    def __init__(
        self,
        lengths: Tensor,
        shape: tuple[int, int, int, int],
        *,
        per_source: int,
        dtype: torch.dtype,
        memory: Tensor | None = None,
    ) -> None:
        """`memory` (2, n, G, S, E), all zeros, is where its keys and values are to lie."""
        self.lengths, self.per_source = lengths, per_source
        self.keys, self.values = _keys_and_values(memory, shape, dtype, lengths.device)

    def attend(self, query: Tensor, *, scale: float) -> Tensor:
        """Each row looks at its source: query (N, H, E) → (N, H, E)."""
        if len(query) != len(self.lengths) * self.per_source:
            raise ShapeError(f"{len(self.lengths)} sources of {self.per_source} rows cannot take {len(query)} rows")
        if not query.is_cuda:
            return attend_source_explicitly(query, cache=self, scale=scale)
        from regard.fast.gpu.decode_attention import attend_source  # here, because Triton comes with GPU builds only

        output: Tensor = attend_source(_together(query), self.keys, self.values, self.lengths, self.per_source, scale)
        return output

    def fill(self, keys: Tensor, values: Tensor, *, rows: Tensor, into: Tensor | slice) -> None:
        """Take over some rows of the sources (·, G, S, E), into some of our own."""
        self.keys[into, :, : keys.shape[2]] = keys.index_select(0, rows)
        self.values[into, :, : values.shape[2]] = values.index_select(0, rows)

    def first(self, n_sources: int) -> StaticCrossCache:
        """The first sources alone, in the same memory."""
        some = copy(self)
        some.lengths, some.keys, some.values = (x[:n_sources] for x in (self.lengths, self.keys, self.values))
        return some


@dataclass
class StaticDecoderCache:
    """The caches of all layers; a language model has no source.

    Layers of one shape lie in one tensor each, keys and values in turn: what enters is then copied for all at once.
    """

    slots: StaticSlots
    past: list[StaticKVCache]
    source: list[StaticCrossCache] = field(default_factory=list)
    whole_past: Tensor | None = None  # (2L, capacity, N, G, E)
    whole_source: Tensor | None = None  # (2L, n, G, S, E)

    def first(self, n_rows: int) -> StaticDecoderCache:
        """The first rows alone, in the same memory."""
        slots = self.slots.first(n_rows)
        source = [layer.first(n_rows // layer.per_source) for layer in self.source]
        return StaticDecoderCache(slots, [layer.first(slots) for layer in self.past], source)


@dataclass(frozen=True)
class CacheContents:
    """What N rows hold, wherever it lies; selecting rows moves numbers, not keys.

    past       (T, ·, G, E) a layer; the past of row r lies in rows ancestors[:, r], up to positions[r]
    source     (·, G, S, E) a layer; `per_source` rows that follow one another share a row of `sources`
    lengths    (·,) of the sources
    whole      all layers of the past, or of the source, in one tensor, where each row's past is its own still
    """

    ancestors: Tensor  # (T, N)
    positions: Tensor  # (N,)
    past: Layers = field(default_factory=list)
    source: Layers = field(default_factory=list)
    sources: Tensor | None = None  # (n,)
    lengths: Tensor | None = None
    per_source: int = 1
    whole_past: Tensor | None = None
    whole_source: Tensor | None = None

    @classmethod
    def of_source(cls, source: Layers, lengths: Tensor, *, whole: Tensor | None = None) -> CacheContents:
        """Rows that have read a source each (B, G, S, E) and written nothing."""
        rows = torch.arange(len(lengths), device=lengths.device)
        return cls(rows.expand(0, -1), torch.zeros_like(rows), source=source, sources=rows, lengths=lengths,
                   whole_source=whole)  # fmt: skip

    @classmethod
    def of_past(cls, past: Layers, positions: Tensor, *, whole: Tensor | None = None) -> CacheContents:
        """Rows that have read prompts of so many positions: past (T, N, G, E), or nothing at all."""
        rows = torch.arange(len(positions), device=positions.device)
        return cls(rows.expand(len(past[0][0]) if past else 0, -1), positions, past, whole_past=whole)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.positions)

    def tensors(self) -> list[Tensor | None]:
        """All that it holds."""
        layers = [part for several in (self.past, self.source) for layer in several for part in layer]
        wholes = [self.whole_past, self.whole_source]
        return [self.ancestors, self.positions, self.sources, self.lengths, *wholes, *layers]

    def select(self, rows: Tensor, *, same_source: bool) -> CacheContents:
        """Row i of these is what row rows[i] was."""
        ancestors = self.ancestors[:, rows]
        if same_source:
            return replace(self, ancestors=ancestors, whole_past=None)
        chosen = replace(self, ancestors=ancestors, positions=self.positions[rows], whole_past=None)
        if self.sources is None or not self.source:
            return chosen
        per_source, kept = shared_sources(rows // self.per_source)
        return replace(chosen, sources=self.sources[kept], per_source=per_source)

    def copy_into(self, cache: StaticDecoderCache) -> None:
        """Copy it all into the first rows of static caches; rows behind them stand at nothing."""
        cache.slots.restart(self.positions)
        self._fill(cache, rows=slice(self.n_rows), sources=slice(self.n_rows // self.per_source))

    def copy_to(self, cache: StaticDecoderCache, rows: Tensor) -> None:
        """Copy it all into these rows (N,) of static caches with a source a row; the others stay as they are."""
        cache.slots.positions[rows] = self.positions
        cache.slots.ancestors[:, rows] = rows.int()
        each = self if self.sources is None else self._with_a_source_a_row()
        each._fill_past(cache, rows)
        each._fill_source(cache, rows)

    def _fill(self, cache: StaticDecoderCache, *, rows: Tensor | slice, sources: Tensor | slice) -> None:
        """Layer by layer, so that no more than one is copied on the way."""
        if self.whole_past is not None and cache.whole_past is not None:
            cache.whole_past[:, : len(self.ancestors), rows] = self.whole_past
        else:
            for layer, held in zip(cache.past, self.past, strict=bool(self.past)):
                layer.fill(*held, ancestors=self.ancestors, into=rows)
        if self.source and self.sources is not None and self.lengths is not None:
            cache.source[0].lengths[sources] = self.lengths[self.sources]
            if self.whole_source is not None and cache.whole_source is not None:
                held_LNGSE = self.whole_source.index_select(1, self.sources)
                cache.whole_source[:, sources, :, : held_LNGSE.shape[3]] = held_LNGSE
                return
            for source, kept in zip(cache.source, self.source, strict=True):
                source.fill(*kept, rows=self.sources, into=sources)

    def _fill_past(self, cache: StaticDecoderCache, rows: Tensor) -> None:
        """All layers at once, where they lie together."""
        if cache.whole_past is None:
            replace(self, source=[])._fill(cache, rows=rows, sources=rows)
        elif self.past:
            held_LTNGE, length = self.whole_past, len(self.ancestors)
            if held_LTNGE is None:
                times = torch.arange(length, device=rows.device)[:, None]
                held_LTNGE = stacked(self.past)[:, times, self.ancestors.long()]
            cache.whole_past[:, :length, rows] = held_LTNGE

    def _fill_source(self, cache: StaticDecoderCache, rows: Tensor) -> None:
        if cache.whole_source is None:
            replace(self, past=[])._fill(cache, rows=rows, sources=rows)
        elif self.source and self.sources is not None and self.lengths is not None:
            held_LNGSE = stacked(self.source) if self.whole_source is None else self.whole_source
            cache.source[0].lengths[rows] = self.lengths[self.sources]
            cache.whole_source[:, rows, :, : held_LNGSE.shape[3]] = held_LNGSE.index_select(1, self.sources)

    def _with_a_source_a_row(self) -> CacheContents:
        assert self.sources is not None
        return replace(self, sources=self.sources.repeat_interleave(self.per_source), per_source=1)


def attend_past_explicitly(query: Tensor, key: Tensor, value: Tensor, *, cache: StaticKVCache, scale: float) -> Tensor:
    """What `StaticKVCache.attend` computes, written out over the whole capacity."""
    slots, times = cache.slots, torch.arange(cache.slots.capacity, device=query.device)
    here = torch.arange(slots.n_rows, device=query.device)
    slots.ancestors[slots.positions, here] = here.int()
    cache.keys[slots.positions, here] = key.to(cache.keys.dtype)
    cache.values[slots.positions, here] = value.to(cache.values.dtype)
    rows = slots.ancestors[:, : slots.n_rows].long()
    k_NGSE, v_NGSE = (x[times[:, None], rows].permute(1, 2, 0, 3) for x in (cache.keys, cache.values))
    allowed_NS = times <= slots.positions[:, None]
    return _written_out(query, k_NGSE, v_NGSE, allowed_NS, scale=scale)


def attend_source_explicitly(query: Tensor, *, cache: StaticCrossCache, scale: float) -> Tensor:
    """What `StaticCrossCache.attend` computes, written out."""
    k_NGSE, v_NGSE = (x.repeat_interleave(cache.per_source, 0) for x in (cache.keys, cache.values))
    times = torch.arange(k_NGSE.shape[2], device=query.device)
    allowed_nS = times < cache.lengths[:, None]
    return _written_out(query, k_NGSE, v_NGSE, allowed_nS.repeat_interleave(cache.per_source, 0), scale=scale)


def stacked(layers: Layers) -> Tensor:
    """Keys and values in turn, layer after layer, as one tensor (2L, …)."""
    return torch.stack([part for layer in layers for part in layer])


def _keys_and_values(
    memory: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Parts of a memory, or tensors of their own.

    Zeros, because what is hidden is weighed by zero where attention is written out, and must be a number.
    """
    if memory is not None:
        return memory[0], memory[1]
    return torch.zeros(shape, dtype=dtype, device=device), torch.zeros(shape, dtype=dtype, device=device)


def _together(heads: Tensor) -> Tensor:
    """Heads (N, H, E) of which each row lies together in memory, as the kernels read them."""
    return heads if heads.stride()[1:] == (heads.shape[2], 1) else heads.contiguous()


def _written_out(query: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, *, scale: float) -> Tensor:
    """Query (N, H, E), keys and values (N, G, S, E), allowed (N, S) → (N, H, E)."""
    q_NHTE, allowed_NHTS = query[:, :, None], allowed[:, None, None]
    return attend_explicitly(q_NHTE, keys, values, score=ScaledDot(scale), mask=allowed_NHTS)[:, :, 0]
