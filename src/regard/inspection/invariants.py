"""Whether a model keeps the promises that make its numbers trustworthy, measured on what it is given.

alone      a text computed alone comes out as among others
explicit   attention computed step by step gives the outputs of the fused kernels
saved      what is written to disk and read back computes the same bits
padding    what stands in the padding changes no bit; more of it changes nothing that matters
cached     what a model that writes computes step by step is what it computes in one pass
drawn      what is drawn for a text depends on the seed and on the text: not on the list, its order or its repetitions

A `Trial` is a model, texts to run it on, and how; `measure_plain` is for models of plain tensors, such as images.
`compare_alone`, `compare_draws` and `compare_cached` are for models that write; `strategies` are those of decoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Rows, watch
from regard.attention.taps import Tap
from regard.checkpoints.weights import load_weights, read_tensors, weights_of, write_tensors
from regard.decoding import DecodeOptions

TOLERANCE = 1e-3  # of logits and log-probabilities in single precision: rounding stays far below, mistakes far above
MORE = 5  # positions of padding that are added
DRAWN = 2  # samples of each text


@dataclass(frozen=True)
class Check:
    """One promise: what was compared, the largest difference, how many texts came out different, and the verdict.

    `kept` where no text differs and the difference is within `allowed`.
    """

    promise: str
    difference: float
    allowed: float
    n_different: int = 0

    @property
    def kept(self) -> bool:
        """Whether the promise holds."""
        return self.n_different == 0 and self.difference <= self.allowed


@dataclass(frozen=True)
class Given:
    """What a model reads: one text a row, or its source and its target; the text's segments where they are told."""

    rows: tuple[Rows, ...]
    segments: Tensor | None = None

    def alone(self, i: int) -> Given:
        """One text without the others, and without padding."""
        rows = tuple(Rows(side.ids[i : i + 1, : _lengths(side)[i]]) for side in self.rows)
        segments = None if self.segments is None else self.segments[i : i + 1, : rows[-1].ids.shape[1]]
        return Given(rows, segments)

    def refilled(self, *, more: int = 0) -> Given:
        """The same with another id in the padding, and with more padding."""
        segments = None if self.segments is None else F.pad(self.segments, (0, more))
        return Given(tuple(_refilled(side, more) for side in self.rows), segments)


Run = Callable[[nn.Module, Given], Tensor]


def outputs(module: nn.Module, given: Given) -> Tensor:
    """What a model says: (B, T, …) about every token of the last side, or (B, …) about every text."""
    segments = {} if given.segments is None else {"segments": given.segments}
    output = module(*given.rows, **segments)
    return torch.stack(output, -1) if isinstance(output, tuple) else output


@dataclass(frozen=True)
class Trial:
    """A model, what it is run on, and how; `by_token` where it says something about every token.

    `limit` is the most positions that it can read, if it has one; `rounded` says that a copy of it may round otherwise.
    """

    module: nn.Module
    given: Given
    run: Run = outputs
    by_token: bool = True
    limit: int | None = None
    rounded: bool = False

    @property
    def more(self) -> int:
        """How many positions of padding can be added."""
        width = max(side.ids.shape[1] for side in self.given.rows)
        return MORE if self.limit is None else max(0, min(MORE, self.limit - width))

    def __call__(self) -> Tensor:
        """The outputs."""
        return self.run(self.module, self.given)

    def apart(self, one: Tensor, other: Tensor) -> float:
        """The largest difference of two outputs, where there is text."""
        if not self.by_token:
            return float((one - other).abs().max())
        width = min(one.shape[1], other.shape[1])
        real = torch.arange(width, device=one.device) < _lengths(self.given.rows[-1])[:, None]
        return float((one[:, :width] - other[:, :width])[real].abs().max())


@torch.inference_mode()
def measure_alone(trial: Trial) -> Check:
    """Each text by itself against all of them together."""
    together, apart = trial(), 0.0
    for i in range(len(together)):
        alone = trial.run(trial.module, trial.given.alone(i))
        among = together[i : i + 1, : alone.shape[1]] if trial.by_token else together[i : i + 1]
        apart = max(apart, float((among - alone).abs().max()))
    return Check(f"a batch of one = a batch of {len(together)}", apart, _allowed(together))


@torch.inference_mode()
def measure_reading(trial: Trial) -> Iterator[Check]:
    """What every model promises about reading, one finding after another."""
    plain = trial()

    def apart(module: nn.Module) -> float:
        return trial.apart(plain, trial.run(module, trial.given))

    yield from _measure_explicit(trial.module, apart, allowed=_allowed(plain))
    yield measure_saved(trial.module, apart, allowed=_allowed(plain) if trial.rounded else 0.0)
    yield from _padding(trial, plain)


def _measure_explicit(module: nn.Module, apart: Callable[[nn.Module], float], *, allowed: float) -> Iterator[Check]:
    """Attention step by step, where there is any; `apart` is how far a module is from what was computed before."""
    if any(isinstance(part, Tap) for part in module.modules()):
        with watch(module, through=True):
            difference = apart(module)
        yield Check("fused = explicit", difference, allowed)


def _allowed(output: Tensor) -> float:
    """How far apart rounding may take outputs of this size."""
    return TOLERANCE * min(1.0, float(output.abs().max()))


@torch.inference_mode()
def measure_plain(module: nn.Module, inputs: tuple[Tensor, ...]) -> Iterator[Check]:
    """What a model of tensors (N, …) promises about each of the N: alone as among others, explicit, saved."""
    together: Tensor = module(*inputs)
    alone = torch.cat([module(*(part[i : i + 1] for part in inputs)) for i in range(len(together))])
    allowed = _allowed(together)

    def apart(module: nn.Module) -> float:
        return float((together - module(*inputs)).abs().max())

    yield Check(f"a batch of one = a batch of {len(together)}", float((together - alone).abs().max()), allowed)
    yield from _measure_explicit(module, apart, allowed=allowed)
    yield measure_saved(module, apart, allowed=allowed)


def measure_saved(module: nn.Module, apart: Callable[[nn.Module], float], *, allowed: float) -> Check:
    """Weights come back to the bit, and a copy that read them computes what `apart` says is the same.

    Sums over the same weights may differ in the last bits: some processors add in an order that goes by addresses.
    """
    again = deepcopy(module)
    for tensor in weights_of(again).values():
        tensor.zero_()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_tensors(path, weights_of(module))
        load_weights(again, read_tensors(path), origin=str(path))
    pairs = zip(weights_of(module).values(), weights_of(again).values(), strict=True)
    equal = all(torch.equal(one, other) for one, other in pairs)
    return Check("saved and loaded = itself", apart(again) if equal else math.inf, allowed)


class Hypothesis(Protocol):
    """What a model wrote, as ids, and how sure it was."""

    @property
    def ids(self) -> list[int]:
        """The pieces."""

    @property
    def score(self) -> float:
        """What hypotheses are ranked by."""


def strategies(max_length: int) -> dict[str, DecodeOptions]:
    """Every strategy of decoding, by name, for texts of up to so many tokens."""
    return {
        "greedy": DecodeOptions(max_length=max_length),
        "beam": DecodeOptions(strategy="beam", beam=4, max_length=max_length),
        "sampling": DecodeOptions(strategy="sample", top_k=10, seed=7, max_length=max_length),
    }


def compare_alone(
    together: Sequence[Sequence[Hypothesis]], alone: Sequence[Sequence[Hypothesis]], *, strategy: str
) -> Check:
    """What was written for each input among others, and for each by itself."""
    pairs = list(zip(together, alone, strict=True))
    different = sum(_ids(many) != _ids(one) for many, one in pairs)
    apart = max(abs(many[0].score - one[0].score) for many, one in pairs)
    return Check(f"a batch of one = a batch of {len(together)}, {strategy}", apart, TOLERANCE, different)


def compare_draws(write: Callable[[list[int]], Sequence[Sequence[Hypothesis]]], n: int) -> Check:
    """What is drawn for n inputs: each alone, in the order they have, in the reverse one, and each twice in one list.

    `write` gives `DRAWN` samples of each input whose place it is told.
    """
    places = list(range(n))
    lists = [*([place] for place in places), places, places[::-1], [place for place in places for _ in range(2)]]
    found: dict[int, list[Sequence[Hypothesis]]] = {place: [] for place in places}
    for some in lists:
        for place, several in zip(some, write(some), strict=True):
            found[place].append(several)
    different = sum(any(_ids(one) != _ids(each[0]) for one in each) for each in found.values())
    apart = max(abs(one[0].score - each[0][0].score) for each in found.values() for one in each)
    return Check("a draw depends on its own text", apart, TOLERANCE, different)


def _ids(several: Sequence[Hypothesis]) -> list[list[int]]:
    return [one.ids for one in several]


def compare_cached(steps: Sequence[Sequence[float]], whole: Sequence[Sequence[float]]) -> Check:
    """Log-probabilities of each token step by step, and in one pass."""
    pairs = zip(steps, whole, strict=True)
    apart = max(abs(one - other) for a, b in pairs for one, other in zip(a, b, strict=True))
    return Check("cached = uncached", apart, TOLERANCE)


def _padding(trial: Trial, plain: Tensor) -> Iterator[Check]:
    """Other ids in the padding; then more padding."""
    other = trial.run(trial.module, trial.given.refilled())
    yield Check("what padding holds does not matter", trial.apart(plain, other), 0.0)
    if trial.more:
        wider = trial.run(trial.module, trial.given.refilled(more=trial.more))
        yield Check("how much padding there is does not matter", trial.apart(plain, wider), _allowed(plain))


def _lengths(rows: Rows) -> Tensor:
    assert rows.lengths is not None
    return rows.lengths


def _refilled(rows: Rows, more: int) -> Rows:
    n_rows, length = rows.ids.shape
    ids = torch.full((n_rows, length + more), int(rows.ids.max()), device=rows.ids.device, dtype=rows.ids.dtype)
    real = torch.arange(length, device=ids.device) < _lengths(rows)[:, None]
    ids[:, :length] = torch.where(real, rows.ids, ids[:, :length])
    return Rows(ids, rows.lengths)
