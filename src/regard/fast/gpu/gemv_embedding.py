"""The vectors that a decoding step begins with, on a GPU: one Triton kernel, one program a row.

    vectors = E[token] + P[position − start]        tokens (N,), E (V, D), P (T, D) → (N, D)

Where a row stands is read from the device; beyond the last learned position stand only rows that are done.
"""

# Triton compiles the functions; annotations mean something else to it.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.fast.gpu.static_cache import StaticSlots


@triton.jit
def _embed_kernel(TOKENS, POSITION, STARTS, TABLE, PLACES, OUT, n_places,
                  D: tl.constexpr, WIDTH: tl.constexpr, EXACT: tl.constexpr, PLACED: tl.constexpr):  # fmt: skip
    row, features = tl.program_id(0), tl.arange(0, WIDTH)
    inside = features < D
    vector = tl.load(TABLE + tl.load(TOKENS + row) * D + features, inside, other=0.0).to(EXACT)
    if PLACED:
        place = tl.minimum(tl.load(POSITION) - tl.load(STARTS + row), n_places - 1)
        vector += tl.load(PLACES + place * D + features, inside, other=0.0).to(EXACT)
    tl.store(OUT + row * D + features, vector, inside)


def embed_step(tokens: Tensor, slots: StaticSlots, *, table: Tensor, places: Tensor | None) -> Tensor:
    """Vectors (N, D) of tokens where their rows stand; `places` (T, D) are learned positions, precise as the table."""
    D = table.shape[1]
    output = table.new_empty((len(tokens), D))
    _embed_kernel[(len(tokens),)](
        tokens, slots.position, slots.starts, table, table if places is None else places, output,
        0 if places is None else len(places),
        D=D, WIDTH=triton.next_power_of_2(D), EXACT=tl.float64 if table.dtype == torch.float64 else tl.float32,
        PLACED=places is not None, num_warps=4,
    )  # fmt: skip
    return output
