"""How well a query and a key fit: every score function of the lectures behind one signature.

    scores = score(query, key)            query (..., T, Dq), key (..., S, Dk)  →  scores (..., T, S)

    Gaussian      −‖q − k‖² / 2h²           Nadaraya (1964), Watson (1964); h = 1/√2 is the lectures' −(x − xᵢ)²
    Dot           qᵀk                       Luong et al. (2015)
    ScaledDot     qᵀk / √d                  Vaswani et al. (2017)
    General       qᵀWk                      Luong et al. (2015), bilinear
    Additive      vᵀ tanh(W[q; k])          Bahdanau et al. (2015)
    MLP           MLP([q; k])               a hidden layer and one number
    SoftCap       c · tanh(score / c)       around any of them

Each splits in two: `prepare(key)` does what depends on the keys alone, once per source, and `compare(query, prepared)`
the rest, at every decoding step. `attend` takes the prepared keys in place of the keys.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import ShapeError, UsageError

_FEW_FEATURES = 3


@dataclass(frozen=True)
class Prepared:
    """Keys as a score wants them: `keys` (..., S, A), ready to be compared with any query."""

    keys: Tensor


class Score(nn.Module, ABC):
    """Compares queries with keys. A score that is a plain dot product with prepared keys says so by `dot_scale`."""

    def prepare(self, key: Tensor) -> Prepared:
        """Do once what depends on the keys alone."""
        return Prepared(key)

    @abstractmethod
    def compare(self, query: Tensor, prepared: Prepared) -> Tensor:
        """Compare queries (..., T, Dq) with prepared keys: scores (..., T, S)."""

    def dot_scale(self, width: int) -> float | None:
        """The factor c if the score is c · query · prepared key (fused kernels compute that), else None."""
        return None

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores (..., T, S) of every query with every key."""
        return self.compare(query, self.prepare(key))


class Dot(Score):
    """The plain inner product, qᵀk."""

    def compare(self, query: Tensor, prepared: Prepared) -> Tensor:
        """All inner products, scaled."""
        check_width(query, prepared.keys)
        return query @ prepared.keys.mT * self.dot_scale(query.shape[-1])

    def dot_scale(self, width: int) -> float:
        """Fused kernels compute this score."""
        return 1.0


class ScaledDot(Dot):
    """qᵀk / √d: the division keeps the scores of random vectors at unit variance, so the softmax stays soft."""

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self.scale = scale

    def dot_scale(self, width: int) -> float:
        """1 / √d, unless another was given."""
        return self.scale if self.scale is not None else 1 / math.sqrt(width)


class General(Dot):
    """qᵀWk: a learned bilinear form, which also lets queries and keys differ in width."""

    def __init__(self, d_query: int, d_key: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Linear(d_key or d_query, d_query, bias=False)

    def prepare(self, key: Tensor) -> Prepared:
        """Wk: what is left is an inner product."""
        return Prepared(self.weight(key))


class Gaussian(Score):
    """−‖q − k‖² / 2h²: softmax makes it the Nadaraya–Watson weights of bandwidth h, one number or one a feature."""

    bandwidth: Tensor

    def __init__(self, bandwidth: float | Tensor = 1.0) -> None:
        super().__init__()
        width = torch.as_tensor(bandwidth, dtype=torch.float64)
        if not bool((width > 0).all()):
            raise UsageError(f"a bandwidth is greater than 0, not {bandwidth}")
        self.register_buffer("bandwidth", width, persistent=False)

    def prepare(self, key: Tensor) -> Prepared:
        """Measure in bandwidths."""
        return Prepared(self._in_bandwidths(key))

    def compare(self, query: Tensor, prepared: Prepared) -> Tensor:
        """Half the squared distance, negative; from differences, so that points far from zero keep their digits."""
        check_width(query, prepared.keys)
        query = self._in_bandwidths(query)
        if 0 < query.shape[-1] <= _FEW_FEATURES:  # summing feature by feature beats measuring pair by pair
            features = zip(query.unbind(-1), prepared.keys.unbind(-1), strict=True)
            first, *others = (q_T.unsqueeze(-1) - k_S.unsqueeze(-2) for q_T, k_S in features)
            # In place where no gradient needs what stood there: these tensors are as large as the scores.
            scores = first * first if first.requires_grad else first.square_()
            scores = scores.mul_(-0.5)
            for gaps in others:
                scores = scores.addcmul_(gaps, gaps, value=-0.5)
            return scores
        distance = torch.cdist(query, prepared.keys, compute_mode="donot_use_mm_for_euclid_dist")
        return distance.square() * -0.5

    def _in_bandwidths(self, points: Tensor) -> Tensor:
        points = points.to(torch.promote_types(points.dtype, torch.float32))
        return points / self.bandwidth.to(points)


class Additive(Score):
    """vᵀ tanh(W[q; k]): the first attention of neural translation. W splits into a query and a key part."""

    def __init__(self, d_query: int, d_key: int | None = None, *, d_hidden: int | None = None) -> None:
        super().__init__()
        d_hidden = d_hidden or d_query
        self.query = nn.Linear(d_query, d_hidden)
        self.key = nn.Linear(d_key or d_query, d_hidden, bias=False)
        self.out = nn.Linear(d_hidden, 1, bias=False)

    def prepare(self, key: Tensor) -> Prepared:
        """The keys' half of W[q; k]."""
        return Prepared(self.key(key))

    def compare(self, query: Tensor, prepared: Prepared) -> Tensor:
        """The queries' half added to every key's, squashed, and weighed by v."""
        hidden = self.query(query).unsqueeze(-2) + prepared.keys.unsqueeze(-3)  # (..., T, S, A)
        scores: Tensor = self.out(self._squash(hidden)).squeeze(-1)
        return scores

    def _squash(self, hidden: Tensor) -> Tensor:
        return torch.tanh(hidden)


class MLP(Additive):
    """MLP([q; k]): a hidden layer with a rectifier and one output, whose bias the softmax would not notice."""

    def _squash(self, hidden: Tensor) -> Tensor:
        return torch.relu(hidden)


class SoftCap(Score):
    """c · tanh(score / c): keeps any score between −c and c without a hard edge (Gemma 2)."""

    def __init__(self, score: Score, cap: float) -> None:
        super().__init__()
        if not cap > 0:
            raise UsageError(f"a soft cap is greater than 0, not {cap}")
        self.score, self.cap = score, cap

    def prepare(self, key: Tensor) -> Prepared:
        """As the capped score does."""
        return self.score.prepare(key)

    def compare(self, query: Tensor, prepared: Prepared) -> Tensor:
        """The capped score's numbers, bent."""
        return self.cap * torch.tanh(self.score.compare(query, prepared) / self.cap)


def check_width(query: Tensor, key: Tensor) -> None:
    """Refuse to compare what has different widths."""
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"queries of width {query.shape[-1]} cannot be compared with keys of width {key.shape[-1]}",
            hint="General, Additive and MLP scores take different widths",
        )
