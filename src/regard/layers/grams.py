"""A linear model of single tokens and pairs of neighbours, as a layer: what stands in a text, whatever its order.

    scores = 32 / √n · Σ_t  w[id_t] + w[hash(id_{t-1}, id_t)]        (B, K) of rows of n tokens each

The bag of grams of fastText (Joulin et al., 2017), hashed into a fixed number of buckets. All weights begin at zero.
They are small by design: a step of Adam moves every weight by the learning rate, and the factor makes that a step that
suits a linear model beside a network with the same rate.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Rows
from regard.layers.pooling import mean_of_tokens

_SCALE = 32.0
_PRIMES = (1_000_003, 7_919, 40_503)


class GramScores(nn.Module):
    """Scores of classes by the tokens and neighbouring pairs of a row, each a bucket out of `n_buckets`."""

    def __init__(self, n_buckets: int, n_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_buckets, n_outputs))

    def forward(self, rows: Rows) -> Tensor:
        """Rows (B, T) → (B, K), or packed documents (1, T) → (N, K)."""
        ids, n = rows.ids, len(self.weight)
        before = F.pad(ids[:, :-1], (1, 0), value=-1)
        if rows.positions is not None:  # a document does not know the one before it
            before = before.masked_fill(rows.positions == 0, -1)
        single = (ids * _PRIMES[0]) % n
        pairs = (before * _PRIMES[1] + ids * _PRIMES[2] + 1) % n
        found = mean_of_tokens(F.embedding(single, self.weight) + F.embedding(pairs, self.weight), rows)
        lengths = rows.lengths if rows.lengths is not None else torch.full_like(ids[:, 0], ids.shape[1])
        return _SCALE * lengths.to(found.dtype).sqrt()[:, None] * found
