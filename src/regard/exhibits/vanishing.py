"""Vanishing gradients: how much of a distant word still reaches the last one, in three kinds of layer.

The gradient of the last output by an input k steps back is a product of k Jacobians in a recurrent network. In
attention it is one step, whatever k.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention import Causal, MultiHeadAttention
from regard.exhibits.exhibit import Finding, Scale
from regard.inspection.plots.panels import Lines, lines_of
from regard.layers import EncoderBlock, FeedForward, Recurrent
from regard.models.flops import count_parameters

WIDTH = 64


def run(scale: Scale) -> Finding:
    """Average the gradients of several fresh networks of each kind, by distance."""
    distances = [k for k in (1, 2, 4, 8, 16, 32, 64, 128, 255) if k < scale.of(256, 65)]
    curves = {name: reach(make, distances, scale) for name, make in kinds().items()}
    figures: dict[str, float] = {}
    for name, curve in curves.items():
        figures |= {f"gradient from {k} back, {name}": curve[distances.index(k)] for k in (1, 32, distances[-1])}
        figures[f"kept from 1 to {distances[-1]} back, {name}"] = curve[-1] / curve[0]
    figures["parameters of LSTM / RNN"] = count_parameters(_recurrent("lstm")) / count_parameters(_recurrent("rnn"))
    lines = lines_of(curves, distances, looks=(1, 4, 2, 0))
    panel = Lines("Gradient of the last output by an input k words back", lines, "k, words back", "norm of gradient",
                  log="xy", x_ticks=distances, y_range=(1e-16, 10))  # fmt: skip
    return Finding(figures, _text(figures, distances[-1]), [panel], PICTURE, height=4.6)


def kinds() -> dict[str, Callable[[], nn.Module]]:
    """Fresh networks of one width and one layer: recurrent, or a block of attention."""
    return {
        "RNN": lambda: _recurrent("rnn"),
        "LSTM": lambda: _recurrent("lstm"),
        "LSTM, gates opened": lambda: _open_gates(_recurrent("lstm")),
        "Transformer": _attentive,
    }


def _recurrent(kind: str) -> Recurrent:
    return Recurrent(kind, WIDTH, d_hidden=WIDTH)  # type: ignore[arg-type]


def _open_gates(lstm: Recurrent) -> Recurrent:
    """Forget gates begin nearly open (Gers et al., 2000): the second quarter of each bias."""
    for name, bias in lstm.layers.named_parameters():
        if name.startswith("bias_ih"):
            nn.init.constant_(bias.data[WIDTH : 2 * WIDTH], 3.0)
    return lstm


def _attentive() -> EncoderBlock:
    return EncoderBlock(WIDTH, attention=MultiHeadAttention(WIDTH, 4), feedforward=FeedForward(WIDTH, 2 * WIDTH))


def reach(make: Callable[[], nn.Module], distances: list[int], scale: Scale) -> list[float]:
    """The mean norm of the gradient by distance, over fresh networks and random inputs."""
    norms = []
    for seed in range(scale.of(8, 3)):
        torch.manual_seed(1000 * scale.seed + seed)
        inputs = torch.randn(8, distances[-1] + 1, WIDTH, dtype=torch.float64, requires_grad=True)
        last = _last(make().double(), inputs)
        (gradient,) = torch.autograd.grad((last * torch.randn_like(last)).sum(), inputs)
        norms.append(gradient.norm(dim=-1).mean(0))
    mean = torch.stack(norms).mean(0)
    return [float(mean[-1 - k]) for k in distances]


def _last(network: nn.Module, inputs: Tensor) -> Tensor:
    """The last output (B, D): recurrent networks read on, attention looks back."""
    if isinstance(network, Recurrent):
        return network(inputs).outputs[:, -1]  # type: ignore[no-any-return]
    seen: Tensor = network(inputs, mask=Causal())[:, -1]
    return seen


def _text(figures: dict[str, float], far: int) -> str:
    at = {name: figures[f"gradient from {far} back, {name}"] for name in kinds()}
    near = {name: figures[f"gradient from 1 back, {name}"] for name in kinds()}
    kept = figures[f"kept from 1 to {far} back, Transformer"]
    return f"""
Fresh networks of width {WIDTH}, one layer each. In an RNN the gradient from one word back is {near["RNN"]:.1f} and from
{far} back {at["RNN"]:.0e}: gone, multiplied by one Jacobian a word. An LSTM as PyTorch initialises it is hardly
better ({at["LSTM"]:.0e}): its forget gates begin half closed, and what it can do it has to learn. With the gates opened
by their bias it keeps {at["LSTM, gates opened"]:.2f}: the mitigation the slides speak of, at
{figures["parameters of LSTM / RNN"]:.0f} times the matrices of an RNN (they say "3x more", which is the same). In the
Transformer every word is one step away, and the gradient from {far} back is {at["Transformer"]:.2f}, {kept:.0%} of that
from next door. It does get thinner with length, since a softmax over {far + 1} words shares one unit of weight
between them; it does not fall with distance.
"""


TITLE = "Vanishing gradients by distance"
CLAIM = (
    "In recurrent networks gradients fade exponentially with distance; in a Transformer every word is one step away."
)
PICTURE = "What is far away fades in recurrence, not in attention"
