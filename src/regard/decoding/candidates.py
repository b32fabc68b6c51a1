"""One step of a beam: which extensions end, and which live on.

Candidates (n, W, k) hold the likeliest k extensions of each of W beams. Each group of beams ranks its own candidates;
earlier groups go first, and later ones pay for tokens those have taken.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.options import DecodeOptions


class Choice(NamedTuple):
    """Tokens chosen for beams, all (n, W): the token, its parent beam, its log-probability and the total with it."""

    tokens: Tensor
    parents: Tensor
    log_probs: Tensor
    totals: Tensor


class Candidates(NamedTuple):
    """Extensions of beams, all (n, W, k): the token, its log-probability, and the total with it."""

    tokens: Tensor
    log_probs: Tensor
    totals: Tensor

    def group(self, start: int, stop: int) -> "Candidates":
        """The candidates of some beams."""
        return Candidates(*(values[:, start:stop] for values in self))

    def take(self, places: Tensor) -> Choice:
        """The candidates at places (n, m), counted over beams and their candidates."""
        tokens, log_probs, totals = (values.flatten(1).gather(1, places) for values in self)
        return Choice(tokens, places // self.tokens.shape[-1], log_probs, totals)


def pick(candidates: Candidates, options: DecodeOptions, *, eos_id: int) -> tuple[Choice, Choice]:
    """The extensions that live on, and those that end: two choices (n, W), −inf where there is none."""
    width = options.beam // options.groups
    if options.groups == 1:
        return pick_group(candidates, candidates.totals, eos_id=eos_id)
    lives: list[Choice] = []
    ends: list[Choice] = []
    for start in range(0, options.beam, width):
        group = candidates.group(start, start + width)
        ranks = group.totals - options.diversity * _times_taken(group.tokens, lives)
        live, end = pick_group(group, ranks, eos_id=eos_id)
        lives.append(live._replace(parents=live.parents + start))
        ends.append(end._replace(parents=end.parents + start))
    return _side_by_side(lives), _side_by_side(ends)


def pick_group(group: Candidates, ranks: Tensor, *, eos_id: int) -> tuple[Choice, Choice]:
    """Of candidates (n, w, k) ranked by `ranks`: the best w that go on, and the ends among the best w of all."""
    _, width, n_each = ranks.shape
    # At most w candidates are ends, so the best 2w hold w that go on, where there are as many.
    ranks, places = ranks.flatten(1).topk(min(2 * width, width * n_each))
    best = group.take(places)
    is_end = best.tokens == eos_id
    order = ranks.masked_fill(is_end, -math.inf).topk(width).indices
    live = group.take(places.gather(1, order))
    live = live._replace(totals=live.totals.masked_fill(is_end.gather(1, order), -math.inf))
    ends = Choice(*(values[:, :width] for values in best))
    return live, ends._replace(totals=ends.totals.masked_fill(~is_end[:, :width], -math.inf))


def _times_taken(tokens: Tensor, lives: list[Choice]) -> Tensor:
    """How many live beams of earlier groups took each token (n, w, k); dead beams took nothing."""
    if not lives:
        return torch.zeros_like(tokens)
    taken = torch.cat([live.tokens.masked_fill(live.totals == -math.inf, -1) for live in lives], 1)
    return (tokens[..., None] == taken[:, None, None]).sum(-1)


def _side_by_side(choices: list[Choice]) -> Choice:
    return Choice(*(torch.cat(values, 1) for values in zip(*choices, strict=True)))
