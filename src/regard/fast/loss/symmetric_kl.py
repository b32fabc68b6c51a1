"""How far two predictions are apart, its gradients computed along with it, a part of the rows at a time.

The gradient for p's scores is ½ [p (d − KL(p‖q)) + p − q], where d = log p − log q. `regard.metrics.r_drop` is the
textbook twin.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.fast.loss.precomputed_gradients import differentiable, parts, rows_at_once


def chunked_symmetric_kl(
    logits_a: Tensor, logits_b: Tensor, labels: Tensor, *, ignore_id: int, chunk: int | None = None
) -> Tensor:
    """½ [KL(p‖q) + KL(q‖p)] of predictions (..., V), summed over the tokens that are not labelled `ignore_id`."""
    inputs = (logits_a, logits_b)
    wanted = [torch.is_grad_enabled() and x.requires_grad for x in inputs]
    with torch.no_grad():
        pair = [x.detach().reshape(-1, x.shape[-1]) for x in inputs]
        grads = [torch.empty_like(x) if w else None for x, w in zip(pair, wanted, strict=True)]
        real = (labels != ignore_id).reshape(-1, 1)
        sums = []
        for part in parts(len(real), chunk or rows_at_once(logits_a.shape[-1], logits_a.device)):
            apart = _disagreement(pair[0][part], pair[1][part], [None if g is None else g[part] for g in grads])
            sums.append(apart.masked_fill(~real[part], 0).sum())
        kept = tuple(None if g is None else g.masked_fill_(~real, 0).view(logits_a.shape) for g in grads)
        total = torch.stack(sums).sum()
    return differentiable(total, kept, inputs)


def _disagreement(a: Tensor, b: Tensor, grads: list[Tensor | None]) -> Tensor:
    """The divergence of each row (n, 1); the wanted gradients (n, V) are written into `grads`."""
    full = torch.float64 if a.dtype == torch.float64 else torch.float32
    log_p, log_q = a.log_softmax(1, dtype=full), b.log_softmax(1, dtype=full)
    p, q = log_p.exp(), log_q.exp()
    d = log_p.sub_(log_q)
    p_to_q, q_to_p = (p * d).sum(1, keepdim=True), -(q * d).sum(1, keepdim=True)
    if grads[0] is not None:
        grads[0].copy_((d - p_to_q).mul_(p).add_(p).sub_(q).mul_(0.5))
    if grads[1] is not None:
        grads[1].copy_((d + q_to_p).mul_(q).neg_().add_(q).sub_(p).mul_(0.5))
    return (p_to_q + q_to_p) / 2
