"""Sequential against parallel: a recurrent layer takes one step after another, attention all at once.

Two things are measured over growing lengths, at equal width: the longest chain of operations that have to wait for one
another, read off the graph that autograd keeps, and the time of a training step on this machine.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import best_milliseconds
from regard.inspection.plots.panels import Lines, lines_of
from regard.layers import Recurrent

WIDTH = 256
LOOKS = (0, 1, 4)  # of the three kinds of layer


def run(scale: Scale) -> Finding:
    """Chains and times by length."""
    lengths = scale.of((16, 32, 64, 128, 256, 512, 1024), (16, 64))
    torch.manual_seed(scale.seed)
    layers: dict[str, nn.Module] = {
        "self-attention": MultiHeadAttention(WIDTH, 8),
        "RNN": Recurrent("rnn", WIDTH, d_hidden=WIDTH),
        "LSTM": Recurrent("lstm", WIDTH, d_hidden=WIDTH),
    }
    few = [n for n in lengths if n <= 512]
    chains = {name: [chain(layer, n) for n in few] for name, layer in layers.items()}
    times = {name: [_milliseconds(layer, n, scale) for n in lengths] for name, layer in layers.items()}
    figures: dict[str, float] = {}
    for name in layers:
        figures |= {f"chain at length {n}, {name}": chains[name][few.index(n)] for n in (few[0], few[-1])}
        figures |= {f"milliseconds at length {n}, {name}": times[name][lengths.index(n)] for n in lengths}
    figures["threads"] = torch.get_num_threads()
    panels = [
        Lines("Operations that wait for one another", lines_of(chains, few, looks=LOOKS), "length (words)",
              "longest chain (operations)", log="xy", x_ticks=few),
        Lines(f"Forward and backward pass, one row of width {WIDTH}", lines_of(times, lengths, looks=LOOKS),
              "length (words)",
              "milliseconds", log="xy", x_ticks=lengths[::2]),
    ]  # fmt: skip
    return Finding(figures, _text(figures, lengths), panels, PICTURE, height=4.2)


def chain(layer: nn.Module, length: int) -> int:
    """The longest path from the output back to the input, in operations."""
    inputs = torch.randn(1, length, WIDTH, requires_grad=True)
    output = _word_by_word(layer, inputs) if isinstance(layer, Recurrent) else layer(inputs)
    depth: dict[Any, int] = {}
    stack: list[Any] = [output.sum().grad_fn]
    while stack:
        below = [node for node, _ in stack[-1].next_functions if node is not None]
        if waiting := [node for node in below if node not in depth]:
            stack.extend(waiting)
        else:
            depth[stack.pop()] = 1 + max((depth[node] for node in below), default=0)
    return max(depth.values())


def _word_by_word(layer: Recurrent, inputs: Tensor) -> Tensor:
    """What a recurrent layer computes, in plain sight: a library may hide all steps in one operation."""
    state, outputs = None, []
    for word in inputs.split(1, dim=1):
        output, state = layer(word, state=state)
        outputs.append(output)
    return torch.cat(outputs, 1)


def _milliseconds(layer: nn.Module, length: int, scale: Scale) -> float:
    """The best of several passes, recurrent ones by the library's own loop."""
    inputs = torch.randn(1, length, WIDTH, requires_grad=True)
    run = lambda: layer(inputs).outputs if isinstance(layer, Recurrent) else layer(inputs)  # noqa: E731
    return best_milliseconds(run, n=scale.of(6, 2))


def _text(figures: dict[str, float], lengths: tuple[int, ...]) -> str:
    deep, shown = max(n for n in lengths if n <= 512), lengths[2 * len(lengths) // 3 - 1]
    chain_of = {name: figures[f"chain at length {deep}, {name}"] for name in ("self-attention", "RNN", "LSTM")}
    spent = {
        n: [figures[f"milliseconds at length {n}, {name}"] for name in ("self-attention", "LSTM")] for n in lengths
    }
    ahead = [n for n, (ours, theirs) in spent.items() if ours < theirs]
    return f"""
The longest chain of operations that have to wait for one another is {chain_of["self-attention"]:.0f} in self-attention,
for {lengths[0]} words and for {deep} alike; over {deep} words it is {chain_of["RNN"]:.0f} in an RNN and
{chain_of["LSTM"]:.0f} in an LSTM, growing with every word. That is what "RNN inputs must be processed in order" means,
and hardware that does much at once gains by it. This machine, on {figures["threads"]:.0f} thread(s), does not do much
at once, and still a pass over {shown} words takes self-attention {spent[shown][0]:.1f} ms and the LSTM
{spent[shown][1]:.1f} ms: large products instead of many small ones. Attention was faster up to
{max(ahead, default=0)} words here and then fell behind: it does n²·d operations where recurrence does n·d², so the two
meet near n = d = {WIDTH} and beyond, and only parallel hardware moves that point out. Writing is sequential for both:
each word waits for the one before it.
"""


TITLE = "Sequential against parallel"
CLAIM = "A recurrent layer's operations wait for one another, longer with every word; attention's do not."
PICTURE = "One step after another, or all at once"
