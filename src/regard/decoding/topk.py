"""The largest of a row of scores: one, or a few."""

from torch import Tensor

from regard.config.twins import twin


def top_1(values: Tensor) -> Tensor:
    """The column of each row's largest value, the first of several: (N, V) → (N,)."""
    fast = twin("top_k")
    ranked = None if fast is None else fast(values, 1)
    return values.argmax(-1) if ranked is None else ranked[1][:, 0]


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row, largest first, and their columns: (N, V) → (N, k), (N, k)."""
    fast = twin("top_k")
    ranked: tuple[Tensor, Tensor] | None = None if fast is None else fast(values, k)
    if ranked is None:
        largest = values.topk(k)
        ranked = largest.values, largest.indices
    return ranked
