"""The bottleneck: a recurrent encoder puts the whole source into one vector, and attention lets the decoder look again.

The task is to say a row of letters backwards. Without attention all of it has to pass through the encoder's last state;
with it the decoder looks at each letter when its turn comes. Same cells, same widths, same lesson.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention import Rows
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import pair_loss, teach
from regard.inspection.plots.panels import Line, Lines, lines_of
from regard.models.flops import count_parameters
from regard.models.recurrent import RecurrentConfig, RecurrentSeq2Seq

PAD, START, FIRST, N_LETTERS = 0, 1, 2, 20
KINDS = {"with attention": "general", "without": "none"}


def run(scale: Scale) -> Finding:
    """Teach both on mixed lengths, and ask both for every length."""
    lengths = scale.of((2, 4, 6, 8, 10, 12, 14, 16, 18, 20), (2, 6, 9))
    figures: dict[str, float] = {}
    shares: dict[str, list[float]] = {}
    for name, attention in KINDS.items():
        model = learn(attention, longest=max(lengths), scale=scale)
        shares[name] = [accuracy(model, length, seed=scale.seed) for length in lengths]
        figures |= {f"letters right at length {n}, {name}": s for n, s in zip(lengths, shares[name], strict=True)}
        figures[f"parameters, {name}"] = count_parameters(model)
    percent = {name: [100 * share for share in accuracies] for name, accuracies in shares.items()}
    lines = lines_of(percent, lengths, looks=(0, 1))
    chance = Line("chance", lengths, [100 / N_LETTERS] * len(lengths), look=3)
    panel = Lines("Letters of new rows said backwards", [*lines, chance], "letters in the row", "right (%)",
                  y_range=(0, 104), x_ticks=lengths)  # fmt: skip
    return Finding(figures, _text(figures, lengths), [panel], PICTURE, height=4.2)


def learn(attention: str, *, longest: int, scale: Scale) -> RecurrentSeq2Seq:
    """A small encoder–decoder after a lesson in saying rows backwards."""
    torch.manual_seed(scale.seed)
    width, n = scale.of(64, 48), N_LETTERS + FIRST
    model = RecurrentSeq2Seq(
        RecurrentConfig(n_source=n, n_target=n, cell="gru", d_embedding=32, d_hidden=width, n_layers=1, dropout=0.0,
                        attention=attention)
    )  # fmt: skip
    draw = torch.Generator().manual_seed(scale.seed)
    teach(model, lambda: pair_loss(model, *backwards(64, longest, draw)), steps=scale.of(550, 160), lr=8e-3)
    return model


def backwards(n: int, longest: int, draw: torch.Generator) -> tuple[Rows, Tensor]:
    """Rows of random letters of random lengths, and each said backwards after <s>, padded."""
    lengths = torch.randint(1, longest + 1, (n,), generator=draw)
    letters = torch.randint(FIRST, FIRST + N_LETTERS, (n, longest), generator=draw)
    places = torch.arange(longest)
    source = letters.masked_fill(places >= lengths[:, None], PAD)
    turned = source.gather(1, (lengths[:, None] - 1 - places).clamp(min=0))
    target = turned.masked_fill(places >= lengths[:, None], PAD)
    return Rows(source, lengths), torch.cat((torch.full((n, 1), START), target), 1)


def accuracy(model: RecurrentSeq2Seq, length: int, *, seed: int) -> float:
    """The share of letters right in rows of one length, each letter given those before it."""
    draw = torch.Generator().manual_seed(seed + 1000)
    source = torch.randint(FIRST, FIRST + N_LETTERS, (400, length), generator=draw)
    target = torch.cat((torch.full((400, 1), START), source.flip(1)), 1)
    with torch.no_grad():
        guess = model(source, target[:, :-1]).argmax(-1)
    return float((guess == target[:, 1:]).float().mean())


def _text(figures: dict[str, float], lengths: tuple[int, ...]) -> str:
    def right(length: int, name: str) -> str:
        return f"{figures[f'letters right at length {length}, {name}']:.0%}"

    short, long, middle = lengths[0], lengths[-1], lengths[len(lengths) // 2]
    more = figures["parameters, with attention"] / figures["parameters, without"] - 1
    return f"""
Two encoder–decoders of the same cells and widths learn to say rows of letters backwards; one of them may look at all
encoder states (attention adds {more:.0%} parameters). At {short} letters both can: {right(short, "without")} without
attention, {right(short, "with attention")} with. At {middle} it is {right(middle, "without")} against
{right(middle, "with attention")}, at {long} {right(long, "without")} against {right(long, "with attention")} (chance is
{1 / N_LETTERS:.0%}). The state that has to carry everything does not grow with the row: "overloaded", as the slides
say. With attention nothing has to be carried, only found.

Where the slides slip: c = 1/N · Σ w h with softmax weights, which already sum to one, needs no 1/N; with it contexts
would shrink as the source grows.
"""


TITLE = "The bottleneck of one vector"
CLAIM = "Without attention accuracy falls as the source grows: one vector has to hold it all. With attention it stays."
PICTURE = "One vector overflows; attention looks again"
