"""A decoder of blocks in the middle of writing down what was heard: its own past, and the memory's keys and values.

Beams of one recording share its keys; what belongs to the recording alone is projected once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import regard.attention as attention
from regard.attention import Causal, Padding
from regard.fast.cpu.small_query import write_out
from regard.layers import DecoderStack
from regard.models.interfaces.speech import Heard


class SpeechStepper:
    """One token a row at a time; `embed` is called with tokens (N, 1) and how many came before."""

    def __init__(
        self,
        decoder: DecoderStack,
        embed: Callable[[Tensor, int], Tensor],
        heard: Heard,
        *,
        unembed: Callable[[Tensor], Tensor],
        capacity: int,
        watched: bool,
    ) -> None:
        self.decoder, self.embed, self.unembed, self.watched = decoder, embed, unembed, watched
        self.lengths, self.n_places = heard.lengths, heard.memory.shape[1]
        self.memory = decoder.remember(heard.memory, capacity=capacity)
        self.device: torch.device = heard.memory.device
        self._weights: Tensor | None = None
        self._write_mask()

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        offset = self.memory.length
        hidden = self.embed(tokens[:, None], offset)
        options = {"mask": Causal(offset=offset), "memory_mask": self.mask, "remembered": self.memory}
        if not self.watched:
            return self.unembed(self.decoder(hidden, **options)[:, 0])
        with attention.watch(self.decoder, kinds=["cross"]) as seen:
            hidden = self.decoder(hidden, **options)
        # (recordings, H, rows of each, S) of every layer → (N, S)
        self._weights = torch.stack([sight.weights.mean(1).flatten(0, 1) for sight in seen]).mean(0)
        return self.unembed(hidden[:, 0])

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        left = self.memory.reorder(rows, same_source=same_source)
        if left is not None:
            self.lengths = self.lengths.index_select(0, left)
            self._write_mask()

    def attention(self) -> Tensor | None:
        """The last step's cross-attention (N, S), averaged over layers and heads, if the steps are watched."""
        return self._weights

    def _write_mask(self) -> None:
        self.mask = write_out(Padding(self.lengths), 1, self.n_places, device=self.device)
