"""Which examples of a fine-tuning task go together: like lengths under a budget of tokens, or a few at random.

Random batches of a fixed number are what fine-tuning is usually described by; batches of like lengths pad less.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from regard.data.batching.plan import BatchPlan


def example_plan(
    lengths: npt.NDArray[np.int64], *, budget_tokens: int, seed: int, batch_examples: int = 0
) -> BatchPlan:
    """The batches of rows of these lengths: `batch_examples` at random, or as many of like length as the budget holds.

    Only the last random batch of an epoch is smaller.
    """
    if not batch_examples:
        return BatchPlan(lengths, lengths, budget_tokens=budget_tokens, seed=seed)
    room = batch_examples * int(lengths.max(initial=1))
    return BatchPlan(lengths, lengths, budget_tokens=room, seed=seed, max_sentences=batch_examples, n_shapes=1)
