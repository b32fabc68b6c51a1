"""Decode: a started stepper and the options in, hypotheses out.

`decode` returns, for each row, its hypotheses: one (greedy), the `n_best` best of the beam, best first, or
`n_samples` in the order they were drawn. `stream` follows a single row and yields its tokens as they come.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from regard.config.twins import twin
from regard.decoding.beam import BeamSearch
from regard.decoding.options import DecodeOptions
from regard.decoding.paths import Paths
from regard.decoding.plan import Plan, Prefixes, SyncPolicy, make_plan
from regard.decoding.ranking import Hypothesis
from regard.decoding.stepper import Stepper
from regard.decoding.walks import Walk
from regard.decoding.written import WrittenPaths
from regard.errors import UsageError


@torch.inference_mode()
def decode(
    stepper: Stepper,
    *,
    n_rows: int,
    bos_id: int | Tensor,
    eos_id: int,
    pad_id: int,
    options: DecodeOptions,
    max_lengths: Tensor | Sequence[int] | None = None,
    prefixes: Prefixes | None = None,
    row_keys: Tensor | Sequence[int] | None = None,
    sync: SyncPolicy | None = None,
) -> list[list[Hypothesis]]:
    """Decode every row that the stepper was started on.

    bos_id       the first token fed to every row; or (n_rows,), such as the last token of each row's prompt
    max_lengths  the most steps for each row, up to `options.max_length`; see `DecodeOptions.limits`
    prefixes     how the output of each row has to begin; those tokens are part of the hypothesis and of its length
    row_keys     the name of each row in the random stream, with which it draws the same in any batch: `key_of` what it
                 was made from; by default 0, 1, 2 …, for this knows only steppers
    sync         how often to look for finished rows; chosen by device
    """
    if n_rows == 0:
        return []
    plan = make_plan(
        options,
        _planned_on(stepper),
        n_rows=n_rows,
        bos_id=bos_id,
        eos_id=eos_id,
        pad_id=pad_id,
        max_lengths=max_lengths,
        prefixes=prefixes,
        row_keys=row_keys,
        sync=sync or SyncPolicy.of(stepper.device),
    )
    paths = _own_paths(stepper, plan)
    if paths is None:
        plan = plan.on(stepper.device)
        if (walked := _walked(stepper, plan)) is not None:
            return [[walked.hypothesis()]]
    search = paths or _search(stepper, plan)
    search.advance()
    while not search.is_over():
        search.advance()
    return search.hypotheses()


class Search(Protocol):
    """A search under way."""

    def advance(self) -> None:
        """Go on by a step, or by some."""

    def is_over(self) -> bool:
        """Whether nothing is left to search."""

    def hypotheses(self) -> list[list[Hypothesis]]:
        """What each row came to."""


def _search(stepper: Stepper, plan: Plan) -> Search:
    """A faster twin of what is planned, or the textbook."""
    fast = twin("search")
    search: Search | None = None if fast is None else fast(stepper, plan)
    if search is not None:
        return search
    return BeamSearch(stepper, plan) if plan.options.strategy == "beam" else Paths(stepper, plan)


def _planned_on(stepper: Stepper) -> torch.device:
    """Where a plan is made: who may write it by itself is told numbers, and asking a device for them takes time."""
    return torch.device("cpu") if hasattr(stepper, "paths") else stepper.device


def _own_paths(stepper: Stepper, plan: Plan) -> WrittenPaths | None:
    """The paths of a stepper whose device writes what is planned by itself."""
    own: Callable[[Plan], WrittenPaths | None] | None = getattr(stepper, "paths", None)
    return None if own is None else own(plan)


def _walked(stepper: Stepper, plan: Plan) -> Walk | None:
    """The path of a plain greedy decoding, where the stepper is run by somebody who follows such paths."""
    follow: Callable[[Walk], Walk] | None = getattr(stepper, "walk", None)
    walk = None if follow is None else Walk.of(stepper, plan)
    return None if walk is None or follow is None else follow(walk)


def stream(
    stepper: Stepper,
    *,
    bos_id: int,
    eos_id: int,
    pad_id: int,
    options: DecodeOptions,
    prefix: Sequence[int] = (),
    row_key: int = 0,
) -> Iterator[int]:
    """Yield the tokens of a single row one by one, without the end mark: the ones `decode` would return."""
    pieces = stream_pieces(
        stepper, bos_id=bos_id, eos_id=eos_id, pad_id=pad_id, options=options, prefix=prefix, row_key=row_key
    )
    return (token for piece in pieces for token in piece)


def stream_pieces(
    stepper: Stepper,
    *,
    bos_id: int,
    eos_id: int,
    pad_id: int,
    options: DecodeOptions,
    prefix: Sequence[int] = (),
    row_key: int = 0,
) -> Iterator[list[int]]:
    """Yield the same tokens as they come: one by one, or several at once from a stepper that writes by itself."""
    if options.strategy == "beam" or options.n_samples > 1:
        raise UsageError(
            f"strategy is {options.strategy!r} with n_samples={options.n_samples}; "
            "allowed for streaming are 'greedy', and 'sample' with one sample",
            hint="a beam knows its words only at the end: use decode",
        )
    plan = make_plan(
        options,
        _planned_on(stepper),
        n_rows=1,
        bos_id=bos_id,
        eos_id=eos_id,
        pad_id=pad_id,
        prefixes=[prefix],
        row_keys=[row_key],
        sync=SyncPolicy(check_every=1, shrink_below=1.0, skip_identity=True),
    )
    own = _own_paths(stepper, plan)
    return _pieces(own, eos_id) if own else _computed_pieces(Paths(stepper, plan.on(stepper.device)), eos_id)


@torch.inference_mode()  # on a generator: switched on while it runs, off while its caller does
def _computed_pieces(paths: Paths, eos_id: int) -> Iterator[list[int]]:
    yield from _pieces(paths, eos_id)


def _pieces(paths: Paths | WrittenPaths, eos_id: int) -> Iterator[list[int]]:
    over = False
    while not over:
        paths.advance()
        tokens = paths.latest()
        over = paths.is_over()
        if written := [token for token in tokens if token != eos_id]:
            yield written
