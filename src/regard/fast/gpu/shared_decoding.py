"""Static caches whose rows belong to many decodings at once: rows are taken and given back while others go on.

    shared = SharedDecoding(graph_model(module), n_rows=64)
    a, b = shared.start([prompt, other], capacities=[20, 30])    read as one batch; each has a stepper of its own
    a.step_with([b], [tokens, tokens])                           one captured step, for logits
    a.begin_writing(plan); a.write_with([b])                     or several, whose tokens are chosen on the device

A launch is some steps, recorded as a few graphs, on a stream of its own. What was chosen in a launch is looked at while
the next ones run, so that the device does not wait for us: who has come joins, and who is done leaves, between two.
Of many rows each is told of several launches at once, in turn; its first tokens and its last are told at once.
With `exact`, inputs are read one by one and every step is made for all rows there are, used or not: then the bits of an
answer do not depend on who else is being answered.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from regard.attention import Rows, Sinusoidal
from regard.decoding.joint import Written
from regard.decoding.paths import NOTHING
from regard.decoding.plan import Marks, Plan
from regard.decoding.sampling import stream_keys
from regard.errors import ShapeError
from regard.fast.gpu.capture import CapturedDecoding, CaptureShape
from regard.fast.gpu.graph_models import GraphModel
from regard.fast.gpu.shared_rows.launch_plan import N_TICKS, LaunchPlan
from regard.fast.gpu.shared_rows.state import RowRecord, RowState, on_its_way
from regard.fast.gpu.static_cache import CacheContents
from regard.models.gpt import refuse_beyond

_ROOM = 512  # positions and source tokens a row, at first: from here on kernels work in blocks of one size
_READ = 16_384  # positions that are read as one batch


@dataclass
class _Launch:
    """Steps on their way; they are those of all who wrote by the launch of this number."""

    number: int
    n_steps: int
    chosen: Tensor
    log_probs: Tensor
    done: Tensor
    began: torch.cuda.Event | None = None
    over: torch.cuda.Event | None = None

    def table(self) -> _Table:
        """What each row has written, once it is there."""
        if self.over is not None:
            self.over.synchronize()
        return _Table(self.number, self.n_steps, *(x.numpy() for x in (self.chosen, self.log_probs, self.done)))


@dataclass(frozen=True)
class _Table:
    """The tokens and log-probabilities (K, n) that a launch has brought n rows, and which were done after it (n,)."""

    number: int
    n_steps: int
    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    done: NDArray[np.int64]


class SharedDecoding:
    """The rows of a model that several decodings share."""

    def __init__(
        self, model: GraphModel[Any], *, n_rows: int, exact: bool = False, plan: LaunchPlan | None = None
    ) -> None:
        self.model, self.n_rows, self.exact, self.plan = model, n_rows, exact, plan or LaunchPlan()
        self.device: torch.device = model.module.output_weight.device
        self._free = list(range(n_rows))
        self._state = RowState(n_rows, n_ticks=N_TICKS, device=self.device)
        on_gpu = self.device.type == "cuda"
        # Where rows step, before whoever reads inputs at the same time.
        self._stream = torch.cuda.Stream(self.device, priority=-1) if on_gpu else None
        self._capturing = torch.cuda.Stream(self.device) if on_gpu else None
        self._reading = torch.cuda.Stream(self.device) if on_gpu else None
        self._entering: list[tuple[CacheContents, list[int]]] = []
        self._records: dict[int, RowRecord] = {}
        self._leaving: deque[int] = deque()
        self._gone: list[int] = []
        self._n_launched = 0
        self._pending: deque[_Launch] = deque()
        self._unread: deque[_Table] = deque()  # what somebody has not been told of
        self._writing: dict[SharedStepper, None] = {}  # who began first comes first
        self._marks: Marks | None = None
        self._step_seconds = 0.002
        self._build(_ROOM, _ROOM if model.attentions("cross") else 0)

    # ---- rows that begin

    def start(self, inputs: Sequence[Tensor | Rows], *, capacities: Sequence[int]) -> list[SharedStepper]:
        """A stepper for each of the inputs, with room for so many steps each; there have to be free rows for all."""
        several = [Rows.of(one) for one in inputs]
        steppers = [
            SharedStepper(self, self._take(len(rows.ids)), capacity=capacity)
            for rows, capacity in zip(several, capacities, strict=True)
        ]
        try:
            for group in self._read_groups(several):
                self._read([several[i] for i in group], [steppers[i] for i in group])
        except Exception:
            for stepper in steppers:
                stepper.close()
            raise
        return steppers

    def n_free(self) -> int:
        """How many rows can be taken."""
        self._put_back()
        return len(self._free)

    def _read_groups(self, inputs: Sequence[Rows]) -> list[list[int]]:
        """Which inputs are read as one batch: those of like length, or each by itself."""
        order = sorted(range(len(inputs)), key=lambda i: inputs[i].ids.shape[1])
        groups: list[list[int]] = []
        n_rows = 0
        for i in order:
            n_rows += len(inputs[i].ids)
            if not groups or self.exact or n_rows * inputs[i].ids.shape[1] > _READ:
                groups.append([])
                n_rows = len(inputs[i].ids)
            groups[-1].append(i)
        return groups

    def _read(self, inputs: Sequence[Rows], steppers: Sequence[SharedStepper]) -> None:
        here = self._here()
        with self._on(self._reading, after=here):
            together = inputs[0] if len(inputs) == 1 else _one_batch(inputs)
            contents = self.model.read_plainly(together) if self.exact else self.model.read(together)
        for rows in inputs:
            _record([rows.ids, rows.lengths], self._reading)
        for stepper, rows in zip(steppers, inputs, strict=True):
            stepper.length = min(len(contents.ancestors), rows.ids.shape[1] - 1)
        n_source = contents.source[0][0].shape[2] if contents.source else 0
        self._reserve(max(one.length + one.capacity for one in steppers), n_source)
        self._entering.append((contents, [row for one in steppers for row in one.rows]))

    # ---- steps

    def step(self, steppers: Sequence[SharedStepper], tokens: Sequence[Tensor]) -> list[Tensor]:
        """Logits (n, V) for each, which hold until the next step; rows that write go on meanwhile."""
        rows = [row for one in steppers for row in one.rows]
        self._reserve(max(one.length for one in steppers) + 1, 0)
        here = self._here()
        with self._on(self._stream, after=here):
            self._settle()
            self._state.step_next(self._row_tensor(rows), torch.cat(list(tokens)))
            logits = self._launch(1, keeps=True).logits
        assert logits is not None
        if here is not None and self._stream is not None:
            here.wait_stream(self._stream)
        for one in steppers:
            one.length += 1
        # A copy, as a launch of others may come before these are looked at.
        chosen = logits.index_select(0, self._row_tensor(rows))
        return list(chosen.split([len(one.rows) for one in steppers]))

    def write(self, *, launch: bool = True) -> dict[SharedStepper, list[Written]]:
        """Make some steps for the rows that write; those whose turn it is get what earlier launches have written."""
        if launch:
            with self._on(self._stream, after=self._here()):
                self._settle()
                self._launch(self._n_steps(), keeps=False)
        first = next((one.began for one in self._writing), self._n_launched)
        while self._pending and self._pending[0].number < first:
            self._pending.popleft()  # nobody waits for it
        if not self._pending or (launch and len(self._pending) < self.plan.ahead):
            return {}
        return self._collected(self._pending.popleft())

    def writes(self, plan: Plan) -> bool:
        """Whether the device can choose the tokens by itself: plain greedy writing or sampling."""
        options, marks = plan.options, plan.marks
        filtered = options.top_k or options.top_p < 1 or options.min_p or options.no_repeat_ngram or options.min_length
        plain = options.strategy != "beam" and not filtered and not any(plan.prefixes or ())
        return plain and (not self._writing or marks == self._marks)

    def begin_writing(self, stepper: SharedStepper, plan: Plan) -> None:
        """The stepper's rows write by themselves from now on."""
        options, self._marks = plan.options, plan.marks
        n_each = options.n_samples
        streams: Sequence[int | None] = [None] * len(stepper.rows)
        if options.strategy == "sample":
            streams = stream_keys(plan.keys.cpu(), seed=options.seed, n_samples=n_each).tolist()
        for i, (row, stream) in enumerate(zip(stepper.rows, streams, strict=True)):
            self._records[row] = RowRecord(
                plan.start_ids[i // n_each],
                plan.row_limits[i // n_each],
                False,
                stream,
                1.0 if stream is None else options.temperature,
            )
        stepper.began = stepper.unread = self._n_launched
        self._writing[stepper] = None

    def select(self, stepper: SharedStepper, rows: Sequence[int], *, same_source: bool) -> None:
        """The stepper goes on with other rows; all that it ever had stay its own until it ends."""
        old = [stepper.rows[i] for i in rows]
        stepper.owned += self._take(max(0, len(rows) - len(stepper.owned)))
        new = stepper.owned[: len(rows)]
        stepper.rows = new
        if old == new:
            return
        with self._on(self._stream, after=self._here()):
            self._settle()
            slots, (before, after) = self._whole.cache.slots, map(self._row_tensor, (old, new))
            slots.ancestors.index_copy_(1, after, slots.ancestors.index_select(1, before))
            if same_source:
                return
            slots.positions.index_copy_(0, after, slots.positions.index_select(0, before))
            for source in self._whole.cache.source:
                source.keys.index_copy_(0, after, source.keys.index_select(0, before))
                source.values.index_copy_(0, after, source.values.index_select(0, before))
            for source in self._whole.cache.source[:1]:
                source.lengths.index_copy_(0, after, source.lengths.index_select(0, before))

    def release(self, stepper: SharedStepper) -> None:
        """The stepper is over: its rows are for others."""
        self._writing.pop(stepper, None)
        for row in stepper.owned:
            self._records.pop(row, None)
        self._leaving.extend(stepper.owned)
        stepper.owned, stepper.rows = [], []

    # ---- inside

    def _n_steps(self) -> int:
        return self.plan.n_steps(self._n_writing(), step_seconds=self._step_seconds)

    def _n_writing(self) -> int:
        return sum(len(one.rows) for one in self._writing)

    def _take(self, n: int) -> list[int]:
        self._put_back()
        if n > len(self._free):
            raise ShapeError(f"{n} rows are wanted, and {len(self._free)} of {self.n_rows} are free")
        return [heapq.heappop(self._free) for _ in range(n)]

    def _put_back(self) -> None:
        """Rows that were given back can be taken; until they are, they write nothing."""
        if not self._leaving:
            return
        gone = [self._leaving.popleft() for _ in range(len(self._leaving))]
        self._records |= {row: RowRecord(0) for row in gone}
        self._gone += gone
        for row in gone:
            heapq.heappush(self._free, row)

    def _settle(self) -> None:
        """Bring over what has changed since the last launch: who enters, with what, and how each begins."""
        self._put_back()
        entering, self._entering = self._entering, []
        if self._stream is not None and self._reading is not None:
            self._stream.wait_stream(self._reading)
        if self._gone:
            self._whole.cache.slots.positions.index_fill_(0, self._row_tensor(self._gone), 0)
            self._gone = []
        for contents, rows in entering:
            contents.copy_to(self._whole.cache, self._row_tensor(rows))
            _record(contents.tensors(), self._stream)
        if self._records:
            self._state.put(self._row_tensor(list(self._records)), list(self._records.values()))
            self._records = {}

    def _launch(self, n_steps: int, *, keeps: bool) -> CapturedDecoding:
        """Some steps for all rows that write, and for those that were told to step; logits are with who made them."""
        used = self._used()
        marks = self._marks or Marks(0, 0)
        drawn = any(one.is_drawn for one in self._writing)
        captured, positions = self._of_width(used), self._whole.cache.slots.positions[:used]
        began, over = _events(self._stream)
        self._state.begin_ticks()
        for times in self.plan.graphs(n_steps):
            captured.run(
                self.model,
                (marks, drawn),
                lambda logits: self._state.choose(logits, positions, marks, drawn=drawn),
                keeps=keeps,
                times=times,
                stream=self._capturing,
            )
        chosen, log_probs = (_to_host(x[:n_steps, :used]) for x in (self._state.chosen, self._state.log_probs))
        done = _to_host(self._state.done[:used])
        if over is not None:
            over.record()
        self._pending.append(_Launch(self._n_launched, n_steps, chosen, log_probs, done, began, over))
        self._n_launched += 1
        return captured

    def _collected(self, launch: _Launch) -> dict[SharedStepper, list[Written]]:
        table = launch.table()
        if launch.began is not None and launch.over is not None:
            self._step_seconds = launch.began.elapsed_time(launch.over) / 1000 / launch.n_steps
        self._unread.append(table)
        every = self.plan.n_held(self._n_writing(), launch_seconds=launch.n_steps * self._step_seconds)
        done = table.done.tolist()
        told = self._written_by([one for one in self._writing if one.is_told(table.number, done, every=every)])
        first = min((one.unread for one in self._writing), default=self._n_launched)
        while self._unread and self._unread[0].number < first:
            self._unread.popleft()
        return told

    def _written_by(self, steppers: Sequence[SharedStepper]) -> dict[SharedStepper, list[Written]]:
        """What the rows of each have written since it was last told."""
        tables = list(self._unread)
        since = {table.number: tables[i:] for i, table in enumerate(tables)}
        written = {one: [_written(since[one.unread], row) for row in one.rows] for one in steppers}
        for one in steppers:
            one.unread = tables[-1].number + 1
        return written

    def _used(self) -> int:
        """How many rows a step is made for: up to the last that is taken, rounded up; with `exact` always all."""
        if self.exact:
            return self.n_rows
        free = set(self._free)
        last = next((row for row in range(self.n_rows - 1, -1, -1) if row not in free), 0)
        return min(self.n_rows, 1 << last.bit_length())

    def _of_width(self, n_rows: int) -> CapturedDecoding:
        if n_rows not in self._widths:
            shape = replace(self._whole.shape, n_rows=n_rows)
            self._widths[n_rows] = CapturedDecoding(self.model, shape, gemv_rows=1, first_of=self._whole)
        return self._widths[n_rows]

    def _reserve(self, capacity: int, n_source: int) -> None:
        """Room for so many positions a row and so many tokens of a source: up to twice as much as ever was asked for.

        A row that is done goes on being computed: at the position behind its last.
        """
        capacity, shape = capacity + 1, self._whole.shape
        if capacity <= shape.capacity and n_source <= shape.n_source:
            return
        with self._on(self._stream, after=self._here()):
            self._settle()
            held = self._whole.contents(self.n_rows, shape.capacity)
            ancestors, positions = held.ancestors.clone(), held.positions.clone()
            room = [have if wanted <= have else _doubled(wanted)
                    for wanted, have in ((capacity, shape.capacity), (n_source, shape.n_source))]  # fmt: skip
            self._build(*room)
            held.copy_into(self._whole.cache)
            self._whole.cache.slots.ancestors[: len(ancestors)] = _themselves(ancestors)
            self._whole.cache.slots.positions.copy_(positions)

    def _build(self, capacity: int, n_source: int) -> None:
        dtype = self.model.module.output_weight.dtype
        shape = CaptureShape(self.n_rows, 1, n_source, capacity, dtype, autocast=False)
        if isinstance(self.model.module.positions, Sinusoidal):
            self.model.module.positions.reserve(capacity)
        self._whole = CapturedDecoding(self.model, shape, gemv_rows=1)
        self._whole.tokens = self._state.tokens
        self._widths = {self.n_rows: self._whole}

    def _row_tensor(self, rows: Sequence[int]) -> Tensor:
        return on_its_way(torch.tensor(rows, dtype=torch.int64), self.device)

    def _here(self) -> torch.cuda.Stream | None:
        return torch.cuda.current_stream(self.device) if self._stream is not None else None

    def _on(
        self, stream: torch.cuda.Stream | None, *, after: torch.cuda.Stream | None
    ) -> AbstractContextManager[object]:
        if stream is None or after is None:
            return nullcontext()
        stream.wait_stream(after)
        return torch.cuda.stream(stream)


class SharedStepper:
    """The rows of one decoding among those of others."""

    def __init__(self, shared: SharedDecoding, rows: list[int], *, capacity: int) -> None:
        self.shared, self.rows, self.capacity = shared, rows, capacity
        self.owned = list(rows)
        self.length = 0
        self.is_drawn = False
        self.began = self.unread = 0  # the first launch that it writes by, and the first that it was not told of

    @property
    def device(self) -> torch.device:
        """The model's."""
        return self.shared.device

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        self.check_step(tokens)
        return self.shared.step([self], [tokens])[0]

    def joins(self, other: object) -> bool:
        """Whether both share their rows."""
        return isinstance(other, SharedStepper) and other.shared is self.shared

    def check_step(self, tokens: Tensor) -> None:
        """Refuse tokens that are not one a row, and a step beyond the last learned position."""
        if len(tokens) != len(self.rows):
            raise ShapeError(f"{len(tokens)} tokens were given for {len(self.rows)} rows; allowed is one a row")
        limit = self.shared.model.position_limit
        if limit is not None and self.length >= limit:
            refuse_beyond(limit, tokens, pad_id=self.shared.model.module.config.pad_id)

    def step_with(self, others: Sequence[SharedStepper], tokens: Sequence[Tensor]) -> list[Tensor]:
        """The logits of this one and of others that it joins."""
        return self.shared.step([self, *others], tokens)

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        self.shared.select(self, rows.tolist(), same_source=same_source)

    def writes(self, plan: Plan) -> bool:
        """Whether `begin_writing` can do what is planned, within the positions that the model has."""
        limit = self.shared.model.position_limit
        return self.shared.writes(plan) and (limit is None or self.length + plan.n_steps <= limit)

    def begin_writing(self, plan: Plan) -> None:
        """Write by itself from now on; what comes is given by `write_with`."""
        self.is_drawn = plan.options.strategy == "sample"
        self.shared.begin_writing(self, plan)

    def write_with(self, others: Sequence[SharedStepper], *, launch: bool) -> list[list[Written]]:
        """What each row of this one, and of others that it joins, has written since; nothing yet is an empty list."""
        written = self.shared.write(launch=launch)
        return [written.get(one, []) for one in (self, *others)]

    def is_told(self, number: int, done: Sequence[int], *, every: int) -> bool:
        """Whether it hears of the launch of this number now: its first, its last, or one of `every` so many."""
        if number <= self.began:
            return number == self.began
        return (number + self.rows[0]) % every == 0 or all(done[row] for row in self.rows)

    def close(self) -> None:
        """Over: the rows are for others."""
        self.shared.release(self)


class SharedModel:
    """A model whose decodings share rows, as long as there are any; what it is otherwise is the model's own."""

    def __init__(self, module: Any, shared: SharedDecoding) -> None:
        self._module, self.shared = module, shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def start(self, inputs: Tensor | Rows, *, capacity: int = 64, watched: bool = False) -> Any:
        """A stepper of its own rows, or of shared ones."""
        if watched or self.shared.n_free() < len(Rows.of(inputs).ids):
            return self._module.start(inputs, capacity=capacity, watched=watched)
        return self.shared.start([inputs], capacities=[capacity])[0]

    def start_each(self, inputs: Sequence[Tensor | Rows], *, capacities: Sequence[int]) -> list[Any]:
        """What `start` gives to each of several, read together."""
        n_free, fit = self.shared.n_free(), 0
        while fit < len(inputs) and n_free >= len(Rows.of(inputs[fit]).ids):
            n_free -= len(Rows.of(inputs[fit]).ids)
            fit += 1
        steppers: list[Any] = list(self.shared.start(inputs[:fit], capacities=capacities[:fit])) if fit else []
        rest = zip(inputs[fit:], capacities[fit:], strict=True)
        return steppers + [self._module.start(one, capacity=capacity) for one, capacity in rest]


def _written(tables: Sequence[_Table], row: int) -> Written:
    """What one row has written in launches that follow one another."""
    tokens: list[int] = []
    log_probs: list[float] = []
    for table in tables:
        tokens += table.tokens[:, row].tolist()
        log_probs += table.log_probs[:, row].tolist()
    n = tokens.index(NOTHING) if tables[-1].done[row] and NOTHING in tokens else len(tokens)
    return Written(tokens[:n], log_probs[:n], tables[-1].n_steps)


def _one_batch(inputs: Sequence[Rows]) -> Rows:
    longest = max(rows.ids.shape[1] for rows in inputs)
    ids = torch.cat([pad(rows.ids, (0, longest - rows.ids.shape[1])) for rows in inputs])
    return Rows(ids, torch.cat([_lengths(rows) for rows in inputs]))


def _lengths(rows: Rows) -> Tensor:
    if rows.lengths is not None:
        return rows.lengths
    return torch.full((len(rows.ids),), rows.ids.shape[1], device=rows.ids.device)


def _themselves(ancestors: Tensor) -> Tensor:
    return torch.arange(ancestors.shape[1], dtype=ancestors.dtype, device=ancestors.device).expand_as(ancestors)


def _doubled(wanted: int) -> int:
    return 1 << wanted.bit_length()


def _to_host(values: Tensor) -> Tensor:
    """Values on their way to the host: there once the stream has come so far."""
    if not values.is_cuda:
        return values.clone()
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    return host.copy_(values, non_blocking=True)


def _events(stream: torch.cuda.Stream | None) -> tuple[torch.cuda.Event | None, torch.cuda.Event | None]:
    if stream is None:
        return None, None
    began, over = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record(stream)
    return began, over


def _record(tensors: Sequence[Tensor | None], stream: torch.cuda.Stream | None) -> None:
    """What was made on another stream is still read on this one when we let go of it."""
    for tensor in tensors:
        if tensor is not None and stream is not None:
            tensor.record_stream(stream)
