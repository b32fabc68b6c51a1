"""Ids to vectors, and vectors back to scores over ids.

embed(ids)             (..., T) → (..., T, D), times √D when scaled            Vaswani et al. (2017), section 3.4
embed.unembed(hidden)  (..., T, D) → (..., T, V) with the same matrix: tied    Press & Wolf (2017)
VocabularyOutput       what models with an output over ids have in common
in_working_precision(vectors)    the vectors as a stack of blocks should get them
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.norms import working_precision


class Embedding(nn.Module):
    """A learned vector for each id. `scaled` multiplies by √D, so that tied weights can stay small as outputs."""

    def __init__(
        self, n_tokens: int, d_model: int, *, scaled: bool = False, pad_id: int | None = None, std: float | None = None
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_tokens, d_model))
        nn.init.normal_(self.weight, std=std if std is not None else (d_model**-0.5 if scaled else 1.0))
        if pad_id is not None:
            nn.init.zeros_(self.weight.data[pad_id])
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.pad_id = pad_id

    @property
    def n_tokens(self) -> int:
        """How many ids there are."""
        return self.weight.shape[0]

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (..., T) → vectors (..., T, D)."""
        vectors = F.embedding(ids, self.weight, padding_idx=self.pad_id)
        return vectors if self.scale == 1.0 else vectors * self.scale

    def unembed(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) → scores over ids (..., V), by the same matrix."""
        return F.linear(hidden, self.weight)


class VocabularyOutput(nn.Module):
    """A model with an output over ids: the matrix of its `output`, or of the embedding that is called `tied_to`."""

    tied_to: ClassVar[str] = "embedding"
    output: nn.Linear | None
    output_bias: Tensor | None

    def unembed(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) → logits (..., V)."""
        logits: Tensor = getattr(self, self.tied_to).unembed(hidden) if self.output is None else self.output(hidden)
        return logits if self.output_bias is None else logits + self.output_bias

    @property
    def output_weight(self) -> Tensor:
        """The matrix (V, D) that `unembed` multiplies by; `output_bias` (V,) is what it adds, if anything."""
        layer: Embedding | nn.Linear = getattr(self, self.tied_to) if self.output is None else self.output
        return layer.weight


def in_working_precision(vectors: Tensor) -> Tensor:
    """Vectors (..., D) in bfloat16 where matrix products are computed in it (autocast), otherwise as they are.

    Embeddings are not products, so they come in single precision, and every block that adds to them would go on in it:
    twice the memory to read and write at each addition and norm. Sums over a stack are short enough for bfloat16.
    """
    return vectors.to(torch.bfloat16) if working_precision(vectors) == torch.bfloat16 else vectors
