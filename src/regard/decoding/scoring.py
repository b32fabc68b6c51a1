"""Forced decoding: what a model thinks of sequences that are given, token by token, through the same steps that decode.

The sum of a row's terms is the `log_prob` that decoding reports for the same tokens.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.plan import SyncPolicy, start_ids
from regard.decoding.stepper import Stepper, log_probs_of, next_logits
from regard.errors import UsageError


@torch.inference_mode()
def force_decode(
    stepper: Stepper,
    targets: Sequence[Sequence[int]],
    *,
    bos_id: int | Tensor,
    eos_id: int | None,
    pad_id: int,
) -> list[list[float]]:
    """The log-probability of each token of each target, and of the end mark after it (unless `eos_id` is None)."""
    ends = [] if eos_id is None else [eos_id]
    wanted = [[*target, *ends] for target in targets]
    if not any(wanted):
        return [[] for _ in wanted]
    lengths = [len(row) for row in wanted]
    table = torch.tensor([row + [pad_id] * (max(lengths) - len(row)) for row in wanted], device=stepper.device)
    tokens = torch.tensor(start_ids(bos_id, len(wanted)), device=stepper.device)
    terms = _terms(stepper, tokens, table=table, lengths=lengths)
    return [row[:length] for row, length in zip(terms.tolist(), lengths, strict=True)]


def _terms(stepper: Stepper, tokens: Tensor, *, table: Tensor, lengths: list[int]) -> Tensor:
    """Log-probabilities (B, T) of the table's tokens; rows leave as they end, which is known beforehand."""
    sync = SyncPolicy.of(stepper.device)
    terms = torch.zeros(table.shape, device=table.device)
    rows = list(range(len(lengths)))
    at = torch.arange(len(lengths), device=table.device)
    for step in range(table.shape[1]):
        going = [index for index, row in enumerate(rows) if lengths[row] > step]
        if sync.drops_finished(len(going), len(rows)):
            keep = torch.tensor(going, device=table.device)
            stepper.select(keep, same_source=False)
            rows, at, tokens = [rows[index] for index in going], at[keep], tokens[keep]
        logits = next_logits(stepper, tokens)
        if step == 0:
            _check_ids(table, logits.shape[-1])
        tokens = table[at, step]
        terms[at, step] = log_probs_of(logits, tokens[:, None])[:, 0]
    return terms


def _check_ids(table: Tensor, n_tokens: int) -> None:
    low, high = int(table.min()), int(table.max())
    if low < 0 or high >= n_tokens:
        wrong = low if low < 0 else high
        raise UsageError(f"targets hold {wrong} and the model knows {n_tokens} tokens; allowed is 0 to {n_tokens - 1}")
