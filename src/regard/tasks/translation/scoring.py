"""What a model thinks of translations that are given: the log-probability of every target token, all at once.

The whole target is fed in one pass (teacher forcing). Decoding gets to the same numbers step by step.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.data.batching.plan import like_lengths
from regard.data.batching.ragged import Ids
from regard.models.interfaces.text import Seq2SeqModel
from regard.tasks.translation.batches import batch_of
from regard.tasks.translation.data import Languages


@torch.inference_mode()
def teacher_forced_log_probs(
    model: Seq2SeqModel,
    languages: Languages,
    *,
    sources: Sequence[Ids],
    targets: Sequence[Ids],
    batch_tokens: int = 4096,
) -> list[list[float]]:
    """For each pair of ids, the log-probability of each target token and of the end mark after it."""
    device = model.output_weight.device
    found: list[list[float]] = [[] for _ in sources]
    lengths = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    for chunk in like_lengths(lengths, batch_tokens):
        batch = batch_of(languages, [sources[i] for i in chunk], [targets[i] for i in chunk]).to(device)
        log_probs = model.forward(*batch.rows()).float().log_softmax(-1)
        terms = log_probs.gather(-1, batch.labels[..., None])[..., 0].tolist()
        for i, row in zip(chunk, terms, strict=True):
            found[i] = row[: len(targets[i]) + 1]
    return found
