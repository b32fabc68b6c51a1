"""A decoder of blocks in the middle of writing: the KV cache of its own past, and of the memory it attends to.

    stepper.step(tokens)        (N,) → logits (N, V)

Beams of one source share its keys and values; what belongs to the source alone is projected once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

import regard.attention as attention
from regard.attention import Causal, Learned, Padding, Sinusoidal
from regard.attention.masks import materialize
from regard.config.twins import twin
from regard.layers.blocks import DecoderStack
from regard.layers.embeddings import Embedding
from regard.layers.kv_cache import DecoderKVCache


class StepEmbedding:
    """Tokens as a decoder's step gets them: embedded, and told where they stand."""

    def __init__(self, embedding: Embedding, positions: Sinusoidal | Learned | None) -> None:
        self.embedding, self.positions = embedding, positions

    def __call__(self, tokens: Tensor, places: int | Tensor) -> Tensor:
        """Tokens (N, 1), and how many came before: before all of them, or before each (N, 1) → vectors (N, 1, D)."""
        embedded: Tensor = self.embedding(tokens)
        if self.positions is None:
            return embedded
        if isinstance(places, int):
            placed: Tensor = self.positions(embedded, offset=places)
        else:
            placed = self.positions(embedded, positions=places)
        return placed

    def reserve(self, place: int) -> None:
        """Refuse a place that there is no position for."""
        if self.positions is not None:
            self.positions.reserve(place + 1)


class RestrictedOutput(Protocol):
    """An output that leaves out what the rows of some sources may not write."""

    def __call__(self, hidden: Tensor) -> Tensor:
        """Hidden states (N, D) → logits (N, V), −inf for what is left out."""

    def select(self, sources: Tensor) -> None:
        """Go on with other sources."""


class DecoderStepper:
    """One token a row at a time.

    The memory is (B, S, D), row b real up to lengths[b]; without lengths all of it. `watched` steps keep their
    attention. `kv_cache` is what `prefill` makes of the memory, where somebody has done it.
    """

    def __init__(
        self,
        decoder: DecoderStack,
        memory: Tensor,
        *,
        lengths: Tensor | None = None,
        embed: StepEmbedding,
        unembed: Callable[[Tensor], Tensor],
        capacity: int,
        watched: bool,
        kv_cache: DecoderKVCache | None = None,
    ) -> None:
        self.decoder, self.embed, self.unembed, self.watched = decoder, embed, unembed, watched
        self.lengths, self.n_source = lengths, memory.shape[1]
        self.device: torch.device = memory.device
        self.kv_cache = kv_cache or decoder.prefill(memory, capacity=capacity)
        self._weights: Tensor | None = None
        self._restricted: RestrictedOutput | None = None
        self._materialize_mask()

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        narrow, width = self._narrowed(tokens)
        return self._widened(self._step(narrow), width)

    def joins(self, other: object) -> bool:
        """Whether both can step at once: they share a decoder whose products leave rows alone, and nobody watches."""
        if not isinstance(other, DecoderStepper) or other.decoder is not self.decoder:
            return False
        return not (self.watched or other.watched) and self._independent

    @cached_property
    def _independent(self) -> bool:
        """Whether products leave rows alone."""
        fast = twin("rows_independent")
        return fast is not None and (self.kv_cache.rows_independent or bool(fast(self.decoder)))

    def check_step(self, tokens: Tensor) -> None:
        """Refuse what has no embedding or no position; after the first step, tokens are the model's own."""
        place = self.kv_cache.length
        self.embed.reserve(place)
        if not place:
            self.embed(tokens[:, None], place)

    def step_with(self, others: Sequence[DecoderStepper], tokens: Sequence[Tensor]) -> list[Tensor]:
        """The logits of this one and of others that it joins."""
        steppers, fast = [self, *others], twin("decoder_steps")
        assert fast is not None, "only twins say that rows are independent"
        narrowed = [one._narrowed(own) for one, own in zip(steppers, tokens, strict=True)]
        fed, counts = torch.cat([own for own, _ in narrowed]), [len(own) for own, _ in narrowed]
        places = [one.kv_cache.length for one, n in zip(steppers, counts, strict=True) for _ in range(n)]
        stepped: Tensor | None = fast(
            [one.kv_cache for one in steppers],
            self.embed(fed[:, None], torch.tensor(places)[:, None]),
            counts=counts,
            memory_masks=[one.memory_mask for one in steppers],
        )
        if stepped is None:
            logits = [one._step(own) for one, (own, _) in zip(steppers, narrowed, strict=True)]
        else:
            normed = stepped if self.decoder.final_norm is None else self.decoder.final_norm(stepped)
            logits = self._logits_of(steppers, normed[:, 0], counts)
        return [
            own if width == 1 else one._widened(own, width)
            for one, own, (_, width) in zip(steppers, logits, narrowed, strict=True)
        ]

    def _narrowed(self, tokens: Tensor) -> tuple[Tensor, int]:
        """The tokens that have to be stepped with, and how many rows each of them stands for."""
        return tokens, 1

    def _widened(self, logits: Tensor, width: int) -> Tensor:
        """Logits of all rows again."""
        return logits

    def _step(self, tokens: Tensor) -> Tensor:
        offset = self.kv_cache.length
        hidden, mask = self.embed(tokens[:, None], offset), Causal(offset=offset)
        if not self.watched:
            hidden = self.decoder(hidden, mask=mask, memory_mask=self.memory_mask, kv_cache=self.kv_cache)
            return self._logits(hidden[:, 0])
        with attention.watch(self.decoder, kinds=["cross"]) as seen:
            hidden = self.decoder(hidden, mask=mask, memory_mask=self.memory_mask, kv_cache=self.kv_cache)
        # (sources, H, rows a source, S) of each layer → (N, S)
        self._weights = torch.stack([sight.weights.mean(1).flatten(0, 1) for sight in seen]).mean(0)
        return self._logits(hidden[:, 0])

    @property
    def is_restricted(self) -> bool:
        """Whether there are tokens that it leaves out."""
        return self._restricted is not None

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.unembed(hidden) if self._restricted is None else self._restricted(hidden)

    def _logits_of(self, steppers: Sequence[DecoderStepper], hidden: Tensor, counts: list[int]) -> list[Tensor]:
        """The logits of several, by one product where nobody leaves anything out."""
        if all(one._restricted is None for one in steppers):
            return list(self.unembed(hidden).split(counts))
        return [one._logits(own) for one, own in zip(steppers, hidden.split(counts), strict=True)]

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        sources = self.kv_cache.reorder(rows, same_source=same_source)
        if sources is not None and self._restricted is not None:
            self._restricted.select(sources)
        if sources is not None and self.lengths is not None:
            self.lengths = self.lengths.index_select(0, sources)
            self._materialize_mask()

    def attention(self) -> Tensor | None:
        """The last step's cross-attention (N, S), averaged over layers and heads, if the steps are watched."""
        return self._weights

    def _materialize_mask(self) -> None:
        """The memory's padding, in the form that is quickest to read at every step."""
        padding = None if self.lengths is None else Padding(self.lengths)
        self.memory_mask = materialize(padding, 1, self.n_source, device=self.device)
