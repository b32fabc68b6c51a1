"""What a decoder keeps between steps: its own past, and the source's keys and values, layer by layer.

    n sources · W rows a source that follow one another (beams) · N = n · W rows · S cached positions

Rows of one source share its keys and values, so beams need no copies of them. On a processor they share their past as
well: beams that change places would have to copy it at every step, which takes longer than to attend to it. Instead,
all that the beams of a source ever cached stays where it is, in one row, and a mask says whose past is what:

    own (n, W, S)        True where a cached position is in the past of a beam

A reordering then moves rows of this mask alone. Positions in nobody's past are dropped when they are the greater part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.attention import Cache, Mask, reorder_all
from regard.attention.masks import Materialized


@dataclass
class DecoderKVCache:
    """The caches of a decoder's layers; `own` is there while beams share their past.

    `rows_independent` says that they are known to belong to a decoder whose products leave rows alone.
    """

    past: list[Cache]
    source: list[Cache] = field(default_factory=list)
    per_source: int = 1
    own: Tensor | None = None
    rows_independent: bool = False
    _seen: int = 0

    @property
    def length(self) -> int:
        """How many target positions have been seen."""
        return self.past[0].length if self.own is None else self._seen

    def reorder(self, rows: Tensor, *, same_source: bool = False) -> Tensor | None:
        """Rows change places; `same_source` says that each stays with its own sentence, whose keys then can stay.

        Gives the rows of the source that are left, in their order, where those changed.
        """
        if same_source:
            self._reorder_beams(rows)
            return None
        width, sources = shared_sources(rows // self.per_source)
        if self.own is not None and width == self.per_source:
            self._keep(sources)
            self._move(rows)
        else:
            self.unshare()
            reorder_all(self.past, rows)
        self.per_source = width
        reorder_all(self.source, sources)
        return sources

    def step_beams(self) -> Mask:
        """What each beam may see of a past that is about to grow by one position a beam: (n, 1, W, S + W)."""
        assert self.own is not None
        itself = torch.eye(self.per_source, dtype=torch.bool).expand(len(self.own), -1, -1)
        self.own = torch.cat((self.own, itself), 2)
        self._seen += 1
        return Materialized(self.own[:, None])

    def spread(self, width: int) -> None:
        """Each row becomes `width` rows of its source."""
        n_rows = self.past[0].keys.shape[0]
        reorder_all(self.past, torch.arange(n_rows).repeat_interleave(width))
        self.per_source = width

    def share(self) -> None:
        """Let the beams of a source share one row of the caches: position (t, w) is beam w's at step t."""
        n_rows, length, width = self.past[0].keys.shape[0], self.length, self.per_source
        columns = torch.arange(width).repeat(length)
        sources = torch.arange(0, n_rows, width)
        for cache in self.past:
            cache.fold(width)
        self.own = (columns == torch.arange(width)[:, None]).expand(len(sources), -1, -1)
        self._seen = length

    def unshare(self) -> None:
        """Give each row its own past again."""
        if self.own is not None:
            n_sources, width, _ = self.own.shape
            places = self.own.flatten(0, 1).nonzero()[:, 1].view(-1, self._seen).T  # (t, N), in the order of time
            for cache in self.past:
                cache.take(places, torch.arange(n_sources).repeat_interleave(width))
            self.own = None

    def _reorder_beams(self, rows: Tensor) -> None:
        if rows.device.type != "cpu" or self.per_source == 1 or self.length == 0:
            reorder_all(self.past, rows)
            return
        if self.own is None:
            self.share()
        self._move(rows)
        self._forget()

    def _move(self, rows: Tensor) -> None:
        """Each beam takes over the past of another beam of its source."""
        assert self.own is not None
        parents = (rows % self.per_source).view(-1, self.per_source, 1)
        self.own = self.own.gather(1, parents.expand_as(self.own))

    def _keep(self, sources: Tensor) -> None:
        assert self.own is not None
        self.own = self.own.index_select(0, sources)
        reorder_all(self.past, sources)

    def _forget(self) -> None:
        """Drop what is in nobody's past, where that is more than half."""
        assert self.own is not None
        alive = self.own.any(1)  # (n, S)
        most = int(alive.sum(1).max())
        if 2 * most > alive.shape[1]:
            return
        places = alive.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]  # (n, m), by time
        self.own = self.own.gather(2, places[:, None].expand(-1, self.per_source, -1))
        for cache in self.past:
            cache.take(places.T, torch.arange(len(places)))


def shared_sources(sources: Tensor) -> tuple[int, Tensor]:
    """How many neighbours share a source all along, and the sources without their repetitions."""
    once, counts = torch.unique_consecutive(sources, return_counts=True)
    width = int(counts[0]) if len(counts) else 1
    return (width, once) if bool((counts == width).all()) else (1, sources)
