"""Random numbers for the rows of a batch: of PyTorch's generator, or by the key of each row's example.

    uniform((n,), device)      normal((n, 3), device)      integers(0, 14, n, device)      beta(0.8, n, device)

The first size counts rows. Within `keyed_draws` a row's numbers follow from its example; elsewhere they are the next
ones of the generator that `torch.manual_seed` seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Beta

from regard.config.keyed_draws import KeyedDraws, keyed

_ROUNDS = 32  # draws of which one is taken: that none can be has a chance of less than 1 in 4 · 10⁹


def uniform(
    shape: Sequence[int], device: torch.device, *, low: float = 0.0, high: float = 1.0, name: str = "numbers"
) -> Tensor:
    """Numbers from `low` to below `high`, all equally likely."""
    draws = keyed()
    if draws is not None:
        share = (_words(draws, shape, name) >> 40).bitwise_and_(2**24 - 1).float() * 2.0**-24
        return share * (high - low) + low
    if (low, high) == (0.0, 1.0):
        return torch.rand(*shape, device=device)
    return torch.empty(*shape, device=device).uniform_(low, high)


def uniforms(n: int, rows: int, device: torch.device) -> Tensor:
    """n numbers from 0 to below 1 for each row, those of all rows together: (n, rows)."""
    return torch.rand(n, rows, device=device) if keyed() is None else uniform((rows, n), device).T


def normal(shape: Sequence[int], device: torch.device, *, name: str = "numbers") -> Tensor:
    """Numbers of mean 0 and variance 1, normally distributed."""
    draws = keyed()
    if draws is None:
        return torch.randn(*shape, device=device)
    numbers: Tensor = torch.special.ndtri(_inside(_words(draws, shape, name)))
    return numbers.float()


def integers(low: int, high: int, n: int, device: torch.device) -> Tensor:
    """A whole number from `low` to below `high` for each row."""
    if keyed() is None:
        return torch.randint(low, high, (n,), device=device)
    return (uniform((n,), device) * (high - low)).long() + low


def beta(alpha: float, n: int, device: torch.device) -> Tensor:
    """Numbers from 0 to 1 by the symmetric beta distribution, one for each row."""
    draws = keyed()
    if draws is None:
        parameter = torch.full((), alpha, device=device)
        drawn: Tensor = Beta(parameter, parameter, validate_args=False).sample((n,))  # to check would be to wait for it
        return drawn
    u, v = _inside(_words(draws, (n, _ROUNDS, 2), "numbers")).unbind(-1)
    if alpha > 0.5:  # Ulrich (1984)
        distance = (1 - u[:, 0] ** (2 / (2 * alpha - 1))).sqrt()
        return ((1 + distance * torch.cos(2 * math.pi * v[:, 0])) / 2).float()
    x, y = u.log() / alpha, v.log() / alpha  # Jöhnk (1964), as logarithms
    both = torch.logaddexp(x, y)
    first = (both <= 0).to(torch.int8).argmax(1, keepdim=True)
    return (x - both).gather(1, first)[:, 0].exp().float()


def _words(draws: KeyedDraws, shape: Sequence[int], name: str) -> Tensor:
    return draws.words(shape[0], math.prod(shape[1:]), name=name).view(*shape)


def _inside(words: Tensor) -> Tensor:
    """Words as numbers between 0 and 1, neither of them, in double precision."""
    return ((words >> 11).bitwise_and_(2**53 - 1).double() + 0.5) * 2.0**-53
