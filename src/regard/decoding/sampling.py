"""Sampling that a batch cannot disturb: a draw depends on the seed, the row's key and the step, and on nothing else.

A row's key is a digest of what it was made from (`key_of`): the same text draws the same alone, in any list, in any
order, and twice in one list; its samples are told apart by their number.

A token is drawn by Gumbel-max, argmax(logits + noise), where the noise of a token is a hash of (seed, row key, step,
token id): integer arithmetic, the same on every device, with no generator whose state would tie rows to their
neighbours.

The keys are 64-bit (splitmix64, Steele et al. 2014); the many per-token hashes are 32-bit, where vector units are
fast: the finaliser of Wellons ("prospecting for hash functions", 2018), with the second half of the row's key let in
midway.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, arange, finfo, float32, int32

_GOLDEN_64 = 0x9E3779B97F4A7C15
_GOLDEN_32 = 0x9E3779B9


def _signed(value: int, bits: int = 64) -> int:
    """The same bits as a two's-complement number, which is what torch's integers are."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _fold(x: Tensor, shift: int, bits: int) -> Tensor:
    """x ^= x >>> shift: torch shifts copy the sign, a hash must not."""
    return x.bitwise_xor_((x >> shift).bitwise_and_((1 << (bits - shift)) - 1))


def key_of(content: Sequence[int] | NDArray[Any]) -> int:
    """The key of a row by its content, such as the ids of a text, the pixels of an image or the samples of a sound."""
    array = content if isinstance(content, np.ndarray) else np.array(content, dtype=np.int64)
    kind = f"{array.dtype.str} {array.shape} ".encode()
    return int.from_bytes(blake2b(kind + array.tobytes(), digest_size=8).digest(), "little") >> 1


def mix64(x: Tensor) -> Tensor:
    """Spread 64-bit integers so that neighbours have nothing in common: int64 (...) → int64 (...)."""
    x = _fold(x + _signed(_GOLDEN_64), 30, 64)
    x = _fold(x.mul_(_signed(0xBF58476D1CE4E5B9)), 27, 64)
    return _fold(x.mul_(_signed(0x94D049BB133111EB)), 31, 64)


def stream_keys(keys: Tensor, *, seed: int, n_samples: int) -> Tensor:
    """A random stream for each sample of each row: (B,) → (B · n_samples,), the samples of a row side by side."""
    of_rows = mix64(mix64(keys + _signed(seed * _GOLDEN_64)) ^ _signed(seed))
    samples = arange(n_samples, dtype=keys.dtype, device=keys.device)
    return mix64(of_rows[:, None] ^ mix64(samples)[None]).flatten()


def random_bits(streams: Tensor, *, step: int | Tensor, n: int) -> Tensor:
    """32 random bits for each of n tokens at one step, or each at its own (N,), of streams: int64 (N,) → int32 (N, n).

    Whole numbers of 64 bits run over, so that steps of a tensor and plain ones come to the same.
    """
    offset = (step + 1) * _signed(_GOLDEN_64)
    halves = mix64(streams + (_signed(offset) if isinstance(offset, int) else offset)).view(int32).view(-1, 2)
    first, second = halves[:, :1], halves[:, 1:]
    ids = arange(n, dtype=int32, device=streams.device) * _signed(_GOLDEN_32, 32)
    x = _fold(ids[None] ^ first, 16, 32)
    x = _fold(x.mul_(_signed(0x7FEB352D, 32)).add_(second), 15, 32)
    return _fold(x.mul_(_signed(0x846CA68B, 32)), 16, 32)


def log_waits(streams: Tensor, *, step: int | Tensor, n: int) -> Tensor:
    """Logarithms of standard exponential draws, the negative of Gumbel noise: int64 (N,) → float32 (N, n).

    The token with the shortest wait wins, so short waits are kept exact: 31 bits count from zero upwards.
    """
    bits = random_bits(streams, step=step, n=n).bitwise_and_(0x7FFFFFFF)
    minus_uniform = bits.to(float32).mul_(-(2.0**-31)).sub_(2.0**-32)
    return minus_uniform.clamp_(min=finfo(float32).eps / 2 - 1).log1p_().neg_().log_()


def draw(logits: Tensor, streams: Tensor, *, step: int) -> Tensor:
    """One token a row, with probability softmax(logits): (N, V), (N,) → (N,)."""
    return logits.sub(log_waits(streams, step=step, n=logits.shape[-1])).argmax(-1)
