"""What beams chose, step by step, and the way back through it.

Three tables (steps, B, W): the token each beam took, the beam it came from, and the log-probability of that token.
Nothing is copied when beams are reordered; a hypothesis is the slot it stands in at some step, and is read backwards
at the end.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Choice(NamedTuple):
    """Tokens chosen for beams, all (n, W): the token, its parent beam, its log-probability and the total with it."""

    tokens: Tensor
    parents: Tensor
    log_probs: Tensor
    totals: Tensor


class Backpointers:
    """The tables of one search."""

    def __init__(self, n_steps: int, n_inputs: int, *, width: int, device: torch.device) -> None:
        shape = (n_steps, n_inputs, width)
        self.tokens = torch.zeros(shape, dtype=torch.int64, device=device)
        self.parents = torch.zeros(shape, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros(shape, device=device)

    def write(self, step: int, inputs: Tensor, choice: Choice) -> None:
        """Note what the beams of these inputs (n,) took at this step."""
        self.tokens[step].index_copy_(0, inputs, choice.tokens)
        self.parents[step].index_copy_(0, inputs, choice.parents)
        self.log_probs[step].index_copy_(0, inputs, choice.log_probs)

    def trace(self, lengths: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens and log-probabilities (B, M, longest) that lead to M slots an input.

        lengths, slots (B, M): slots[b, m] is a beam after lengths[b, m] tokens. What lies past a length means nothing.
        """
        lengths, slots = lengths.cpu(), slots.cpu()
        longest = int(lengths.max()) if lengths.numel() else 0
        tables = (self.tokens[:longest].cpu(), self.parents[:longest].cpu(), self.log_probs[:longest].cpu())
        tokens = torch.zeros((*lengths.shape, longest), dtype=torch.int64)
        log_probs = torch.zeros((*lengths.shape, longest))
        for step in reversed(range(longest)):
            tokens[..., step] = tables[0][step].gather(1, slots)
            log_probs[..., step] = tables[2][step].gather(1, slots)
            slots = torch.where(lengths > step, tables[1][step].gather(1, slots), slots)
        return tokens, log_probs
