"""A score from outside the package: the cosine of the angle between query and key, as sharp as it has learnt to be."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Prepared, Score
from regard.layers.state_attention import register_score


class Cosine(Score):
    """s · cos(q, k) for queries and keys of one width."""

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.sharpness = nn.Parameter(torch.tensor(5.0))

    def prepare(self, key: Tensor) -> Prepared:
        """Keys of length one."""
        return Prepared(F.normalize(key, dim=-1))

    def compare(self, query: Tensor, prepared: Prepared) -> Tensor:
        """The cosine of every query with every key."""
        return self.sharpness * F.normalize(query, dim=-1) @ prepared.keys.mT


def add() -> None:
    """Make it known to recipes."""
    register_score("cosine", Cosine)
