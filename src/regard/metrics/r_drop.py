"""How far two predictions of the same tokens are apart: what R-Drop (Liang et al., 2021) asks to be little."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.config.twins import twin
from regard.errors import ShapeError


def symmetric_kl(logits_a: Tensor, logits_b: Tensor, labels: Tensor, *, ignore_id: int = 0) -> Tensor:
    """½ [KL(p‖q) + KL(q‖p)] of predictions (..., V), summed over the tokens that are not labelled `ignore_id`."""
    if logits_a.shape != logits_b.shape or logits_a.shape[:-1] != labels.shape:
        raise ShapeError(
            f"two predictions of the same tokens were expected, got {list(logits_a.shape)} and "
            f"{list(logits_b.shape)} for labels {list(labels.shape)}"
        )
    if (fast := twin("symmetric_kl")) is not None:
        divergence: Tensor = fast(logits_a, logits_b, labels, ignore_id=ignore_id)
        return divergence
    exact = torch.float64 if logits_a.dtype == torch.float64 else torch.float32
    log_p, log_q = logits_a.log_softmax(-1, dtype=exact), logits_b.log_softmax(-1, dtype=exact)
    apart = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1) / 2
    return apart.masked_fill(labels == ignore_id, 0).sum()
