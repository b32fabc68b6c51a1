"""What labelling texts is taught by: the loss of a batch of framed texts, summed over examples.

    classes     cross-entropy, with label smoothing where asked for
    numbers     squared error on the scale of the training labels
    lm_weight   λ > 0 adds the language model's own loss on the input text (Radford et al., 2018), for GPT backbones
    r_drop      α > 0 reads every text twice, with different dropout: both readings have to be right and to agree
                (Liang et al., 2021): α times their symmetric divergence, or squared difference, is added to their mean

The language model's loss is λ / T̄ · Σ over tokens, where T̄ is a constant: an example adds about λ times its mean loss
a token, and batches that are accumulated, shared or packed add up to one big batch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config.keyed_draws import repeated
from regard.data.batching.tensors import rows_of
from regard.metrics.cross_entropy import linear_cross_entropy
from regard.metrics.r_drop import symmetric_kl
from regard.models.classifier import Classifier

NOTHING = -1  # a token with nothing to predict after it


def label_loss(
    model: Classifier,
    ids: Tensor,
    lengths: Tensor,
    segments: Tensor,
    targets: Tensor,
    real: Tensor,
    following: Tensor | None,
    longest: int | None,
    smoothing: float,
    lm_scale: float,
    r_drop: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Summed loss, its plain part and the examples of a batch: tensors in, tensors out, so that it compiles whole."""
    n, side = (2 if r_drop else 1), (0 if longest is None else 1)
    rows = rows_of(torch.cat([ids] * n, side), torch.cat([lengths] * n), longest)
    with repeated(n):
        encoded = model.encode(rows, segments=torch.cat([segments] * n, side))
        scores = model.classify(encoded, rows)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    losses, plain = _example_losses(scores, torch.cat([targets] * n), smoothing)
    known = torch.cat([real] * n)
    total = torch.where(known, losses, 0.0).sum() / n
    if r_drop:
        total = total + r_drop * _apart(scores, real, numbers=targets.is_floating_point())
    if following is not None:
        backbone: Any = model.backbone
        words = linear_cross_entropy(
            encoded,
            backbone.output_weight,
            torch.cat([following] * n, side),
            ignore_id=NOTHING,
            bias=backbone.output_bias,
        )
        total = total + lm_scale * words.total / n
    return total, torch.where(known, plain, 0.0).sum().detach() / n, real.sum()


def _example_losses(scores: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The loss of each example (N,), with smoothing and without."""
    if targets.is_floating_point():
        plain = (scores[:, 0] - targets).square()
        return plain, plain
    plain = F.cross_entropy(scores, targets, reduction="none")
    return (
        F.cross_entropy(scores, targets, reduction="none", label_smoothing=smoothing) if smoothing else plain
    ), plain


def _apart(scores: Tensor, real: Tensor, *, numbers: bool) -> Tensor:
    """How far the first half of the scores (2N, n_outputs) is from the second, summed over real examples."""
    first, second = scores.chunk(2)
    if numbers:
        return torch.where(real, (first - second)[:, 0].square(), 0.0).sum()
    return symmetric_kl(first, second, real.long(), ignore_id=0)
