"""Greedy decodings of one row each by a packed decoder, in one call a step: from their last tokens to the next.

    suits_walks(walks) and step_walks(walks)        every walk has one token more
    leave_walks(walks)                              they can step otherwise again

Between two tokens of a walk (`regard.decoding.walks`) nobody asks for anything: embedding, blocks, output and choice
are one call of the kernels for all of them. A walk is described once, when it is first seen; what the kernels count up
stays with them until somebody else has to know it. The twin is the ordinary step of `regard.decoding.joint`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from regard.attention import Learned, Sinusoidal
from regard.attention.masks import Materialized
from regard.decoding.walks import Walk
from regard.fast.cpu.decoding_step import PackedDecoderKVCache
from regard.fast.cpu.fused_stack import FusedDecoder
from regard.fast.cpu.native.structures import DecoderStep, WalkRow, WalkStep
from regard.fast.cpu.packed_linear import PackedEmbedding, PackedLinear
from regard.layers.decoder_stepper import DecoderStepper
from regard.layers.embeddings import VocabularyOutput


def suits_walks(walks: Sequence[Walk]) -> bool:
    """Whether all can be stepped so; those that are new are described."""
    model = model_of(walks[0].stepper)
    return model is not None and all(known_row(walk) is not None or model.describe(walk) for walk in walks)


def step_walks(walks: Sequence[Walk]) -> bool:
    """One step of walks that suit; those that cannot begin end with their problem."""
    model = _models[walks[0].stepper.kv_cache.fused][1]  # type: ignore[attr-defined]
    assert model is not None
    able = [walk for walk in walks if not walk.over]
    rows = [row for walk in able if (row := known_row(walk)) is not None]
    if rows:
        model.step(rows)
    for walk, row in zip(able, rows, strict=True):
        walk.go(row.token, row.log_prob)
    return True


def leave_walks(walks: Sequence[Walk]) -> bool:
    """Let the caches of walks know what the kernels have added to them; False: nothing was stepped."""
    for walk in walks:
        if (row := known_row(walk)) is not None:
            cache = walk.stepper.kv_cache  # type: ignore[attr-defined]
            for past in cache.past:
                past.length = row.rows.length
            cache.walk = None
    return False


class WalkingModel:
    """What the walks by one decoder have in common."""

    def __init__(self, fused: FusedDecoder, stepper: DecoderStepper, output: PackedLinear, bias: Tensor | None) -> None:
        embedding, heads = stepper.embed.embedding, fused.heads
        self.fused, self.embedding, self.positions = fused, embedding, stepper.embed.positions
        self.output, self.bias = output, bias
        assert output.native is not None
        self.n_tokens: int = output.native.structure.n_out
        self.call = WalkStep(
            DecoderStep(
                *(ctypes.addressof(fused.facts), None, None, len(fused.blocks), 0, 0, embedding.weight.shape[1]),
                *(heads.n_heads, heads.n_kv_heads, heads.d_head, fused.cache.dtype == torch.bfloat16, fused.scale),
            ),
            *(None, embedding.weight.data_ptr(), None, ctypes.addressof(output.native.structure)),
            *(None if bias is None else bias.data_ptr(), 0, embedding.scale),
        )

    @classmethod
    def of(cls, stepper: DecoderStepper) -> WalkingModel | None:
        """Of a decoder whose parts are all such as the kernels know."""
        cache, model = stepper.kv_cache, getattr(stepper.unembed, "__self__", None)
        if not isinstance(cache, PackedDecoderKVCache) or not isinstance(model, VocabularyOutput):
            return None
        tied = getattr(model, model.tied_to)
        output: object = model.output or (tied.output if isinstance(tied, PackedEmbedding) else None)
        if cache.fused is None or not isinstance(output, PackedLinear) or output.native is None:
            return None
        bias = None if model.output_bias is None else model.output_bias.detach()
        numbers = [stepper.embed.embedding.weight, *([] if bias is None else [bias])]
        plain = all(one.dtype == torch.float32 and one.is_contiguous() for one in numbers)
        return cls(cache.fused, stepper, output, bias) if plain and stepper.decoder.final_norm is None else None

    def describe(self, walk: Walk) -> bool:
        """Say where the caches of a walk are, with room for all that it may write; False where it does not suit."""
        stepper = walk.stepper
        assert isinstance(stepper, DecoderStepper)
        cache, left = stepper.kv_cache, walk.limit - len(walk.tokens)
        plain = isinstance(cache, PackedDecoderKVCache) and cache.own is None and cache.per_source == 1
        plain, mask = plain and not stepper.is_restricted, stepper.memory_mask
        if not plain or not isinstance(mask, Materialized | None) or not self._takes(walk.token, cache.length + left):
            return False
        assert isinstance(cache, PackedDecoderKVCache)
        assert cache.fused_caches is not None
        shape = (1, self.fused.heads.n_kv_heads, self.fused.heads.d_head)
        seen = None if mask is None else mask.allowed.reshape(1, -1).contiguous()
        rows = cache.fused_caches.reserve(cache.length + left, shape)
        rows.n_rows = rows.past_width = rows.source_width = 1
        rows.own, rows.source_mask = None, None if seen is None else seen.data_ptr()
        cache.walk = WalkRow(rows, walk.token, 0.0), seen
        if (problem := walk.check_vocabulary(self.n_tokens)) is not None:
            walk.fail(problem)
        return True

    def step(self, rows: Sequence[WalkRow]) -> None:
        """One token more for each."""
        call = WalkStep.from_buffer_copy(self.call)
        table = None if self.positions is None else table_of(self.positions)  # held: another thread may make it longer
        addresses = (ctypes.c_void_p * len(rows))(*map(ctypes.addressof, rows))
        call.rows, call.n_rows = ctypes.addressof(addresses), len(rows)
        call.positions = None if table is None else table.data_ptr()
        kernels = self.fused.kernels
        kernels.walk_step(kernels.threads, ctypes.addressof(call))

    def _takes(self, token: int, n_positions: int) -> bool:
        """Whether there are a vector for a token and as many positions."""
        positions = self.positions
        if isinstance(positions, Sinusoidal):
            positions.reserve(n_positions)
        enough = positions is None or n_positions <= len(table_of(positions))
        return enough and 0 <= token < self.embedding.n_tokens


_models: WeakKeyDictionary[FusedDecoder, tuple[Any, WalkingModel | None]] = WeakKeyDictionary()


def model_of(stepper: object) -> WalkingModel | None:
    """What a stepper's walks are stepped by, found once for all steppers of a model; None while it is watched."""
    cache = getattr(stepper, "kv_cache", None)
    if not isinstance(cache, PackedDecoderKVCache) or cache.fused is None or not cache.is_plain:
        return None
    assert isinstance(stepper, DecoderStepper)
    owner, known = getattr(stepper.unembed, "__self__", None), _models.get(cache.fused)
    if known is None or known[0] is not owner:
        known = _models[cache.fused] = owner, None if stepper.watched else WalkingModel.of(stepper)
    return known[1]


def known_row(walk: Walk) -> WalkRow | None:
    """What a walk is to the kernels, if it was described."""
    known = getattr(getattr(walk.stepper, "kv_cache", None), "walk", None)
    row: WalkRow | None = None if known is None else known[0]
    return row


def table_of(positions: Sinusoidal | Learned) -> Tensor:
    """The numbers of positions, as far as there are any."""
    return positions.table if isinstance(positions, Sinusoidal) else positions.table.weight
