"""Connectionist temporal classification (Graves et al., 2006): labels in order over time, with blanks between them.

    ctc_loss(scores, lengths, texts, blank=0)          −Σ log P(text), summed over rows; impossible ones count nothing
    ctc_log_probs(scores, lengths, texts, blank=0)     log P(text) of each row
    best_labels(scores, lengths, blank=0)              labels of each row's best path, repetitions and blanks left out

Scores are (B, S, V). The sums over all alignments are PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def ctc_log_probs(scores: Tensor, lengths: Tensor, texts: Sequence[Sequence[int]], *, blank: int) -> Tensor:
    """The log-probability of each text (B,), −inf where it is longer than its row's time."""
    labels = torch.tensor([token for text in texts for token in text], dtype=torch.long, device=scores.device)
    sizes = torch.tensor([len(text) for text in texts], device=scores.device)
    return -_losses(scores, lengths, labels, sizes, blank=blank, zero=False)


def ctc_loss(scores: Tensor, lengths: Tensor, labels: Tensor, *, sizes: Tensor, blank: int) -> Tensor:
    """The summed loss of padded labels (B, U) with their sizes (B,); a row without time for its text counts nothing."""
    return _losses(scores, lengths, labels, sizes, blank=blank, zero=True).sum()


def _losses(scores: Tensor, lengths: Tensor, labels: Tensor, sizes: Tensor, *, blank: int, zero: bool) -> Tensor:
    with torch.autocast(scores.device.type, enabled=False):
        full = torch.promote_types(scores.dtype, torch.float32)
        log_probs = scores.to(full).log_softmax(-1).transpose(0, 1)  # (S, B, V)
        return F.ctc_loss(log_probs, labels, lengths, sizes, blank=blank, reduction="none", zero_infinity=zero)


def best_labels(scores: Tensor, lengths: Tensor, *, blank: int) -> list[tuple[list[int], float]]:
    """For each row the labels of its likeliest path, and that path's log-probability."""
    best = scores.float().log_softmax(-1).max(-1)
    paths = []
    for labels, terms, length in zip(best.indices.tolist(), best.values, lengths.tolist(), strict=True):
        path = labels[:length]
        kept = [label for i, label in enumerate(path) if label != blank and (i == 0 or label != path[i - 1])]
        paths.append((kept, float(terms[:length].sum())))
    return paths
