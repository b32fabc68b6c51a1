"""Filters decide which tokens may come next; each is a small callable from logits to logits.

A filter returns new logits in which what may not come is −inf, and leaves its input as it was. The log-probabilities
that decoding reports are those of the model, before any filter.

    logits (N, V)        history (N, t) the t tokens each row holds        inputs (N,) the input each row belongs to
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.options import DecodeOptions


@dataclass(frozen=True)
class Moment:
    """Where decoding stands: how many tokens each row holds, which, and whose rows they are."""

    step: int
    inputs: Tensor
    history: Tensor


Filter = Callable[[Tensor, Moment], Tensor]

NUCLEUS = 1024  # how many tokens a nucleus is first looked for among


@dataclass(frozen=True)
class Temperature:
    """Divide the logits: below 1 sharpens, above 1 flattens."""

    value: float

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """Scaled logits."""
        return logits / self.value


@dataclass(frozen=True)
class TopK:
    """Keep the k likeliest tokens, and whatever ties with the last of them."""

    k: int

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """Logits below the k-th largest forbidden."""
        kth = logits.topk(min(self.k, logits.shape[-1])).values[:, -1:]
        return logits.masked_fill(logits < kth, -math.inf)


@dataclass(frozen=True)
class TopP:
    """Keep the nucleus: the fewest likeliest tokens that reach probability p together, and ties with the last."""

    p: float

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """Logits outside the nucleus forbidden."""
        total = logits.logsumexp(-1, keepdim=True)
        # Sorting a whole vocabulary is slow on a CPU, and nuclei are small: try the first thousand, and look.
        if logits.device.type == "cpu" and logits.shape[-1] > 4 * NUCLEUS:
            reached, least = self._least(logits.topk(NUCLEUS).values, total)
            if bool(reached.all()):
                return logits.masked_fill(logits < least, -math.inf)
        _, least = self._least(logits.sort(dim=-1, descending=True).values, total)
        return logits.masked_fill(logits < least, -math.inf)

    def _least(self, descending: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """Whether these logits (N, n), largest first, hold the nucleus, and the smallest logit (N, 1) in it."""
        probs = (descending - total).exp()
        summed = probs.cumsum(-1)
        n_kept = (summed - probs < self.p).sum(-1, keepdim=True).clamp(min=1)
        return summed[:, -1] >= self.p, descending.gather(-1, n_kept - 1)


@dataclass(frozen=True)
class MinP:
    """Keep tokens at least `share` times as likely as the likeliest."""

    share: float

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """Logits too far below the largest forbidden."""
        return logits.masked_fill(logits < logits.amax(-1, keepdim=True) + math.log(self.share), -math.inf)


@dataclass(frozen=True)
class MinLength:
    """No end before a row holds `length` tokens."""

    length: int
    eos_id: int

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """The end mark forbidden while it is too early."""
        if moment.step >= self.length:
            return logits
        later = logits.clone()
        later[:, self.eos_id] = -math.inf
        return later


class Banned:
    """Token ids that may never come."""

    def __init__(self, ids: Sequence[int], device: torch.device) -> None:
        self.ids = torch.tensor(list(ids), dtype=torch.int64, device=device)

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """The banned tokens forbidden."""
        return logits.index_fill(-1, self.ids, -math.inf)


@dataclass(frozen=True)
class NoRepeat:
    """No n-gram twice in a row's history."""

    n: int

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """Whatever would complete an n-gram the row already holds forbidden."""
        if moment.step < self.n:
            return logits
        grams = moment.history.unfold(1, self.n, 1)  # (N, t-n+1, n)
        last = moment.history[:, moment.step - self.n + 1 :]  # (N, n-1)
        seen = (grams[..., :-1] == last[:, None]).all(-1)  # (N, t-n+1)
        floor = torch.where(seen, -math.inf, math.inf).to(logits.dtype)
        return logits.scatter_reduce(1, grams[..., -1], floor, "amin")


class ForcedPrefix:
    """Each input's given beginning: until it is over, the given token is the only one allowed."""

    def __init__(self, prefixes: Sequence[Sequence[int]], device: torch.device) -> None:
        self.longest = max(map(len, prefixes), default=0)
        table = [[*prefix, *[0] * (self.longest - len(prefix))] for prefix in prefixes]
        self.tokens = torch.tensor(table, dtype=torch.int64, device=device).view(len(prefixes), self.longest)
        self.lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)

    def holds(self, moment: Moment) -> Tensor:
        """Which rows (N,) are still within their prefix."""
        return self.lengths[moment.inputs] > moment.step

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """Every token but the given one forbidden; rows past their prefix as they were."""
        if moment.step >= self.longest:
            return logits
        forced = self.tokens[moment.inputs, moment.step][:, None]
        # A model may rule the given token out by −inf; it is still the one that comes.
        kept = logits.gather(-1, forced).clamp(min=torch.finfo(logits.dtype).min)
        only = torch.full_like(logits, -math.inf).scatter(-1, forced, kept)
        return torch.where(self.holds(moment)[:, None], only, logits)


class Filters:
    """All filters of one decoding, in order: bans, the given beginning (which no ban can touch), then the shaping of
    a sample.

    Where the bans leave a row nothing at all, it may end, even if that is early.
    """

    def __init__(
        self, options: DecodeOptions, *, eos_id: int, device: torch.device, prefixes: Sequence[Sequence[int]] | None
    ) -> None:
        self.eos_id = eos_id
        self.needs_history = options.no_repeat_ngram > 0
        self.may_get_stuck = self.needs_history or bool(options.banned)
        self.bans = _bans(options, eos_id=eos_id, device=device)
        self.shaping = _shaping(options)
        self.prefix = ForcedPrefix(prefixes, device) if prefixes and any(prefixes) else None

    def __call__(self, logits: Tensor, moment: Moment) -> Tensor:
        """The logits (N, V) to choose from; the very same tensor where there is nothing to filter."""
        allowed = logits
        for ban in self.bans:
            allowed = ban(allowed, moment)
        if self.may_get_stuck and allowed is not logits:
            self._leave_a_way_out(allowed, logits)
        if self.prefix is not None and moment.step < self.prefix.longest:
            inside = self.prefix.holds(moment)[:, None]
            allowed = torch.where(inside, self.prefix(logits, moment), allowed)
        for shape in self.shaping:
            allowed = shape(allowed, moment)
        return allowed

    def _leave_a_way_out(self, allowed: Tensor, logits: Tensor) -> None:
        """Let rows without any token end; in place, on the copy that a ban has made."""
        stuck = allowed.amax(-1) == -math.inf
        allowed[:, self.eos_id] = torch.where(stuck, logits[:, self.eos_id], allowed[:, self.eos_id])


def _bans(options: DecodeOptions, *, eos_id: int, device: torch.device) -> list[Filter]:
    bans: list[tuple[object, Filter]] = [
        (options.min_length, MinLength(options.min_length, eos_id)),
        (options.banned, Banned(options.banned, device)),
        (options.no_repeat_ngram, NoRepeat(options.no_repeat_ngram)),
    ]
    return [ban for asked, ban in bans if asked]


def _shaping(options: DecodeOptions) -> list[Filter]:
    shaping: list[tuple[object, Filter]] = [
        (options.temperature != 1.0, Temperature(options.temperature)),
        (options.top_k, TopK(options.top_k)),
        (options.top_p < 1.0, TopP(options.top_p)),
        (options.min_p > 0.0, MinP(options.min_p)),
    ]
    return [shape for asked, shape in shaping if asked]
