"""One decoding, spelled out: the options joined with the rows they are for, checked against each other.

starts (B,) the first token fed to each row · limits (B,) its most steps · keys (B,) its name in the random stream
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from regard.decoding.options import DecodeOptions
from regard.errors import ShapeError, UsageError

Prefixes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class SyncPolicy:
    """How often decoding looks up from its work: when it asks who has finished, and when finished rows leave the batch.

    Asking costs a wait for the device; letting rows go copies the model's caches and changes its shapes (a CUDA graph
    is captured once a shape). On a CPU both are cheap beside a step, so it asks at every step and lets rows go at once.
    On an accelerator it asks every few steps and lets rows go only when a fair share is done. The hypotheses are the
    same at every policy.

    check_every     ask after so many steps
    shrink_below    shrink when fewer than this share of the rows are still going
    skip_identity   leave out selections that change nothing, which takes one look at the rows a step
    """

    check_every: int
    shrink_below: float
    skip_identity: bool

    @classmethod
    def of(cls, device: torch.device) -> "SyncPolicy":
        """The policy that suits a device."""
        if device.type == "cpu":
            return cls(check_every=1, shrink_below=1.0, skip_identity=True)
        return cls(check_every=4, shrink_below=0.75, skip_identity=False)

    def is_due(self, step: int) -> bool:
        """Whether to ask who has finished after this step, counted from 0."""
        return (step + 1) % self.check_every == 0

    def drops_finished(self, n_going: int, n_rows: int) -> bool:
        """Whether finished rows leave now."""
        return n_going < n_rows * self.shrink_below


@dataclass(frozen=True)
class Marks:
    """What tokens mean: the end, what fills up, and which may never come."""

    eos_id: int
    pad_id: int
    banned: tuple[int, ...] = ()

    def forbidden(self, n_tokens: int, device: torch.device) -> Tensor | None:
        """A flag for each token that may never come (V,); None where any may."""
        if not self.banned:
            return None
        flags = torch.zeros(n_tokens, dtype=torch.int8)
        flags[list(self.banned)] = 1
        return flags.to(device)


@dataclass(frozen=True)
class Plan:
    """What to decode and how, on one device: that of the stepper and of all bookkeeping.

    Numbers of rows are plain ones; tensors are made of them where a search asks for some.
    """

    options: DecodeOptions
    sync: SyncPolicy
    device: torch.device
    eos_id: int
    pad_id: int
    start_ids: list[int]
    row_limits: list[int]
    row_keys: list[int]
    prefixes: Prefixes | None

    def on(self, device: torch.device) -> Self:
        """The same for another device."""
        return self if device == self.device else replace(self, device=device)

    @cached_property
    def starts(self) -> Tensor:
        """The first token fed to each row (B,)."""
        return self._tensor(self.start_ids)

    @cached_property
    def limits(self) -> Tensor:
        """The most steps of each row (B,)."""
        return self._tensor(self.row_limits)

    @cached_property
    def keys(self) -> Tensor:
        """The name of each row in the random stream (B,)."""
        return self._tensor(self.row_keys)

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    @property
    def n_rows(self) -> int:
        """How many inputs there are."""
        return len(self.start_ids)

    @property
    def n_steps(self) -> int:
        """The most steps of any row."""
        return max(self.row_limits, default=0)

    @property
    def shortest(self) -> int:
        """The most steps of the row that has the fewest."""
        return min(self.row_limits, default=0)

    @property
    def marks(self) -> Marks:
        """What its tokens mean."""
        return Marks(self.eos_id, self.pad_id, tuple(sorted(set(self.options.banned))))

    def check_vocabulary(self, n_tokens: int) -> None:
        """Refuse ids that the model does not know, before they reach an index on the device."""
        ids = {"eos_id": self.eos_id, "pad_id": self.pad_id, "banned": max(self.options.banned, default=0)}
        ids["prefixes"] = max((token for prefix in self.prefixes or () for token in prefix), default=0)
        for name, largest in ids.items():
            if largest >= n_tokens:
                raise UsageError(
                    f"{name} holds {largest} and the model knows {n_tokens} tokens; allowed is 0 to {n_tokens - 1}"
                )


def make_plan(
    options: DecodeOptions,
    device: torch.device,
    *,
    n_rows: int,
    bos_id: int | Tensor,
    eos_id: int,
    pad_id: int,
    max_lengths: Tensor | Sequence[int] | None = None,
    prefixes: Prefixes | None = None,
    row_keys: Tensor | Sequence[int] | None = None,
    sync: SyncPolicy | None = None,
) -> Plan:
    """Check everything a caller gives against everything else, and bring it to the device."""
    if eos_id < 0 or pad_id < 0:
        raise UsageError(f"eos_id is {eos_id} and pad_id is {pad_id}; allowed are token ids from 0")
    limits = _limits(options, max_lengths, n_rows)
    _check_prefixes(prefixes, limits, eos_id=eos_id)
    keys = range(n_rows) if row_keys is None else row_keys
    return Plan(
        options=options,
        sync=sync or SyncPolicy.of(device),
        device=device,
        eos_id=eos_id,
        pad_id=pad_id,
        start_ids=start_ids(bos_id, n_rows),
        row_limits=limits,
        row_keys=_one_a_row("row_keys", keys, n_rows),
        prefixes=prefixes,
    )


def start_ids(bos_id: int | Tensor, n_rows: int) -> list[int]:
    """The first token fed to each row: one start mark for all, or the last token of each row's prompt."""
    return [bos_id] * n_rows if isinstance(bos_id, int) else _one_a_row("bos_id", bos_id, n_rows)


def _limits(options: DecodeOptions, given: Tensor | Sequence[int] | None, n_rows: int) -> list[int]:
    if given is None:
        return [options.max_length] * n_rows
    limits = _one_a_row("max_lengths", given, n_rows)
    wrong = [limit for limit in limits if not options.min_length < limit <= options.max_length]
    if wrong:
        raise UsageError(
            f"max_lengths holds {wrong[0]}; allowed is above min_length={options.min_length} "
            f"and up to max_length={options.max_length}",
            hint="options.limits(source_lengths) gives lengths that fit",
        )
    return limits


def _one_a_row(name: str, given: Tensor | Sequence[int], n_rows: int) -> list[int]:
    values = given.tolist() if isinstance(given, Tensor) else list(given)
    if not isinstance(values, list) or len(values) != n_rows:
        shape = tuple(given.shape) if isinstance(given, Tensor) else (len(given),)
        raise ShapeError(f"{name} has shape {shape}; allowed is one value a row, ({n_rows},)")
    return [int(value) for value in values]


def _check_prefixes(prefixes: Prefixes | None, limits: list[int], *, eos_id: int) -> None:
    if prefixes is None:
        return
    if len(prefixes) != len(limits):
        raise ShapeError(f"{len(prefixes)} prefixes were given for {len(limits)} rows; allowed is one a row")
    for row, (prefix, limit) in enumerate(zip(prefixes, limits, strict=True)):
        if len(prefix) >= limit:
            raise UsageError(
                f"the prefix of row {row} has {len(prefix)} tokens and its most steps are {limit}; "
                "allowed is a prefix shorter than that",
                hint="raise max_length",
            )
        if any(token < 0 or token == eos_id for token in prefix):
            raise UsageError(
                f"the prefix of row {row} is {list(prefix)}; allowed are token ids from 0 but not eos_id={eos_id}"
            )
