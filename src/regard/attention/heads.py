"""Multi-head attention: several views of the same sequence, each with its own queries, keys and values.

    output = W_out · [attend(head₁); …; attend(head_H)]          (B, T, D) → (B, T, D)

Self-attention projects queries, keys and values in one product; cross-attention takes its keys and values from a
memory, which `prefill` projects once for all decoding steps. With fewer key/value heads G < H, each serves a group.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.cache import Cache
from regard.attention.masks import Mask
from regard.attention.positions import Rotary
from regard.attention.scores import Prepared, ScaledDot, Score
from regard.attention.taps import Kind, Tap
from regard.errors import ShapeError, UsageError


class MultiHeadAttention(nn.Module):
    """Self-attention (`kind="self"` or `"masked"`) or cross-attention (`kind="cross"`) with H heads of width E.

    `score` compares queries with keys (scaled dot by default), `rotary` turns them by position, `dropout` acts on the
    weights in training. `kind` names the place for watchers; the mask of each call says what is really masked.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        kind: Kind = "self",
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        d_memory: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        score: Score | None = None,
        rotary: Rotary | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        n_kv_heads = n_kv_heads or n_heads
        if d_head is None and d_model % n_heads:
            raise ShapeError(
                f"a width of {d_model} cannot be divided into {n_heads} heads", hint="give d_head, or other numbers"
            )
        if n_heads % n_kv_heads:
            raise ShapeError(f"{n_heads} heads cannot be grouped over {n_kv_heads} key/value heads")
        if kind == "cross" and rotary is not None:
            raise UsageError("rotary positions compare places in one sequence; cross-attention looks at another")
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.d_head = d_head or d_model // n_heads
        self.dropout = dropout
        self.score = score or ScaledDot()
        self.rotary = rotary
        d_queries, d_keys = n_heads * self.d_head, n_kv_heads * self.d_head
        if kind == "cross":
            self.query = nn.Linear(d_model, d_queries, bias=bias)
            self.key_value = nn.Linear(d_memory or d_model, 2 * d_keys, bias=bias)
        else:
            self.query_key_value = nn.Linear(d_model, d_queries + 2 * d_keys, bias=bias)
        self.out = nn.Linear(d_queries, d_model, bias=bias if out_bias is None else out_bias)
        self.tap = Tap(kind)
        self.reset()

    def reset(self) -> None:
        """Start over: Glorot for queries, keys, values and output, each by itself, and zero for the biases."""
        queries, keys = self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        parts = {"query": [queries], "key_value": [keys] * 2, "query_key_value": [queries, keys, keys]}
        for name, projection in self.named_children():
            if isinstance(projection, nn.Linear):
                for matrix in projection.weight.data.split(parts.get(name, [projection.out_features])):
                    nn.init.xavier_uniform_(matrix)
                if projection.bias is not None:
                    nn.init.zeros_(projection.bias)

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        bias: Tensor | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (B, T, D), attended: (B, T, D).

        Cross-attention reads `memory` (B, S, Dm), or the cache that `prefill(memory)` made of it. Self-attention with
        a cache appends to it and sees all it holds. `positions` (T,) or (B, T) matter to rotary heads only.
        """
        if self.tap.kind == "cross":
            q_BHTE = self._split(self.query(hidden), self.n_heads)
            k_BGSE, v_BGSE = self._from_memory(memory, cache)
        else:
            q_BHTE, k_BGSE, v_BGSE = self.project(hidden, cache=cache, positions=positions)
        output: Tensor = self.out(self._look(q_BHTE, k_BGSE, v_BGSE, mask=mask, bias=bias))
        return output

    def look_back(
        self, projected: Tensor, *, mask: Mask | Tensor | None, cache: Cache, positions: Tensor | None
    ) -> Tensor:
        """Self-attention between its products: what `query_key_value` gave (B, T, ·) → what `out` gets (B, T, ·)."""
        q_BHTE, k_BGSE, v_BGSE = self._append(projected, cache=cache, positions=positions)
        return self._look(q_BHTE, k_BGSE, v_BGSE, mask=mask, bias=None)

    def turn(self, projected: Tensor, positions: Tensor | None, offset: int) -> Tensor:
        """What `query_key_value` gave (B, T, ·), its queries and keys turned by position where heads do that."""
        if self.rotary is None:
            return projected
        H, G = self.n_heads, self.n_kv_heads
        turned, values = projected.split(((H + G) * self.d_head, G * self.d_head), dim=-1)
        q_BHTE, k_BGTE = self._split(turned, H + G).split((H, G), dim=1)
        parts = [self.rotary(one, positions=positions, offset=offset) for one in (q_BHTE, k_BGTE)]
        return torch.cat([*(one.transpose(1, 2).flatten(2) for one in parts), values], -1)

    def _look(
        self, q_BHTE: Tensor, k_BGSE: Tensor, v_BGSE: Tensor, *, mask: Mask | Tensor | None, bias: Tensor | None
    ) -> Tensor:
        o_BHTE = self.tap(
            q_BHTE,
            Prepared(k_BGSE),
            v_BGSE,
            score=self.score,
            mask=mask,
            bias=bias,
            dropout=self.dropout if self.training else 0.0,
        )
        output: Tensor = o_BHTE.transpose(1, 2).flatten(2)
        return output

    def prefill(self, memory: Tensor, *, kind: type[Cache] = Cache) -> Cache:
        """Project a memory (B, S, Dm) once: pass the result as `cache` at every decoding step."""
        if self.tap.kind != "cross":
            raise UsageError("only cross-attention has a memory to prefill a cache with")
        return kind.filled(*self._project_memory(memory))

    def project(
        self, hidden: Tensor, *, cache: Cache | None = None, positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, E), keys and values (B, G, S, E) of self-attention, behind those that the cache holds."""
        return self._append(self.query_key_value(hidden), cache=cache, positions=positions)

    def _append(
        self, projected: Tensor, *, cache: Cache | None, positions: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        E, H, G = self.d_head, self.n_heads, self.n_kv_heads
        q, k, v = projected.split((H * E, G * E, G * E), dim=-1)
        q_BHTE, k_BGTE, v_BGTE = self._split(q, H), self._split(k, G), self._split(v, G)
        if self.rotary is not None:
            offset = cache.length if cache is not None else 0
            q_BHTE = self.rotary(q_BHTE, positions=positions, offset=offset)
            k_BGTE = self.rotary(k_BGTE, positions=positions, offset=offset)
        k_BGTE = self.score.prepare(k_BGTE).keys
        return (q_BHTE, k_BGTE, v_BGTE) if cache is None else (q_BHTE, *cache.append(k_BGTE, v_BGTE))

    def _from_memory(self, memory: Tensor | None, cache: Cache | None) -> tuple[Tensor, Tensor]:
        if cache is not None:
            return cache.keys, cache.values
        if memory is None:
            raise UsageError("cross-attention needs a memory, or the cache that prefill(memory) makes of it")
        return self._project_memory(memory)

    def _project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        k, v = self.key_value(memory).chunk(2, dim=-1)
        k_BGSE, v_BGSE = self._split(k, self.n_kv_heads), self._split(v, self.n_kv_heads)
        return self.score.prepare(k_BGSE).keys, v_BGSE

    def _split(self, projected: Tensor, n_heads: int) -> Tensor:
        return projected.view(*projected.shape[:-1], n_heads, self.d_head).transpose(1, 2)  # (B, n, T, E)
