"""Heads that differ: what eight heads of one small model come to look at.

Every head starts out alike, looking at everything before it about evenly. Nothing tells them to differ but the task;
after training some look at the neighbour, some far back, some at one word and some at many.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention import Causal, watch
from regard.exhibits.cheating import learn
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.phrases import Phrasebook, sentences
from regard.inspection.plots.panels import Heat, Panel, Points
from regard.models.gpt import GPT

SHOWN = "the dog near some old trees sees a cat ."


def run(scale: Scale) -> Finding:
    """Watch all heads on new sentences, before and after the lesson."""
    book = Phrasebook.of(sentences(scale.of(4000, 1000), seed=scale.seed))
    new = Phrasebook.of(sentences(scale.of(200, 60), seed=99), tokenizer=book.tokenizer)
    start = learn(book, Causal(), scale, steps=0)[0]
    model = learn(book, Causal(), scale, steps=scale.of(_STEPS, 280))[0]
    before, after = (traits(look(each, new.ids), new.lengths) for each in (start, model))
    figures: dict[str, float] = {}
    for name, measured in (("before", before), ("after", after)):
        figures[f"distance between two heads, {name} (bits)"] = float(measured["apart"])
        figures[f"mean entropy, {name} (bits)"] = float(measured["entropy"].mean())
        figures[f"spread of mean distance over heads, {name} (words)"] = float(measured["distance"].std())
    shown = Phrasebook.of([SHOWN], tokenizer=book.tokenizer)
    panels = [_plane(before, after), *_maps(look(model, shown.ids)[:, 0], after)]
    return Finding(figures, _text(figures, after), panels, PICTURE, columns=2, height=4.4)


def look(model: GPT, ids: Tensor) -> Tensor:
    """The weights of all heads (L · H, B, T, T)."""
    with torch.no_grad(), watch(model) as seen:
        model(ids)
    return torch.cat([sight.weights.transpose(0, 1) for sight in seen])


def traits(weights: Tensor, lengths: Tensor) -> dict[str, Tensor]:
    """Each head's mean entropy in bits and mean distance looked back, and how far heads are from one another."""
    places = torch.arange(weights.shape[-1])
    real = (places < lengths[:, None]) & (places > 0)  # (B, T): rows with something to choose from
    entropy = _bits(weights)
    distance = (weights * (places[:, None] - places).clamp(min=0)).sum(-1)
    rows = weights[:, real]  # (heads, N, T)
    pairs = [_divergence(rows[i], rows[j]) for i in range(len(rows)) for j in range(i)]
    return {
        "entropy": entropy[:, real].mean(-1),
        "distance": distance[:, real].mean(-1),
        "apart": torch.stack(pairs).mean(),
    }


def _divergence(one: Tensor, other: Tensor) -> Tensor:
    """Jensen–Shannon: 0 bits for equal weights, 1 for weights on different words."""
    return (_bits((one + other) / 2) - (_bits(one) + _bits(other)) / 2).mean()


def _bits(weights: Tensor) -> Tensor:
    """Entropy of the last dimension."""
    return -(weights * weights.clamp(min=1e-12).log2()).sum(-1)


def _plane(before: dict[str, Tensor], after: dict[str, Tensor]) -> Points:
    both = {"after": after, "before training": before}  # the accent is for what was learned
    groups = {name: (each["distance"].tolist(), each["entropy"].tolist()) for name, each in both.items()}
    return Points("Eight heads, by what they look at", groups, "mean distance looked back (words)",
                  "entropy of the weights (bits)")  # fmt: skip


def _maps(weights: Tensor, after: dict[str, Tensor]) -> list[Panel]:
    """The three heads that differ most in kind, on one sentence."""
    words = ["<s>", *SHOWN.split()]
    chosen = {
        "The head that looks nearest": int(after["distance"].argmin()),
        "The head that looks farthest": int(after["distance"].argmax()),
        "The sharpest head": int(after["entropy"].argmin()),
        "The most even head": int(after["entropy"].argmax()),
    }
    kept: dict[int, str] = {}
    for title, head in chosen.items():
        kept.setdefault(head, title)
    n = len(words)
    return [
        Heat(f"{title}: layer {head // 4}, head {head % 4}", weights[head, :n, :n].tolist(), rows=words, columns=words,
             top=1.0)
        for head, title in list(kept.items())[:3]
    ]  # fmt: skip


def _text(figures: dict[str, float], after: dict[str, Tensor]) -> str:
    apart = [figures[f"distance between two heads, {name} (bits)"] for name in ("before", "after")]
    near, far = float(after["distance"].min()), float(after["distance"].max())
    sharp, even = float(after["entropy"].min()), float(after["entropy"].max())
    most = math.log2(len(SHOWN.split()) + 1)
    return f"""
A GPT of two layers with four heads each, watched on new sentences. Before training all heads look back evenly, and
two of them are {apart[0]:.4f} bits apart (Jensen–Shannon divergence, at most 1). After {_STEPS} steps of learning to
predict next words they are {apart[1]:.2f} bits apart: the nearest-looking head looks {near:.1f} words back on average,
the farthest {far:.1f}; the sharpest spreads its weight over {sharp:.1f} bits, the most even over {even:.1f} (looking
evenly at eleven words would be {most:.1f}). Rows look, columns are looked at. This is what the slides mean by each head
"focusing on a different aspect"; nothing in the loss asks for it.

One of the slides calls multi-head attention a trick "to improve parallelization". It costs the same as one wide head;
what it buys is several distributions of weight a word instead of one.
"""


_STEPS = 400
TITLE = "Heads that differ"
CLAIM = "The heads of one model start out alike and, by training alone, come to look at different places."
PICTURE = "Heads begin alike and come to differ"
