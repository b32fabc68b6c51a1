"""What a captioner is taught by.

    captions    label-smoothed cross-entropy of every word of every caption
    words       cross-entropy of the image's words, whatever their order: for each word as often as captions contain it
    doubly      Σ over captions and locations of (1 − Σₜ wₜⱼ)²: over a caption every part of the image is to be looked
                at (Xu et al., 2015, equation 14: weights that sum to one over locations are asked to do so over time)

All are sums, as the trainer divides by words.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.attention import Rows, Sight, watch
from regard.metrics.cross_entropy import Losses, linear_cross_entropy
from regard.models.interfaces.captions import Captioner


class Weights(NamedTuple):
    """How much each part of the loss counts; captions count one."""

    smoothing: float = 0.0
    words: float = 0.0
    doubly: float = 0.0


def caption_loss(
    model: Captioner, images: Tensor, target: Rows, labels: Tensor, *, weights: Weights, pad_id: int
) -> Losses:
    """The loss of K captions an image: images (B, 3, H, W), target and labels (B · K, T)."""
    locations = model.encode(images)
    looking = watch(cast(nn.Module, model), kinds=["cross"], through=True) if weights.doubly else nullcontext(())
    with looking as seen:
        hidden = model.tell(locations, target)
    losses = linear_cross_entropy(
        hidden.flatten(0, 1),
        model.output_weight,
        labels.flatten(),
        smoothing=weights.smoothing,
        ignore_id=pad_id,
        bias=model.output_bias,
    )
    total = losses.total
    if weights.words:
        by_image = labels.view(len(images), -1, labels.shape[-1])
        bag = bag_of_words(by_image, len(model.output_weight), pad_id=pad_id)
        total = total + weights.words * bag_loss(model.words(locations), bag)
    if weights.doubly:
        total = total + weights.doubly * unseen(seen, labels != pad_id)
    return Losses(total, losses.nll, losses.n_tokens)


def bag_of_words(labels: Tensor, n_words: int, *, pad_id: int) -> Tensor:
    """In how many of its captions (B, K, T) each word but padding occurs: (B, V)."""
    present = torch.zeros(*labels.shape[:2], n_words, device=labels.device)
    present.scatter_(2, labels, 1.0)
    present[:, :, pad_id] = 0
    return present.sum(1)


def bag_loss(scores: Tensor, bag: Tensor) -> Tensor:
    """The negative log-likelihood of a bag of words (B, V) under one distribution over words an image, summed."""
    full = torch.promote_types(scores.dtype, torch.float32)
    return -(bag * scores.to(full).log_softmax(-1)).sum()


def unseen(seen: Iterable[Sight], real: Tensor) -> Tensor:
    """Σ (1 − Σₜ wₜⱼ)² over captions and locations: sights of one step each, (B, 1, K, S), and real words (N, T)."""
    steps = torch.stack([sight.weights.flatten(0, 2) for sight in seen], 1)  # (N, T, S)
    over_time = (steps * real[..., None]).sum(1)
    return ((1 - over_time).square().sum(-1) * real.any(1)).sum()
