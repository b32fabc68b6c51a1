"""Who may look at whom, as descriptions. True = may attend, everywhere.

A mask stays a description until a kernel needs numbers: `Causal()` becomes the kernel's causal flag,
`Documents` its variable-length form, and only what no flag expresses is made a dense boolean tensor.

    Causal(offset)        key j ≤ query i + offset                 the decoder's rule; offset = tokens already cached
    Padding(lengths)      key j < length of its row                lengths (B,) or any leading shape
    Since(starts)         key j ≥ start of its row                 rows that are padded in front, as ragged prompts are
    Window(left, right)   query i − left ≤ key j ≤ query i + right  (both shifted by offset)
    Documents(lengths)    query and key stand in the same document  of one packed row
    Dense(allowed)        whatever a boolean tensor says
    Materialized(allowed) the same with the bias it amounts to, kept for many calls: see `materialize`

    mask = Causal() & Padding(lengths)       both have to allow it

`dense(T, S, n_leading)` gives a boolean tensor that broadcasts against scores `(..., T, S)` with `n_leading`
leading dimensions; per-row facts (lengths) line up with the first of them, so `(B, T, S)` and `(B, H, T, S)` both work.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, reduce
from operator import and_

import torch
from torch import Tensor

from regard.errors import MaskError, ShapeError


class Mask(ABC):
    """A rule that says which query may attend to which key."""

    @abstractmethod
    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """Write the rule out: bool, broadcastable to `(..., T, S)`."""

    def trivial(self, n_queries: int, n_keys: int) -> bool:
        """Whether the rule allows everything at this size, known without looking at any tensor."""
        return False

    def leaves_none_empty(self, n_queries: int, n_keys: int) -> bool:
        """Whether every query is sure to have at least one key, known without looking at any tensor."""
        return False

    def __and__(self, other: Mask) -> Mask:
        return Both(*_parts(self), *_parts(other))


class Causal(Mask):
    """Query i sees keys up to i + offset. With `offset` cached tokens, the queries are the newest positions."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """Lower triangle, shifted right by the offset: `(T, S)`."""
        return _gaps(n_queries, n_keys, offset=self.offset, device=device) <= 0

    def trivial(self, n_queries: int, n_keys: int) -> bool:
        """True when even the first query is allowed the last key, as for one step after a cache."""
        return self.offset >= n_keys - 1

    def leaves_none_empty(self, n_queries: int, n_keys: int) -> bool:
        """True unless a negative offset hides the first key too."""
        return self.offset >= 0 and n_keys > 0


class Padding(Mask):
    """Keys from a row's length on are padding. `lengths` has the shape of the first leading dimensions."""

    def __init__(self, lengths: Tensor | Sequence[int]) -> None:
        self.lengths = _whole_numbers(lengths, what="padding lengths")

    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """True before each row's length: `(B, 1, ..., 1, S)`."""
        lengths = _align(self.lengths.to(device), n_leading=n_leading, n_trailing=2, what="padding lengths")
        return torch.arange(n_keys, device=device) < lengths


class Since(Mask):
    """Keys before a row's start are padding. `starts` has the shape of the first leading dimensions."""

    def __init__(self, starts: Tensor | Sequence[int]) -> None:
        self.starts = _whole_numbers(starts, what="padding starts")

    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """True from each row's start on: `(B, 1, ..., 1, S)`."""
        starts = _align(self.starts.to(device), n_leading=n_leading, n_trailing=2, what="padding starts")
        return torch.arange(n_keys, device=device) >= starts


class Window(Mask):
    """Query i sees the `left` keys before it, itself, and the `right` keys after it."""

    def __init__(self, left: int, right: int = 0, *, offset: int = 0) -> None:
        if left < 0 or right < 0:
            raise MaskError(f"a window reaches left and right by 0 or more positions, not by {left} and {right}")
        self.left, self.right, self.offset = left, right, offset

    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """A band around the diagonal: `(T, S)`."""
        gaps = _gaps(n_queries, n_keys, offset=self.offset, device=device)
        return (gaps >= -self.left) & (gaps <= self.right)

    def trivial(self, n_queries: int, n_keys: int) -> bool:
        """True when the band covers the whole matrix."""
        return self.left >= n_queries - 1 + self.offset and self.right + self.offset >= n_keys - 1

    def leaves_none_empty(self, n_queries: int, n_keys: int) -> bool:
        """True when every query's own position exists among the keys."""
        return self.offset >= 0 and n_queries + self.offset <= n_keys


class Documents(Mask):
    """One packed row of several documents, each blind to the others.

    `lengths` (N,) are the documents' lengths in order; `key_lengths` differ in cross-attention. `longest` is the
    largest of both, a plain number so that no kernel has to ask the device for it; without it, it is looked up once.
    """

    def __init__(
        self, lengths: Tensor | Sequence[int], key_lengths: Tensor | Sequence[int] | None = None, *, longest: int = 0
    ) -> None:
        self.lengths = _whole_numbers(lengths, what="document lengths")
        self.key_lengths = self.lengths if key_lengths is None else _whole_numbers(key_lengths, what="document lengths")
        if self.lengths.ndim != 1 or self.lengths.shape != self.key_lengths.shape:
            raise ShapeError(
                f"documents need one length each: got {tuple(self.lengths.shape)} query lengths "
                f"and {tuple(self.key_lengths.shape)} key lengths"
            )
        self.longest = longest or int(max(self.lengths.max(), self.key_lengths.max()))

    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """Blocks along the diagonal: `(T, S)`."""
        self.check(n_queries, n_keys)
        rows = self._owners(self.lengths, n_queries, device)
        columns = self._owners(self.key_lengths, n_keys, device)
        return rows[:, None] == columns[None, :]

    def check(self, n_queries: int, n_keys: int) -> None:
        """The documents have to fill the row. Sums on a device or in a compiler are not known yet: unchecked."""
        if torch.compiler.is_compiling():
            return
        for lengths, n_positions in ((self.lengths, n_queries), (self.key_lengths, n_keys)):
            if lengths.device.type == "cpu" and (total := int(lengths.sum())) != n_positions:
                raise ShapeError(f"documents of {total} positions in all do not fill a row of {n_positions}")

    def key_places(self, n_keys: int, device: torch.device) -> Tensor:
        """Where each key stands in its document, (S,)."""
        lengths = self.key_lengths.to(device)
        owners = self._owners(self.key_lengths, n_keys, device).clamp(max=len(lengths) - 1)
        return torch.arange(n_keys, device=device) - (lengths.cumsum(0) - lengths)[owners]

    @staticmethod
    def _owners(lengths: Tensor, n_positions: int, device: torch.device) -> Tensor:
        """The document each position belongs to."""
        ends = lengths.to(device).cumsum(0)
        return torch.searchsorted(ends, torch.arange(n_positions, device=device), right=True)


class Dense(Mask):
    """A boolean tensor, True = may attend, that broadcasts against the scores."""

    def __init__(self, allowed: Tensor) -> None:
        if allowed.dtype != torch.bool:
            raise MaskError(
                f"a mask is boolean (True = may attend), not {allowed.dtype}",
                hint="pass numbers that are to be added to the scores as `bias`, or compare: mask = numbers > 0",
            )
        self.allowed = allowed

    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """The tensor itself, its size checked."""
        sizes = self.allowed.shape[-2:] if self.allowed.ndim > 1 else (1, *self.allowed.shape)
        if len(sizes) != 2 or sizes[0] not in (1, n_queries) or sizes[1] not in (1, n_keys):
            raise ShapeError(
                f"a mask of shape {tuple(self.allowed.shape)} does not fit {n_queries} queries × {n_keys} keys"
            )
        return self.allowed.to(device).reshape(*self.allowed.shape[:-2], *sizes)


class Materialized(Mask):
    """A boolean tensor (..., T, S) that leaves no query without a key, with the bias it amounts to, for many calls."""

    def __init__(self, allowed: Tensor) -> None:
        self.allowed = allowed

    @cached_property
    def bias(self) -> Tensor:
        """0 where a key is allowed, −inf elsewhere; written when it is first needed."""
        return torch.zeros(self.allowed.shape, device=self.allowed.device).masked_fill_(~self.allowed, -math.inf)

    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """The tensor itself."""
        return self.allowed

    def leaves_none_empty(self, n_queries: int, n_keys: int) -> bool:
        """That is what its maker has seen to."""
        return True


class Both(Mask):
    """Several rules at once; made with `&`."""

    def __init__(self, *parts: Mask) -> None:
        self.parts = parts

    def dense(self, n_queries: int, n_keys: int, *, n_leading: int, device: torch.device) -> Tensor:
        """Where every part that says anything allows it."""
        masks = (part.dense(n_queries, n_keys, n_leading=n_leading, device=device) for part in self.parts)
        return reduce(and_, masks)

    def trivial(self, n_queries: int, n_keys: int) -> bool:
        """True when no part forbids anything."""
        return all(part.trivial(n_queries, n_keys) for part in self.parts)

    def leaves_none_empty(self, n_queries: int, n_keys: int) -> bool:
        """True when every part leaves the query its own position: what these two allow together holds it."""
        own = [part for part in self.parts if isinstance(part, Causal | Window)]
        return len(own) == len(self.parts) and all(
            part.offset == own[0].offset and part.leaves_none_empty(n_queries, n_keys) for part in own
        )


def as_mask(mask: Mask | Tensor | None) -> Mask | None:
    """Accept a boolean tensor wherever a description is expected."""
    if mask is None or isinstance(mask, Mask):
        return mask
    if isinstance(mask, Tensor):
        return Dense(mask)
    raise MaskError(f"a mask is a regard.attention mask or a boolean tensor, not {type(mask).__name__}")


def documents_of(mask: Mask | Tensor | None) -> Documents | None:
    """The documents of a packed row, where a mask speaks of them."""
    parts = mask.parts if isinstance(mask, Both) else (mask,)
    return next((part for part in parts if isinstance(part, Documents)), None)


def simplify(mask: Mask | None, n_queries: int, n_keys: int) -> Mask | None:
    """Leave out what forbids nothing at this size, so that the plainest kernel can be used."""
    if not isinstance(mask, Both):
        return None if mask is None or mask.trivial(n_queries, n_keys) else mask
    parts = [part for part in mask.parts if not part.trivial(n_queries, n_keys)]
    if len(parts) < 2:
        return parts[0] if parts else None
    return Both(*parts)


def materialize(mask: Mask | None, n_queries: int, n_keys: int, *, device: torch.device) -> Mask | None:
    """The same mask for many calls on heads (B, H, T, S): None where it forbids nothing.

    Elsewhere than on a CPU, or where a query has no key at all, it stays the description it was.
    """
    if mask is None or device.type != "cpu":
        return mask
    allowed = mask.dense(n_queries, n_keys, n_leading=2, device=device)
    if bool(allowed.all()):
        return None
    return Materialized(allowed) if bool(allowed.any(-1).all()) else mask


def _parts(mask: Mask | None) -> tuple[Mask, ...]:
    if mask is None:
        return ()
    return mask.parts if isinstance(mask, Both) else (mask,)


def _gaps(n_queries: int, n_keys: int, *, offset: int, device: torch.device) -> Tensor:
    """How far each key lies ahead of each query: `(T, S)`."""
    return torch.arange(n_keys, device=device) - (torch.arange(n_queries, device=device) + offset)[:, None]


def _align(facts: Tensor, *, n_leading: int, n_trailing: int, what: str) -> Tensor:
    """Line per-row facts up with the first leading dimensions of the scores."""
    if facts.ndim > n_leading:
        raise ShapeError(f"{what} of shape {tuple(facts.shape)} need {facts.ndim} leading dimensions, got {n_leading}")
    return facts.reshape(*facts.shape, *(1,) * (n_leading - facts.ndim + n_trailing))


def _whole_numbers(values: Tensor | Sequence[int], *, what: str) -> Tensor:
    numbers = values if isinstance(values, Tensor) else torch.tensor(list(values), dtype=torch.long)
    if numbers.is_floating_point() or numbers.dtype == torch.bool or numbers.is_complex():
        raise MaskError(f"{what} are whole numbers, not {numbers.dtype}")
    return numbers
