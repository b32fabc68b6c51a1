"""Where a token stands: attention alone is blind to order, so position has to be put in.

sinusoidal(n, d)        P(t) = [sin ω₀t, cos ω₀t, sin ω₁t, …], ωₗ = 10000^(−2l/d)       Vaswani et al. (2017)
shift_matrix(τ, d)      M(τ) with P(t + τ) = M(τ) · P(t) for every t
Sinusoidal, Learned     add a vector to each embedding            (B, T, D) → (B, T, D)
Rotary                  turn queries and keys by their position    Su et al. (2021)
ALiBi                   a bias that grows with distance            Press et al. (2022)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor, nn

from regard.errors import ShapeError, UsageError

_growing = Lock()


def sinusoidal(n_positions: int, d_model: int, *, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """The lectures' positional encoding, sines and cosines interleaved: (n, D)."""
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies(d_model, base=base)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1).to(dtype)


def shift_matrix(shift: float, d_model: int, *, base: float = 10000.0, dtype: torch.dtype = torch.float64) -> Tensor:
    """The matrix that moves every position by `shift`: block-diagonal 2 × 2 rotations, (D, D)."""
    angles = frequencies(d_model, base=base) * shift
    cos, sin = angles.cos(), angles.sin()
    matrix: Tensor = torch.block_diag(*torch.stack((cos, sin, -sin, cos), -1).view(-1, 2, 2))
    return matrix.to(dtype)


def frequencies(width: int, *, base: float = 10000.0) -> Tensor:
    """ωₗ = base^(−2l/width), l = 0 … width/2 − 1, in double precision."""
    if width % 2:
        raise ShapeError(f"sines and cosines come in pairs: the width is even, not {width}")
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


class Sinusoidal(nn.Module):
    """Adds the sinusoidal encoding. The table grows when a longer input comes: no length is too long."""

    table: Tensor

    def __init__(self, d_model: int, *, n_positions: int = 1024) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal(n_positions, d_model), persistent=False)

    def forward(self, embedded: Tensor, *, positions: Tensor | None = None, offset: int = 0) -> Tensor:
        """Embeddings (..., T, D) plus P(offset … offset + T − 1), or P of the positions (..., T) given."""
        if positions is None:
            end = offset + embedded.shape[-2]
            self.reserve(end)
            rows = self.table[offset:end]
        else:
            rows = self.table[positions]
        return embedded + rows.to(embedded.dtype)

    def reserve(self, n_positions: int) -> None:
        """Make the table long enough; `positions` given to `forward` have to lie within what was reserved."""
        if n_positions > self.table.shape[0]:
            with _growing:  # of two threads that want more, none brings back less
                if n_positions > self.table.shape[0]:
                    self.table = sinusoidal(2 ** math.ceil(math.log2(n_positions)), self.table.shape[1]).to(self.table)


class Learned(nn.Module):
    """Adds one learned vector a position, up to a fixed number of them."""

    def __init__(self, d_model: int, *, n_positions: int) -> None:
        super().__init__()
        self.table = nn.Embedding(n_positions, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, embedded: Tensor, *, positions: Tensor | None = None, offset: int = 0) -> Tensor:
        """Embeddings (..., T, D) plus the vectors of positions offset … offset + T − 1, or of those given."""
        if positions is None:
            end = offset + embedded.shape[-2]
            self.reserve(end)
            positions = torch.arange(offset, end, device=embedded.device)
        rows: Tensor = self.table(positions)
        return embedded + rows

    def reserve(self, n_positions: int) -> None:
        """Refuse what is longer than the table: what was not learned cannot be made up."""
        if n_positions > self.table.num_embeddings:
            raise ShapeError(f"{n_positions} positions are more than the {self.table.num_embeddings} learned ones")


def added_positions(name: str, d_model: int, *, n_positions: int) -> Sinusoidal | Learned | None:
    """What a config's `positions` adds to embeddings; None where they are rotary."""
    kinds: dict[str, type[Sinusoidal | Learned]] = {"sinusoidal": Sinusoidal, "learned": Learned}
    return kinds[name](d_model, n_positions=n_positions) if name in kinds else None


@dataclass(frozen=True)
class Stretch:
    """Slower turning, for texts `factor` times as long as those trained on.

    Without `n_trained` every pair of features slows down: Chen et al. (2023), "linear" in checkpoints. With it, a pair
    that turns fewer than `low` times within `n_trained` positions does, one that turns more than `high` times keeps
    its rate, and between the two it is a blend: "llama3" in checkpoints.
    """

    factor: float
    n_trained: int | None = None
    low: float = 1.0
    high: float = 4.0

    def __post_init__(self) -> None:
        if self.factor <= 0 or not self.low < self.high:
            raise UsageError(
                f"a stretch has a factor above 0 and low < high, not {self.factor}, {self.low} and {self.high}"
            )

    def slow_down(self, rates: Tensor) -> Tensor:
        """The rates (R/2,) that Rotary turns by instead."""
        if self.n_trained is None:
            return rates / self.factor
        n_turns = rates * self.n_trained / (2 * math.pi)
        kept = ((n_turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return rates * (kept + (1 - kept) / self.factor)


class Rotary(nn.Module):
    """Turns each pair of features by an angle that grows with position: scores then depend on distance alone.

    `interleaved` pairs features (0, 1), (2, 3), …; otherwise feature l goes with l + E/2, as most checkpoints have it.
    Only the first `d_rotary` features turn; `stretch` makes them turn more slowly.
    """

    rates: Tensor

    def __init__(
        self,
        d_head: int,
        *,
        base: float = 10000.0,
        interleaved: bool = False,
        d_rotary: int | None = None,
        stretch: Stretch | None = None,
    ) -> None:
        super().__init__()
        self.d_rotary, self.interleaved = d_rotary or d_head, interleaved
        if self.d_rotary > d_head:
            raise ShapeError(f"{self.d_rotary} features cannot turn in a head of {d_head}")
        self._turning = (base, stretch)
        self.register_buffer("rates", self._computed_rates(), persistent=False)

    def reset(self) -> None:
        """Compute the rates anew, for a model that was made without memory."""
        self.rates = self._computed_rates()

    def _computed_rates(self) -> Tensor:
        base, stretch = self._turning
        rates = frequencies(self.d_rotary, base=base)
        return rates if stretch is None else stretch.slow_down(rates)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        """Follow a move to another device, but not to half precision: far positions would lose their angles."""
        rates = self.rates
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.rates.dtype.itemsize < 4:
            self.rates = rates.to(self.rates.device)
        return self

    def forward(self, heads: Tensor, *, positions: Tensor | None = None, offset: int = 0) -> Tensor:
        """Queries or keys (..., H, T, E), turned. `positions` (T,) or (B, T) count from `offset` when absent."""
        if positions is None:
            positions = torch.arange(offset, offset + heads.shape[-2], device=heads.device)
        elif positions.ndim > 1:
            positions = positions.unsqueeze(-2)  # every head of a row turns alike
        exact = torch.promote_types(heads.dtype, torch.float32)  # angles in half precision would be wrong soon
        angles = self.angles(positions, exact)
        turning, rest = heads[..., : self.d_rotary], heads[..., self.d_rotary :]
        turned = self._turn(turning.to(exact), angles.cos(), angles.sin()).to(heads.dtype)
        return turned if rest.shape[-1] == 0 else torch.cat((turned, rest), -1)

    def angles(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """By how much each pair of features is turned at positions (..., T): (..., T, R/2)."""
        return positions.unsqueeze(-1).to(dtype) * self.rates.to(dtype)

    def _turn(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if self.interleaved:
            even, odd = heads[..., 0::2], heads[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
        first, second = heads.chunk(2, -1)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


class ALiBi(nn.Module):
    """A bias −slope · distance for each head, with slopes in a geometric series; nothing is added to embeddings."""

    slopes: Tensor

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        if n_heads < 1:
            raise UsageError(f"ALiBi needs at least one head, not {n_heads}")
        self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    def forward(self, n_queries: int, n_keys: int, *, offset: int = 0) -> Tensor:
        """The bias (H, T, S); `offset` cached tokens stand before the first query."""
        device = self.slopes.device
        queries = torch.arange(offset, offset + n_queries, device=device)
        distance = (queries[:, None] - torch.arange(n_keys, device=device)).abs()
        return -self.slopes[:, None, None] * distance


def alibi_slopes(n_heads: int) -> Tensor:
    """2^(−8/n), 2^(−16/n), … for a power of two; other counts borrow from the next power, as published."""
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    between = [2 ** (-4 * (i + 1) / power) for i in range(0, 2 * (n_heads - power), 2)]
    return torch.tensor(slopes + between)
