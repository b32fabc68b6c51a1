"""Checkpoints written while training goes on.

    saver.save(step, tables, facts=…, kept=…)      a copy in main memory is taken; a thread writes it
    saver.wait()                                   until it is on the disk; what went wrong there is raised here

At most one is on its way: the next save, the end of training and Ctrl-C wait for it. It counts once it stands under its
name; what is no longer needed is removed after that. Where weights are held in parts, all processes write theirs at
once, and the first one puts the folder in place when all have said that theirs are on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Thread
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.checkpoints.run import RunFolder
from regard.checkpoints.sharded import Piece, State, as_piece, index_name, write_index, write_pieces
from regard.data.io.hashes import FileHash
from regard.errors import RegardError
from regard.training.distributed import Lost, ProcessGroup, together

Facts = Mapping[str, Any]


class CheckpointSaver:
    """Writes the checkpoints of a run, in a thread."""

    def __init__(self, run: RunFolder, group: ProcessGroup, *, sharded: bool, writes: bool | None = None) -> None:
        """With `sharded`, every process that `writes` has pieces of its own; else the first one has all there is."""
        self.run, self.group, self.sharded = run, group, sharded
        self._writes = group.first if writes is None else writes
        self._thread: Thread | None = None
        self._problem: BaseException | None = None
        self._buffers: dict[tuple[str, str], Tensor] = {}

    def __enter__(self) -> CheckpointSaver:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait; while something else went wrong, that is what is said."""
        try:
            self.wait()
        except Exception:
            if kind is None:
                raise

    def save(self, step: int, tables: Mapping[str, State], *, facts: Facts, kept: Iterable[int]) -> None:
        """Write a checkpoint, and then remove all but it, the one before it and those to be `kept`."""
        self.wait()
        if not self.sharded and not self.group.first:
            return
        if self.group.first:
            self.run.note_metrics(step)
        held = {table: self._held(table, state) for table, state in tables.items()}
        write = self._write_parts if self.sharded else self._write_whole
        self._thread = Thread(target=self._in_thread, args=(write, step, held, dict(facts), list(kept)), name="saving")
        self._thread.start()

    def check(self) -> None:
        """Raise what went wrong since, if something did."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()

    def wait(self) -> None:
        """Until the checkpoint on its way is on the disk, or could not be written."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def _in_thread(self, write: Callable[..., None], *args: Any) -> None:
        try:
            write(*args)
        except BaseException as problem:  # told to the thread that waits
            self._problem = problem

    def _held(self, table: str, state: State) -> dict[str, Tensor | Piece]:
        """Copies in main memory of what this process has to write."""
        held: dict[str, Tensor | Piece] = {}
        for name, tensor in state.items():
            if isinstance(tensor, Piece):
                if self._writes and tensor.tensor.numel():
                    held[name] = tensor._replace(tensor=self._copied(table, name, tensor.tensor))
            elif self.group.first:
                held[name] = self._copied(table, name, tensor)
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return held

    def _copied(self, table: str, name: str, tensor: Tensor) -> Tensor:
        """A copy in main memory; of what lies on a GPU, in memory that it can write to by itself, used again."""
        tensor = tensor.detach()
        if tensor.device.type != "cuda":
            return tensor.clone(memory_format=torch.contiguous_format)
        buffer = self._buffers.get((table, name))
        if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
            buffer = self._buffers[table, name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return buffer.copy_(tensor, non_blocking=True)

    def _write_whole(self, step: int, held: Mapping[str, State], facts: Facts, kept: list[int]) -> None:
        files = {name: {key: as_piece(one).tensor for key, one in state.items()} for name, state in held.items()}
        self.run.write_checkpoint(step, files=files, facts=facts)
        self.run.keep([step, *self.run.before(step), *kept])

    def _write_parts(self, step: int, held: Mapping[str, State], facts: Facts, kept: list[int]) -> None:
        """All processes write; the first begins and ends. What one of them cannot do is everyone's error."""
        rank, size, first = self.group.rank, self.group.size, self.group.first
        draft = self.run.draft_of(step)
        self._agree(lambda: self.run.begin_checkpoint(step) if first else None)

        def write() -> dict[str, Any]:
            mine = {name: state for name, state in held.items() if state}
            return {name: write_pieces(draft, name, state, part=rank, parts=size) for name, state in mine.items()}

        written = self._agree(lambda: self.run.writing(step, write))

        def install() -> None:
            known: dict[str, FileHash] = {}
            for table in held:
                parts = [part[table] for part in written if table in part]
                known |= {next(iter(pieces.values())).file: hashed for hashed, pieces in parts}
                known[index_name(table)] = write_index(draft, table, [pieces for _, pieces in parts])
            self.run.end_checkpoint(step, known, facts)
            self.run.keep([step, *self.run.before(step), *kept])

        self._agree(lambda: self.run.writing(step, install) if first else None)

    def _agree(self, work: Callable[[], Any]) -> list[Any]:
        """What the work gives in each process; where it fails in one, it fails in all."""
        try:
            mine: Any = work()
        except RegardError as problem:
            mine = problem
        results: list[Any] = [mine]
        if self.group.size > 1:
            results = [None] * self.group.size
            with together():
                dist.all_gather_object(results, mine, group=self.group.background)
        problems = [result for result in results if isinstance(result, RegardError)]
        if problems:
            raise next((one for one in problems if not isinstance(one, Lost)), problems[0])
        return results
