"""The n² of attention, and what fused kernels do about it.

Every word looks at every word, so the weights are an n × n table for each head. Written out, that table fills the
memory; a fused kernel computes it in pieces and never keeps it. Both are the same function, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention import attend, attend_explicitly
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import best_milliseconds
from regard.inspection.plots.panels import Lines, lines_of

HEADS, WIDTH = 4, 32
WAYS: dict[str, Callable[..., Tensor]] = {"fused": attend, "written out": attend_explicitly}


def run(scale: Scale) -> Finding:
    """Bytes kept for the backward pass, and the time of both passes, by length."""
    lengths = scale.of((128, 256, 512, 1024, 2048, 4096), (64, 128, 256))
    kept = {name: [bytes_kept(way, n, seed=scale.seed) for n in lengths] for name, way in WAYS.items()}
    times = {name: [_milliseconds(way, n, scale) for n in lengths] for name, way in WAYS.items()}
    figures: dict[str, float] = {}
    for name in WAYS:
        for n in (lengths[0], lengths[-1]):
            figures[f"bytes kept at length {n}, {name}"] = kept[name][lengths.index(n)]
            figures[f"milliseconds at length {n}, {name}"] = times[name][lengths.index(n)]
        figures[f"growth of bytes when the length doubles, {name}"] = kept[name][-1] / kept[name][-2]
        figures[f"growth of time when the length doubles, {name}"] = times[name][-1] / times[name][-2]
    figures["largest difference between the two"] = _difference(scale.of(1024, 128), seed=scale.seed)
    mebibytes = {name: [value * 2**-20 for value in values] for name, values in kept.items()}
    panels = [
        Lines(title, lines_of(values, lengths, looks=(0, 1)), "length (words)", unit, log="xy", x_ticks=lengths)
        for title, values, unit in (
            ("Kept for the backward pass", mebibytes, "mebibytes"),
            ("Forward and backward pass", times, "milliseconds"),
        )
    ]
    return Finding(figures, _text(figures, lengths), panels, PICTURE, height=4.2)


def _inputs(length: int, *, seed: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(1, HEADS, length, WIDTH, generator=draw).requires_grad_() for _ in range(3)]


def bytes_kept(way: Callable[..., Tensor], length: int, *, seed: int) -> int:
    """The memory that one call of attention holds until its gradients are asked for, each block counted once."""
    blocks: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        blocks[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = way(*_inputs(length, seed=seed))
    assert output.requires_grad  # what was noted is still alive, so no block was counted in another's place
    return sum(blocks.values())


def _milliseconds(way: Callable[..., Tensor], length: int, scale: Scale) -> float:
    inputs = _inputs(length, seed=scale.seed)
    return best_milliseconds(lambda: way(*inputs), n=scale.of(4, 2))


def _difference(length: int, *, seed: int) -> float:
    inputs = _inputs(length, seed=seed)
    with torch.no_grad():
        return float((attend(*inputs) - attend_explicitly(*inputs)).abs().max())


def _text(figures: dict[str, float], lengths: tuple[int, ...]) -> str:
    n = lengths[-1]
    megabytes = {name: figures[f"bytes kept at length {n}, {name}"] / 2**20 for name in WAYS}
    more = {name: figures[f"growth of bytes when the length doubles, {name}"] for name in WAYS}
    spent = {name: figures[f"milliseconds at length {n}, {name}"] for name in WAYS}
    slower = {name: figures[f"growth of time when the length doubles, {name}"] for name in WAYS}
    return f"""
The slides ask for the complexity of attention in the number of words: n² dot products, for time. One call with {HEADS}
heads of width {WIDTH}, forward and backward: doubling the length to {n} words multiplies the time by
{slower["written out"]:.1f} with the weights written out and by {slower["fused"]:.1f} fused; both are quadratic, the
fused kernel with a smaller factor ({spent["fused"]:.0f} against {spent["written out"]:.0f} ms on this machine). Memory
is another matter. Written out, the {n} × {n} weights of every head stay until the backward pass:
{megabytes["written out"]:.0f} MiB, {more["written out"]:.1f} times as much for twice the length. The fused kernel keeps
queries, keys, values, output and one number a row, {megabytes["fused"]:.1f} MiB, and grows {more["fused"]:.1f}-fold:
it is linear. The two differ by {figures["largest difference between the two"]:.0e} at most, rounding. So n² is a cost
in time, but not in memory, unless one wants to *see* the weights: that is what watching asks for, only where one looks.
"""


TITLE = "The n² of attention and fused kernels"
CLAIM = "Attention takes n² time either way, but n² memory only where its weights are written out."
PICTURE = "Quadratic in time; in memory only if written out"
