"""Why scores are divided by √d: what wide vectors do to the softmax and to its gradients.

The dot product of two random vectors of width d has variance d. A softmax over numbers so far apart is all but a
maximum, and hardly moves when they do: its gradient vanishes. Dividing by √d, inside the softmax, keeps the variance at
one for every width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention import Dot, ScaledDot, Score, attention_weights
from regard.exhibits.exhibit import Finding, Scale
from regard.inspection.plots.panels import Heat, Line, Lines, lines_of

N_KEYS = 32
WIDTHS = (4, 16, 64, 256, 1024)
RANGES = {"variance": None, "largest weight": (0.0, 1.0), "gradient": (0.0, 0.3)}
SLIDE = (112.0, 96.0, 16.0, 8.0)


def run(scale: Scale) -> Finding:
    """Measure variance, largest weight and gradient of random attention at every width, with and without scaling."""
    n = scale.of(2000, 300)
    plain = {width: measure(Dot(), width, n=n, seed=scale.seed) for width in WIDTHS}
    scaled = {width: measure(ScaledDot(), width, n=n, seed=scale.seed) for width in WIDTHS}
    slide = {"softmax(s)": torch.tensor(SLIDE).softmax(0), "softmax(s / 8)": (torch.tensor(SLIDE) / 8).softmax(0)}
    slide["softmax(s) / 8"] = slide["softmax(s)"] / 8
    figures: dict[str, float] = {}
    for width in WIDTHS:
        for name, measured in (("qᵀk", plain[width]), ("qᵀk/√d", scaled[width])):
            figures |= {f"{what} of {name}, d = {width}": value for what, value in measured.items()}
    figures |= {
        f"weight of score {s:g} over √64": float(w) for s, w in zip(SLIDE, slide["softmax(s / 8)"], strict=True)
    }
    return Finding(figures, _text(figures), [*_curves(plain, scaled), _slide(slide)], PICTURE)


def measure(score: Score, width: int, *, n: int, seed: int) -> dict[str, float]:
    """Over n random queries, each with its own keys: variance of scores, largest weight, gradient of the weights."""
    draw = torch.Generator().manual_seed(seed)
    query, keys = torch.randn(n, 1, width, generator=draw), torch.randn(n, N_KEYS, width, generator=draw)
    value = torch.randn(n, N_KEYS, generator=draw)  # whatever the weights are good for
    scores = score(query, keys).requires_grad_()  # (n, 1, S)
    weights = _softmax(scores)
    (gradient,) = torch.autograd.grad((weights[:, 0] * value).sum(), scores)
    assert torch.allclose(weights, attention_weights(query, keys, score=score), atol=1e-4)  # what attend() computes
    return {
        "variance": float(scores.detach().var()),
        "largest weight": float(weights.detach().amax(-1).mean()),
        "gradient": float(gradient.norm(dim=-1).mean()),
    }


def _softmax(scores: Tensor) -> Tensor:
    """The softmax as attention has it: scores enter as a bias beside queries and keys that say nothing."""
    nothing = scores.new_zeros(*scores.shape[:-2], scores.shape[-2], 1)
    return attention_weights(nothing, scores.new_zeros(*scores.shape[:-2], scores.shape[-1], 1), bias=scores)


def _curves(plain: dict[int, dict[str, float]], scaled: dict[int, dict[str, float]]) -> list[Lines]:
    panels = []
    for what, title, y_name, log in (
        ("variance", "Variance of the scores", "variance", "xy"),
        ("largest weight", f"Largest of {N_KEYS} weights", "mean weight", "x"),
        ("gradient", "Gradient that reaches the scores", "mean norm", "x"),
    ):
        by_score = {"qᵀk / √d": scaled, "qᵀk": plain}
        curves = {name: [measured[width][what] for width in WIDTHS] for name, measured in by_score.items()}
        lines = lines_of(curves, WIDTHS, looks=(0, 1))
        even = Line("even weights", WIDTHS, [1 / N_KEYS] * len(WIDTHS), look=3)
        panels.append(
            Lines(title, [*lines, even] if what == "largest weight" else lines, "width d of queries and keys",
                  y_name, log=log, x_ticks=WIDTHS, y_range=RANGES[what])  # type: ignore[arg-type]
        )  # fmt: skip
    return panels


def _slide(rows: dict[str, Tensor]) -> Heat:
    return Heat(
        "The slide's scores s, and where the division belongs",
        [row.tolist() for row in rows.values()],
        rows=list(rows),
        columns=[f"{score:g}" for score in SLIDE],
        texts=[[f"{weight:.3f}" for weight in row.tolist()] for row in rows.values()],
        x_name="score before softmax",
        top=1.0,
    )


def _text(figures: dict[str, float]) -> str:
    wide, narrow = WIDTHS[-1], WIDTHS[0]
    plain = {what: [figures[f"{what} of qᵀk, d = {d}"] for d in (narrow, wide)] for what in RANGES}
    scaled = {what: figures[f"{what} of qᵀk/√d, d = {wide}"] for what in RANGES}
    weights = ", ".join(f"{figures[f'weight of score {score:g} over √64']:.3f}" for score in SLIDE)
    return f"""
Random queries and keys of unit variance, {N_KEYS} keys a query. From width {narrow} to {wide} the variance of qᵀk
grows from {plain["variance"][0]:.1f} to {plain["variance"][1]:.0f}: it *is* d. At {wide} the largest weight is
{plain["largest weight"][1]:.2f} on average, a hard choice made by chance, and the gradient that reaches the scores
has shrunk from {plain["gradient"][0]:.2f} to {plain["gradient"][1]:.3f}. Divided by √d, scores keep a variance of
{scaled["variance"]:.2f}, the largest weight stays at {scaled["largest weight"]:.2f}, the gradient at
{scaled["gradient"]:.2f}.

Where the slides slip: softmax(VVᵀ)/√d divides too late. The softmax is as hard as before, and the weights no longer
sum to one (third row). Scores 112, 96, 16 and 8 over √64 weigh {weights}; the slide has .87, .12, .01 and 0.
"""


TITLE = "What √d does to the softmax"
CLAIM = (
    "Dot products of wide vectors turn the softmax into a maximum whose gradient vanishes; dividing by √d prevents it."
)
PICTURE = "Divided by √d, the softmax stays soft at every width"
