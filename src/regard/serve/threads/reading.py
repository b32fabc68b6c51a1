"""Inputs that are read in a thread of their own, while steps are made for those whose inputs have been read."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention import Rows
from regard.config.threads import take_threads
from regard.decoding.joint import Start, start_together
from regard.decoding.stepper import Stepper
from regard.serve.joining import Decoding
from regard.serve.threads.desk import Desk

_SHORT = 64  # positions that are read in a moment


class Reader:
    """Reads inputs beside the steps; whatever has come while it was reading is read next, all of it together."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._changed = desk, threading.Condition()
        self._starts: list[tuple[Decoding, Start]] = []
        self._read: list[tuple[Decoding, Stepper | Exception]] = []
        self._begun: dict[Decoding, Start] = {}  # what is being read, or will be
        self._threads = 1
        # A daemon, unlike those of an executor: a process that ends does not wait for a long prompt.
        threading.Thread(target=self._run, name="regard-reader", daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether it reads."""
        return bool(self._begun)

    @property
    def has_read(self) -> bool:
        """Whether somebody can go on."""
        return bool(self._read)

    def has(self, decoding: Decoding) -> bool:
        """Whether it reads for this one, or will."""
        return decoding in self._begun

    def resume(self) -> None:
        """Let those go on whose inputs have been read."""
        with self._changed:
            done, self._read = self._read, []
        for one, stepper in done:
            del self._begun[one]
            if not one.over:
                one.resume(stepper)

    def read(self, decodings: Sequence[Decoding], *, threads: int) -> None:
        """Begin with the inputs of those that wait for that."""
        waiting = {one: one.waiting for one in decodings if isinstance(one.waiting, Start)}
        new = [(one, start) for one, start in waiting.items() if one not in self._begun]
        self._begun |= dict(new)
        with self._changed:
            self._threads = threads
            self._starts += new
            self._changed.notify_all()

    @torch.inference_mode()
    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._starts:
                    self._changed.wait()
                taken, self._starts, threads = self._starts, [], self._threads
            take_threads(threads)
            steppers: Sequence[Stepper | Exception]
            try:
                steppers = start_together([start for _, start in taken])
            except Exception as problem:  # nobody's fault that is known: whoever comes next is read
                steppers = [problem] * len(taken)
            with self._changed:
                self._read += [(one, stepper) for (one, _), stepper in zip(taken, steppers, strict=True)]
            self._desk.wake()


def are_short(starts: Sequence[Start]) -> bool:
    """Whether inputs are so little together that nobody minds waiting until they are read."""
    return sum(map(_n_positions, starts)) <= _SHORT


def _n_positions(start: Start) -> int:
    """Tokens to be read; of what is no text, more than are few."""
    inputs = start.inputs
    if isinstance(inputs, Tensor) and not inputs.is_floating_point():
        return inputs.numel()
    return inputs.ids.numel() if isinstance(inputs, Rows) else _SHORT + 1
