"""Look at the weights of any model, without changing what it computes.

Every model calls attention through a `Tap`: a named place where `attend` happens. Unwatched, a tap is that call and
nothing else. Watched, it computes the weights *beside* the fused kernel, for the heads asked for and nowhere else,
so the output keeps every bit it had.

    with regard.watch(model, layers=[3], kinds=["cross"]) as seen:
        model(source, target)
    seen.only(kind="cross").weights         (B, H, T, S)

With `through=True` the output itself is computed from the recorded weights, so that gradients reach them:
then the last bits may differ from the fused kernel's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch import Tensor, nn

from regard.attention.core import attend, attention_weights, repeat_groups, weigh
from regard.attention.masks import Dense, Mask, as_mask
from regard.attention.scores import Prepared, ScaledDot, Score
from regard.config.twins import resolve
from regard.errors import UsageError

Kind = Literal["self", "masked", "cross"]


@dataclass(frozen=True)
class Sight:
    """What one call of one attention looked at: `weights` (B, H, T, S) of the `heads` asked for."""

    name: str
    kind: Kind
    layer: int
    heads: tuple[int, ...]
    weights: Tensor


@dataclass
class Seen:
    """The sights of a watched stretch, in the order they happened."""

    sights: list[Sight] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.sights)

    def __iter__(self) -> Iterator[Sight]:
        return iter(self.sights)

    def where(self, *, kind: Kind | None = None, layer: int | None = None) -> list[Sight]:
        """The sights of one kind, of one layer, or of both."""
        return [s for s in self.sights if kind in (None, s.kind) and layer in (None, s.layer)]

    def only(self, *, kind: Kind | None = None, layer: int | None = None) -> Sight:
        """The one sight that fits; several or none are an error."""
        sights = self.where(kind=kind, layer=layer)
        if len(sights) != 1:
            have = sorted({(s.kind, s.layer) for s in self.sights})
            raise UsageError(f"{len(sights)} sights of kind={kind}, layer={layer}, not one; seen were {have}")
        return sights[0]


@dataclass
class _Watcher:
    seen: Seen
    name: str
    layer: int
    heads: tuple[int, ...] | None
    through: bool


class Tap(nn.Module):
    """A named call of `attend`: the place where a model's attention can be watched. It holds no parameters."""

    def __init__(self, kind: Kind = "self") -> None:
        super().__init__()
        resolve()  # twins are looked up here, before a compiler traces the calls
        _check_kinds([kind])
        self.kind: Kind = kind
        self.watchers: tuple[_Watcher, ...] = ()

    def forward(
        self,
        query: Tensor,
        key: Tensor | Prepared,
        value: Tensor,
        *,
        score: Score | None = None,
        mask: Mask | Tensor | None = None,
        bias: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        """`attend`, seen by whoever watches: query (B, H, T, E) → output (B, H, T, Ev)."""
        if not self.watchers:
            return attend(query, key, value, score=score, mask=mask, bias=bias, dropout=dropout)
        if any(watcher.through for watcher in self.watchers):
            weights = attention_weights(query, key, score=score, mask=mask, bias=bias)
            self._heads_asked(query.shape[-3])  # refuse what is not there
            self._record(weights, tuple(range(query.shape[-3])))
            return weigh(weights, value, dropout=dropout, mask=mask)
        output = attend(query, key, value, score=score, mask=mask, bias=bias, dropout=dropout)
        heads = self._heads_asked(query.shape[-3])
        if heads == tuple(range(query.shape[-3])):
            self._record(attention_weights(query, key, score=score, mask=mask, bias=bias), heads)
        elif heads:
            weights = _weights_of(heads, query, key, score=score or ScaledDot(), mask=mask, bias=bias)
            self._record(weights, heads)
        return output

    def __getstate__(self) -> dict[str, Any]:
        """A copy is not watched: its watcher would never let go."""
        return {**self.__dict__, "watchers": ()}

    def _heads_asked(self, n_heads: int) -> tuple[int, ...]:
        asked: set[int] = set()
        for watcher in self.watchers:
            heads = range(n_heads) if watcher.heads is None else watcher.heads
            if beyond := [head for head in heads if not 0 <= head < n_heads]:
                raise UsageError(f"there is no head {beyond[0]}: {watcher.name} has heads 0 to {n_heads - 1}")
            asked.update(heads)
        return tuple(sorted(asked))

    def _record(self, weights: Tensor, heads: tuple[int, ...]) -> None:
        for watcher in self.watchers:
            mine = heads if watcher.heads is None else watcher.heads
            part = weights if mine == heads else weights[..., [heads.index(head) for head in mine], :, :]
            part = part if watcher.through else part.detach()
            watcher.seen.sights.append(Sight(watcher.name, self.kind, watcher.layer, mine, part))


@contextmanager
def watch(
    module: nn.Module,
    *,
    layers: Collection[int] | None = None,
    heads: Collection[int] | None = None,
    kinds: Collection[Kind] | None = None,
    through: bool = False,
) -> Iterator[Seen]:
    """Record the attention weights of `module` while the block runs, only for the layers, heads and kinds asked for.

    Layers count from 0 within each kind: `self` (an encoder's), `masked` (a decoder's own past) and `cross`.
    """
    _check_kinds(kinds or ())
    seen = Seen()
    taps = _taps(module)
    chosen = [(name, tap, layer) for name, tap, layer in taps if _asked(tap, layer, kinds, layers)]
    if not chosen or set(layers or ()) - {layer for _, _, layer in chosen}:
        have = sorted({(tap.kind, layer) for _, tap, layer in taps})
        raise UsageError(
            f"nothing to watch: no attention with kinds={_shown(kinds)}, layers={_shown(layers)}; "
            f"the module has (kind, layer) {have}"
        )
    wanted = None if heads is None else tuple(sorted(set(heads)))
    added = [(tap, _Watcher(seen, name, layer, wanted, through)) for name, tap, layer in chosen]
    for tap, watcher in added:
        tap.watchers += (watcher,)
    try:
        yield seen
    finally:
        for tap, watcher in added:
            tap.watchers = tuple(other for other in tap.watchers if other is not watcher)


def _taps(module: nn.Module) -> list[tuple[str, Tap, int]]:
    """Every tap with its name and its number among those of its kind."""
    counts: dict[str, int] = {}
    taps = []
    for name, part in module.named_modules():
        if isinstance(part, Tap):
            layer = counts.get(part.kind, 0)
            counts[part.kind] = layer + 1
            taps.append((name.removesuffix(".tap"), part, layer))
    return taps


def _check_kinds(kinds: Collection[str]) -> None:
    if unknown := set(kinds) - set(get_args(Kind)):
        raise UsageError(f"no kind of attention is called {sorted(unknown)}; there are {list(get_args(Kind))}")


def _asked(tap: Tap, layer: int, kinds: Collection[Kind] | None, layers: Collection[int] | None) -> bool:
    return (kinds is None or tap.kind in kinds) and (layers is None or layer in layers)


def _shown(choice: Collection[object] | None) -> str:
    return "all" if choice is None else str(sorted(choice, key=str))


def _weights_of(
    heads: tuple[int, ...],
    query: Tensor,
    key: Tensor | Prepared,
    *,
    score: Score,
    mask: Mask | Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """The weights of some heads alone, computed from those heads' queries and keys alone."""
    prepared = key if isinstance(key, Prepared) else score.prepare(key)
    keys = repeat_groups(prepared.keys, query)
    rule = as_mask(mask)
    if rule is not None:
        n_leading = query.ndim - 2
        dense = rule.dense(query.shape[-2], keys.shape[-2], n_leading=n_leading, device=query.device)
        rule = Dense(_pick(dense, heads))
    chosen = Prepared(_pick(keys, heads))
    picked_bias = None if bias is None else _pick(bias, heads)
    return attention_weights(_pick(query, heads), chosen, score=score, mask=rule, bias=picked_bias)


def _pick(tensor: Tensor, heads: tuple[int, ...]) -> Tensor:
    """The chosen heads of (..., H, ·, ·); what all heads share stays as it is."""
    return tensor if tensor.ndim < 3 or tensor.shape[-3] == 1 else tensor[..., list(heads), :, :]
