"""What graph capture needs of a model: its source or prompts read into a cache, and one step over static caches.

    model = graph_model(module)            the adapter of a Transformer or of a GPT; None for other models
    model.read(source)                     what the rows hold before their first step
    model.step(tokens, cache)              (N,) → logits (N, V); it asks the device nothing

`TransformerStepper` and `GPTStepper` are the readable twins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention import Cache, Causal, Learned, MultiHeadAttention, Rows
from regard.errors import UsageError
from regard.fast.gpu.output_product import is_ragged, output_product
from regard.fast.gpu.static_cache import (
    CacheContents,
    Layers,
    StaticCrossCache,
    StaticDecoderCache,
    StaticKVCache,
    StaticSlots,
)
from regard.layers.blocks import DecoderBlock, DecoderStack, EncoderBlock, EncoderStack, Residual
from regard.models.gpt import GPT, GPTStepper, refuse_beyond
from regard.models.transformer import Transformer, padded_rows

Step = Callable[[Tensor, StaticDecoderCache], Tensor]
Module = TypeVar("Module", bound=GPT | Transformer)


class GraphModel(ABC, Generic[Module]):
    """A model whose decoding steps can be captured."""

    def __init__(self, module: Module) -> None:
        self.module = module

    reads_past_ends = False  # whether what is behind a row's end changes nothing of what is before it

    def read(self, inputs: Tensor | Rows) -> CacheContents:
        """What the rows of a source, or of prompts, hold before their first step; by graphs where shapes come again."""
        from regard.fast.gpu.graph_pool import pool_of  # here, because pools are of such models

        return pool_of(self.module).read(self, inputs)

    def read_plainly(self, inputs: Tensor | Rows) -> CacheContents:
        """The same of exactly these rows and positions, without a graph."""
        rows = self.unread(inputs)
        return self.contents(self.read_layers(rows), rows)

    @abstractmethod
    def unread(self, inputs: Tensor | Rows) -> Rows:
        """What there is to be read of inputs."""

    @abstractmethod
    def read_layers(self, rows: Rows) -> Layers:
        """The keys and values of these rows, layer by layer; it asks the device nothing."""

    @abstractmethod
    def first_of(self, layers: Layers, n_rows: int, length: int) -> Layers:
        """Those of the first rows and positions alone."""

    @abstractmethod
    def contents(self, layers: Layers, rows: Rows, *, whole: Tensor | None = None) -> CacheContents:
        """What rows hold that have read so; `whole` is all of the layers in one tensor."""

    def reserve(self, length: int) -> None:
        """Have positions ready for rows of this length."""
        if self.module.positions is not None:
            self.module.positions.reserve(length)

    @abstractmethod
    def step(self, tokens: Tensor, cache: StaticDecoderCache) -> Tensor:
        """One decoding step over static caches: the last token of each row (N,) → logits of the next (N, V)."""

    @abstractmethod
    def check_step(self, tokens: Tensor, *, length: int, slots: StaticSlots) -> None:
        """Refuse the step after `length` positions if there is no position for it."""

    @property
    def position_limit(self) -> int | None:
        """How many positions were learned; None where any number can be had."""
        positions = self.module.positions
        return len(positions.table.weight) if isinstance(positions, Learned) else None

    def gemv_step(self) -> Step | None:
        """The same as `step`, made for few rows on a GPU; None where the model's parts do not allow it."""
        return None

    def attentions(self, kind: str) -> list[MultiHeadAttention]:
        """The model's attentions of one kind, layer by layer."""
        return [part for part in self._attentions if part.tap.kind == kind]

    @cached_property
    def _attentions(self) -> list[MultiHeadAttention]:
        return [part for part in self.module.modules() if isinstance(part, MultiHeadAttention)]

    def logits(self, hidden: Tensor) -> Tensor:
        """What `unembed` makes of hidden states (N, D): (N, V)."""
        module, weight = self.module, self.module.output_weight
        plain = module.output_bias is None and not torch.is_autocast_enabled(hidden.device.type)
        if plain and hidden.dtype == weight.dtype and is_ragged(weight) and not torch.compiler.is_compiling():
            return output_product(hidden, weight)
        return module.unembed(hidden)


class GraphTransformer(GraphModel[Transformer]):
    """A Transformer: a source for each row."""

    def unread(self, inputs: Tensor | Rows) -> Rows:
        """The whole source."""
        return padded_rows(Rows.of(inputs))

    @torch.no_grad()
    def read_layers(self, rows: Rows) -> Layers:
        """The source's, (B, G, S, E) each."""
        with any_shape(rows.ids.device):
            kv_cache = self.module.decoder.prefill(self.module.encode(rows), capacity=1)
        return [(cache.keys, cache.values) for cache in kv_cache.source]

    def first_of(self, layers: Layers, n_rows: int, length: int) -> Layers:
        """Rows come first, positions third."""
        return [(keys[:n_rows, :, :length], values[:n_rows, :, :length]) for keys, values in layers]

    def contents(self, layers: Layers, rows: Rows, *, whole: Tensor | None = None) -> CacheContents:
        """Rows that have a source each."""
        lengths = rows.lengths
        if lengths is None:
            lengths = torch.full((len(rows.ids),), rows.ids.shape[1], device=rows.ids.device)
        return CacheContents.of_source(layers, lengths, whole=whole)

    def step(self, tokens: Tensor, cache: StaticDecoderCache) -> Tensor:
        """As `TransformerStepper.step`."""
        model, positions = self.module, cache.slots.positions[:, None]
        hidden: Tensor = model.target_embedding(tokens[:, None])
        if model.positions is not None:
            hidden = model.positions(hidden, positions=positions)
        return self.logits(step_stack(model.decoder, hidden, cache, positions)[:, 0])

    def check_step(self, tokens: Tensor, *, length: int, slots: StaticSlots) -> None:
        """Refuse a step beyond the last position."""
        if self.module.positions is not None:
            self.module.positions.reserve(length + 1)


class GraphGPT(GraphModel[GPT]):
    """A language model: a prompt for each row."""

    reads_past_ends = True  # who looks back only never sees what comes behind

    def unread(self, inputs: Tensor | Rows) -> Rows:
        """The prompts without the last token of each, which is the first to step with."""
        rows = Rows.of(inputs)
        begun = GPTStepper(self.module, rows, capacity=1, watched=False, reads=False)
        n_read = begun.n_prompt - 1
        return Rows(rows.ids[:, :n_read], None if begun.starts is None else n_read - begun.starts)

    @torch.no_grad()
    def read_layers(self, rows: Rows) -> Layers:
        """The prompts', (T, N, G, E) each; what is behind a row's end means nothing."""
        model, length = self.module, rows.ids.shape[1]
        if not length:
            return []
        self.reserve(length)
        caches = [Cache(length) for _ in model.stack.blocks]
        with any_shape(rows.ids.device):
            model.stack(model.embed(rows.ids), mask=Causal(), caches=caches)
        return [(_time_first(cache.keys), _time_first(cache.values)) for cache in caches]

    def first_of(self, layers: Layers, n_rows: int, length: int) -> Layers:
        """Positions come first, rows second."""
        return [(keys[:length, :n_rows], values[:length, :n_rows]) for keys, values in layers]

    def contents(self, layers: Layers, rows: Rows, *, whole: Tensor | None = None) -> CacheContents:
        """Rows that stand behind what they have read."""
        n_rows, length = rows.ids.shape
        lengths = rows.lengths
        if lengths is None:
            lengths = torch.full((n_rows,), length, device=rows.ids.device)
        return CacheContents.of_past(layers, lengths, whole=whole)

    def step(self, tokens: Tensor, cache: StaticDecoderCache) -> Tensor:
        """As `GPTStepper.step`."""
        model, positions = self.module, cache.slots.positions[:, None]
        if self.position_limit is not None:
            positions = positions.clamp(max=self.position_limit - 1)
        hidden = step_stack(model.stack, model.embed(tokens[:, None], positions=positions), cache, positions)
        return self.logits(hidden[:, 0])

    def check_step(self, tokens: Tensor, *, length: int, slots: StaticSlots) -> None:
        """Refuse a step beyond the last learned position, unless all rows that have come there are done."""
        limit = self.position_limit
        if limit is not None and length >= limit:
            pad_id = self.module.config.pad_id
            refuse_beyond(limit, tokens[slots.positions[: len(tokens)] >= limit], pad_id=pad_id)

    def gemv_step(self) -> Step | None:
        """In half as many kernels."""
        from regard.fast.gpu.few_rows.gemv_step import GemvStep  # here, because Triton comes with GPU builds only

        model = self.module
        return GemvStep.of(model.embedding, model.positions, stack=model.stack, output=model.output_weight)


@contextmanager
def any_shape(device: torch.device) -> Iterator[None]:
    """Attention by kernels that take any shape as it comes.

    cuDNN's, which PyTorch prefers on recent GPUs, make a plan for every new one, and that takes longer than reading
    inputs does, of which hardly two have the same shape.
    """
    if device.type != "cuda":
        yield
        return
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield


def graph_model(module: nn.Module) -> GraphTransformer | GraphGPT | None:
    """The adapter for a model; None where there is none."""
    if isinstance(module, Transformer):
        return GraphTransformer(module)
    return GraphGPT(module) if isinstance(module, GPT) else None


def step_stack(
    stack: EncoderStack | DecoderStack, hidden: Tensor, cache: StaticDecoderCache, positions: Tensor
) -> Tensor:
    """One new position a row, (N, 1, D) → (N, 1, D); `positions` (N, 1) are for rotary heads."""
    parts = list(_parts(stack, cache, positions))
    # A norm that comes first is computed with the sum before it.
    firsts = [residual.norm if residual.pre else None for residual, _ in parts[1:]] + [stack.final_norm]
    normed: Tensor | None = None
    for (residual, part), first in zip(parts, firsts, strict=True):
        if residual.pre:
            made = part(residual.norm(hidden) if normed is None else normed)
            hidden, normed = (hidden + made, None) if first is None else _sum_and_norm(hidden, made, first)
        else:
            (_, hidden), normed = _sum_and_norm(hidden, part(hidden), residual.norm), None
    if stack.final_norm is not None and normed is None:
        normed = stack.final_norm(hidden)
    return hidden if normed is None else normed


def _parts(
    stack: EncoderStack | DecoderStack, cache: StaticDecoderCache, positions: Tensor
) -> Iterator[tuple[Residual, Callable[[Tensor], Tensor]]]:
    """What the blocks of a stack do one after another, each with its shortcut and its norm."""
    sources: Sequence[StaticCrossCache | None] = cache.source or [None] * len(cache.past)
    for block, past, source in zip(stack.blocks, cache.past, sources, strict=True):
        assert isinstance(block, EncoderBlock | DecoderBlock)
        yield block.around_attention, partial(step_heads, block.attention, cache=past, positions=positions)
        if isinstance(block, DecoderBlock):
            assert source is not None
            yield block.around_cross, partial(step_heads, block.cross, cache=source, positions=positions)
        yield block.around_feedforward, block.feedforward


def _sum_and_norm(hidden: Tensor, part: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """hidden + part, and the norm of that."""
    if hidden.is_cuda and not torch.compiler.is_compiling():
        # Here, because Triton comes with GPU builds only.
        from regard.fast.gpu.residual_kernels import suits, sum_and_norm

        if suits(norm, hidden, part):
            return sum_and_norm(hidden, part, norm)
    return (total := hidden + part), norm(total)


def step_heads(
    heads: MultiHeadAttention, hidden: Tensor, cache: StaticKVCache | StaticCrossCache, positions: Tensor
) -> Tensor:
    """One new position a row, (N, 1, D) → (N, 1, D), with a cache that attends by itself."""
    scale = heads.score.dot_scale(heads.d_head)
    if scale is None:
        raise UsageError(f"static caches compare by dot products, and the score is {type(heads.score).__name__}")
    if isinstance(cache, StaticCrossCache):
        o_NHE = cache.attend(heads.query(hidden).view(-1, heads.n_heads, heads.d_head), scale=scale)
    else:
        q_NHE, k_NGE, v_NGE = (x[:, :, 0] for x in heads.project(hidden, positions=positions))
        o_NHE = cache.attend(q_NHE, k_NGE, v_NGE, scale=scale)
    output: Tensor = heads.out(o_NHE.flatten(1)[:, None])
    return output


def _time_first(heads: Tensor) -> Tensor:
    """(N, G, T, E) → (T, N, G, E)."""
    return heads.permute(2, 0, 1, 3)
