"""Attention between recurrent states, as it began (Bahdanau et al., 2015; Luong et al., 2015).

    context = Σⱼ wⱼ hⱼ,  w = softmax(score(s, hⱼ))        states s (B, T, D), memory h (B, S, Dm) → (B, T, Dm)

Decoder states are the queries, encoder states the keys and the values, and no matrix but the score's stands between.
`StateStepper` is a decoder of this kind in the middle of writing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.attention import MLP, Additive, Cache, Dot, General, Mask, Prepared, ScaledDot, Score, Tap, watch
from regard.config.settings import OpenChoice
from regard.errors import ConfigError, UsageError

MakeScore = Callable[[int, int], Score]  # of the widths of queries and keys
ONE_WIDTH = ("dot", "scaled_dot")  # scores that queries and keys of one width need
_LEARNED: dict[str, MakeScore] = {"general": General, "additive": Additive, "mlp": MLP}


def register_score(name: str, make: MakeScore) -> None:
    """Give a score from outside the package a name, for recipes: `model.attention=name`."""
    if name in score_names() and _LEARNED.get(name) is not make:
        raise UsageError(f"there is a score called {name!r} already", hint="give it another name")
    _LEARNED[name] = make


def score_names() -> tuple[str, ...]:
    """What attention between states can be called; "none" is to do without."""
    return ("none", *ONE_WIDTH, *_LEARNED)


AttentionName = Annotated[str, OpenChoice(score_names)]


def score_of(name: AttentionName, d_query: int, *, d_key: int | None = None) -> Score:
    """The score a config names, for queries and keys of these widths."""
    d_key = d_key or d_query
    if name in _LEARNED:
        return _LEARNED[name](d_query, d_key)
    if name not in ONE_WIDTH:
        raise ConfigError(f"no score is called {name!r}; there are {[*ONE_WIDTH, *_LEARNED]}")
    if d_query != d_key:
        raise ConfigError(
            f"the {name} score compares equal widths, not queries of {d_query} with keys of {d_key}",
            hint=f"choose one of {', '.join(_LEARNED)}",
        )
    return Dot() if name == "dot" else ScaledDot()


class StateAttention(nn.Module):
    """Called as cross-attention with a prefilled cache is: `prefill` once, then ask with states."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score
        self.tap = Tap("cross")

    def prefill(self, memory: Tensor) -> Cache:
        """Do once what depends on the encoder states (B, S, Dm) alone."""
        m_B1SD = memory.unsqueeze(1)
        return Cache.filled(self.score.prepare(m_B1SD).keys, m_B1SD)

    def forward(self, states: Tensor, *, mask: Mask | None, cache: Cache) -> Tensor:
        """Decoder states (B, T, D) → contexts (B, T, Dm)."""
        keys = Prepared(cache.keys)
        context: Tensor = self.tap(states.unsqueeze(1), keys, cache.values, score=self.score, mask=mask)
        return context.squeeze(1)


class DecoderState(Protocol):
    """Where a decoder stands, and what it attends to."""

    def reorder(self, rows: Tensor, *, same_source: bool) -> None:
        """Rows change places; `same_source` says that each stays with its own source, whose keys then can stay."""


State = TypeVar("State", bound=DecoderState)


class StateStepper(Generic[State]):
    """One token a row at a time: `advance` takes tokens (N,) and moves the state on; `watched` attention is kept."""

    def __init__(
        self,
        advance: Callable[[Tensor, State], Tensor],
        state: State,
        *,
        device: torch.device,
        watched: nn.Module | None,
    ) -> None:
        self.advance, self.state, self.device, self.watched = advance, state, device, watched
        self._weights: Tensor | None = None

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        if self.watched is None:
            return self.advance(tokens, self.state)
        with watch(self.watched) as seen:
            logits = self.advance(tokens, self.state)
        self._weights = seen.only().weights.mean(1)[:, 0]
        return logits

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        self.state.reorder(rows, same_source=same_source)

    def attention(self) -> Tensor | None:
        """The last step's attention (N, S), averaged over heads, if the steps are watched and there is any."""
        return self._weights
