"""The largest of a row of scores: one, or a few."""

from torch import Tensor

from regard.config.twins import twin


def top_1(values: Tensor) -> Tensor:
    """The column of each row's largest value, the first of several: (N, V) → (N,)."""
    fast = twin("top_k")
    found = None if fast is None else fast(values, 1)
    return values.argmax(-1) if found is None else found[1][:, 0]


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row, largest first, and their columns: (N, V) → (N, k), (N, k)."""
    fast = twin("top_k")
    found: tuple[Tensor, Tensor] | None = None if fast is None else fast(values, k)
    if found is None:
        ranked = values.topk(k)
        found = ranked.values, ranked.indices
    return found
