"""Random draws that follow from what they are for, and from nothing that was drawn before.

    with keyed_draws(keys):          keys (N,) of 64 bits, one for each example of the batch
        loss = …                     layers that draw ask `keyed()` and find them

A draw is a hash of the example's key, the call that makes it and the place within the example: splitmix64 (Steele, Lea
and Flood, 2014), a counter-based generator like Philox, here over whole tensors on any device. So an example draws the
same whichever process computes it, beside whichever others, padded or packed. Outside a scope nobody draws by key.

    call         the name of what draws and how many of that name came before, so each layer draws its own
    place        the position in the sequence, and the element (or head and key) there; never the width of a batch

What is computed again in the backward pass has to draw what it drew: `torch.utils.checkpoint` with
`context_fn=recomputation` sees to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from copy import copy
from functools import lru_cache
from hashlib import blake2b

import torch
from torch import Tensor

from regard.errors import UsageError

LEVELS = 2**16  # what a share is rounded to: one 64-bit hash serves four elements


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


_WEYL, _PLACE, _HEAD, _ROW = map(
    _signed, (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7, 0xABC98388FB8FAC03)
)
_MIX = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)


def mix(words: Tensor) -> Tensor:
    """Splitmix64's last step over int64, in place: every bit of a word depends on all of them."""
    for shift, factor in ((30, _MIX[0]), (27, _MIX[1])):
        words.bitwise_xor_((words >> shift).bitwise_and_(2 ** (64 - shift) - 1)).mul_(factor)
    return words.bitwise_xor_((words >> 31).bitwise_and_(2**33 - 1))


@lru_cache(maxsize=4096)
def _call_key(*parts: str | int) -> int:
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "little", signed=True)


class KeyedDraws:
    """The draws of one batch: of which examples its rows are, and how many calls there were."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys  # (N,) int64
        self._tokens: Tensor | None = None  # (1, T) where documents lie end to end
        self._reading = 0
        self._counts: dict[str, int] = {}
        self._places: dict[tuple[int, int], Tensor] = {}
        self._again = False

    def kept(self, shape: torch.Size, p: float, *, name: str = "elements") -> Tensor:
        """Which elements of a tensor (B, T, …) or (B, D) dropout keeps, all but a share `p`."""
        n, length = shape[0], shape[1] if len(shape) > 2 else 1
        width = shape[(2 if len(shape) > 2 else 1) :].numel()
        lanes = self._lanes(name, width)
        words = mix(self._at(n, length)[..., None] + lanes)  # (B, T, width / 4)
        return (words.view(torch.int16)[..., :width] >= _threshold(p)).view(shape)

    def kept_weights(self, shape: torch.Size, p: float, *, key_places: Tensor | None = None) -> Tensor:
        """Which attention weights (B, H, T, S) or (B, T, S) dropout keeps; `key_places` (S,) if not 0, 1, 2, …"""
        if len(shape) not in (3, 4):
            raise UsageError(f"weights (B, H, T, S) or (B, T, S) are dropped by key, not {tuple(shape)}")
        n, n_heads, length, width = shape[0], shape[1] if len(shape) == 4 else 1, shape[-2], shape[-1]
        heads = torch.arange(n_heads, device=self.keys.device)[:, None, None] * _HEAD
        lanes = self._lanes("weights", width if key_places is None else int(key_places.max()) + 1)
        queries = self._at(n, length)[:, None, :, None] + heads  # (B, H, T, 1)
        if key_places is None:
            lane = mix(queries + lanes).view(torch.int16)[..., :width]
        else:
            words = mix(queries + lanes[key_places // 4])
            lane = (words >> (key_places % 4 * 16)) << 48 >> 48  # one of four lanes, with its sign
        return (lane >= _threshold(p)).view(shape)

    def words(self, n: int, width: int, *, name: str) -> Tensor:
        """64 random bits for each of `width` places of n rows, (n, width)."""
        counter = torch.arange(width, device=self.keys.device) * _WEYL + self._call(name)
        return mix(self._at(n, 1) + counter)

    @contextmanager
    def documents(self, lengths: Tensor, n_tokens: int) -> Iterator[None]:
        """Rows of these lengths lie end to end in here, and a tensor (1, n_tokens, …) is all of them."""
        before, known = self._tokens, self._places
        places = torch.arange(n_tokens, device=lengths.device)
        ends = lengths.cumsum(0)
        owners = torch.searchsorted(ends, places, right=True).clamp(max=len(lengths) - 1)
        positions = places - (ends - lengths)[owners]
        self._tokens = mix(self._rows(len(lengths))[owners] + (positions + 1) * _PLACE)[None]
        self._places = {}
        try:
            yield
        finally:
            self._tokens, self._places = before, known

    @contextmanager
    def repeated(self, n: int) -> Iterator[None]:
        """All rows come n times in here, one whole batch after another: each time they draw anew."""
        before = self.keys, self._places
        times = torch.arange(n, device=self.keys.device)[:, None] * _ROW
        self.keys, self._places = (self.keys + times).flatten(), {}
        try:
            yield
        finally:
            self.keys, self._places = before

    @contextmanager
    def only(self, n: int) -> Iterator[None]:
        """The first n rows are left in here."""
        before = self.keys, self._places
        self.keys, self._places = self.keys[:n], {}
        try:
            yield
        finally:
            self.keys, self._places = before

    @contextmanager
    def reading(self, number: int) -> Iterator[None]:
        """The model reads the batch once more in here: calls are counted anew, and draw other numbers."""
        before = self._reading, self._counts
        self._reading, self._counts = number, {}
        try:
            yield
        finally:
            self._reading, self._counts = before

    def fork(self) -> KeyedDraws:
        """The same as it stands now, to draw again what is drawn from here on."""
        other = copy(self)
        other._counts, other._again = dict(self._counts), True
        return other

    def _call(self, name: str) -> int:
        if not self._again and torch._C._current_graph_task_id() != -1:
            raise UsageError(
                "a layer is computed again in the backward pass, and would draw other numbers than before",
                hint="pass context_fn=regard.config.keyed_draws.recomputation to torch.utils.checkpoint",
            )
        number = self._counts[name] = self._counts.get(name, -1) + 1
        return _call_key(self._reading, name, number)

    def _lanes(self, name: str, width: int) -> Tensor:
        return torch.arange(-(-width // 4), device=self.keys.device) * _WEYL + self._call(name)

    def _at(self, n: int, length: int) -> Tensor:
        """A hash of the example and the position for each place of n rows (n, length)."""
        if self._tokens is not None and (n, length) == self._tokens.shape:
            return self._tokens
        if (n, length) not in self._places:
            positions = torch.arange(1, length + 1, device=self.keys.device) * _PLACE
            self._places[n, length] = mix(self._rows(n)[:, None] + positions)
        return self._places[n, length]

    def _rows(self, n: int) -> Tensor:
        """Keys of n rows: one an example, or several that follow one another."""
        each, rest = divmod(n, max(1, len(self.keys)))
        if rest or not each:
            raise UsageError(f"{n} rows draw by key, and there are keys for {len(self.keys)} examples")
        if each == 1:
            return self.keys
        return (self.keys[:, None] + torch.arange(each, device=self.keys.device) * _ROW).flatten()


_scope: ContextVar[KeyedDraws | None] = ContextVar("keyed draws", default=None)


def keyed() -> KeyedDraws | None:
    """The draws of the scope this is called in, if there is one; there is none in what a compiler traces."""
    return None if torch.compiler.is_compiling() else _scope.get()


@contextmanager
def keyed_draws(keys: Tensor) -> Iterator[KeyedDraws]:
    """Draw by the keys (N,) of a batch's examples in here."""
    with _within(KeyedDraws(keys)) as draws:
        yield draws


def repeated(n: int) -> AbstractContextManager[None]:
    """Where a batch comes n times, in one tensor."""
    draws = keyed()
    return nullcontext() if draws is None or n == 1 else draws.repeated(n)


def only(n: int) -> AbstractContextManager[None]:
    """Where the first n rows of a batch are left."""
    draws = keyed()
    return nullcontext() if draws is None else draws.only(n)


def reading(number: int) -> AbstractContextManager[None]:
    """Where a batch is read for a further time."""
    draws = keyed()
    return nullcontext() if draws is None else draws.reading(number)


def recomputation() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    """For `torch.utils.checkpoint(…, context_fn=recomputation)`: both passes through a layer draw the same."""
    draws = keyed()
    return nullcontext(), nullcontext() if draws is None else _within(draws.fork())


@contextmanager
def _within(draws: KeyedDraws) -> Iterator[KeyedDraws]:
    before = _scope.set(draws)
    try:
        yield draws
    finally:
        _scope.reset(before)


def _threshold(p: float) -> int:
    return round(p * LEVELS) - LEVELS // 2
