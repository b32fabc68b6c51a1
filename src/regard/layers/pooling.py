"""One vector for a whole sequence: encoded rows (B, T, D) → (B, D), or packed documents (1, T, D) → (N, D).

    first       the first token: where a [CLS] stands                       Devlin et al. (2019)
    last        the last real token: all that a causal model has read       Radford et al. (2018)
    mean        the average of the real tokens
    attention   Σⱼ wⱼ hⱼ, w = softmax(score(q, hⱼ)) for one learned query q: attention on top of any encoder

Padding never counts. A document without tokens gives what stands beside it, or zeros: nobody is to read it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import Documents, Rows, Score, Tap


def first_token(encoded: Tensor, rows: Rows) -> Tensor:
    """The vector of each sequence's first token."""
    if rows.documents is None:
        return encoded[:, 0]
    lengths = rows.documents.lengths
    return encoded[0, (lengths.cumsum(0) - lengths).clamp(max=encoded.shape[1] - 1)]


def last_token(encoded: Tensor, rows: Rows) -> Tensor:
    """The vector of each sequence's last real token."""
    if rows.documents is not None:
        return encoded[0, (rows.documents.lengths.cumsum(0) - 1).clamp(min=0)]
    if rows.lengths is None:
        return encoded[:, -1]
    return encoded[torch.arange(len(encoded), device=encoded.device), (rows.lengths - 1).clamp(min=0)]


def mean_of_tokens(encoded: Tensor, rows: Rows) -> Tensor:
    """The average of each sequence's real tokens."""
    if rows.documents is not None and encoded.device.type == "cpu":
        # One after another, so that none feels the others.
        sums = [own.sum(0) for own in encoded[0].split(rows.documents.lengths.tolist())]
        return torch.stack(sums) / rows.documents.lengths.clamp(min=1)[:, None].to(encoded.dtype)
    if rows.documents is not None:
        owned = _one_query_each(rows).dense(
            len(rows.documents.lengths), encoded.shape[1], n_leading=0, device=encoded.device
        )
        # A product instead of a scattered sum: in the same order every time, also on a GPU.
        total = owned.to(encoded.dtype) @ encoded[0]
        return total / rows.documents.lengths.clamp(min=1)[:, None].to(encoded.dtype)
    if rows.lengths is None:
        return encoded.mean(1)
    real = torch.arange(encoded.shape[1], device=encoded.device) < rows.lengths[:, None]
    total = encoded.masked_fill(~real[..., None], 0.0).sum(1)
    return total / rows.lengths.clamp(min=1)[:, None].to(encoded.dtype)


class AttentionPooling(nn.Module):
    """A learned query looks over a sequence and takes what fits it. Watched as attention of the kind "cross"."""

    def __init__(self, d_model: int, *, score: Score) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(d_model).normal_(std=d_model**-0.5))
        self.score = score
        self.tap = Tap("cross")

    def forward(self, encoded: Tensor, rows: Rows) -> Tensor:
        """Encoded rows (B, T, D) → (B, D), or packed documents (1, T, D) → (N, D)."""
        packed = rows.documents is not None
        n_queries = len(rows.documents.lengths) if rows.documents is not None else 1
        q_B1TD = self.query.to(encoded.dtype).expand(len(encoded), 1, n_queries, -1)
        h_B1SD = encoded.unsqueeze(1)
        mask = _one_query_each(rows) if packed else rows.mask()
        o_B1TD: Tensor = self.tap(q_B1TD, self.score.prepare(h_B1SD), h_B1SD, score=self.score, mask=mask)
        return o_B1TD[0, 0] if packed else o_B1TD[:, 0, 0]


def _one_query_each(rows: Rows) -> Documents:
    """The mask of one query a document over the documents' tokens."""
    assert rows.documents is not None
    lengths = rows.documents.lengths
    return Documents(torch.ones_like(lengths), lengths, longest=rows.documents.longest)
