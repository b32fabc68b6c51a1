"""What may be called similar: every score of the lectures on the same vectors.

A query has to find its partner among many keys. Which score can, depends on what makes them partners: lying near,
pointing the same way, or being related by a rule that has to be learned first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import MLP, Additive, Dot, Gaussian, General, ScaledDot, Score, SoftCap, attention_weights
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import teach
from regard.inspection.plots.panels import Heat, Lines, lines_of

WIDTH, N_KEYS = 8, 16
TASKS = ("equal lengths", "mixed lengths", "a hidden turn")


def run(scale: Scale) -> Finding:
    """Teach the scores that can learn, and let every score look for partners under three rules."""
    accuracies = {name: [_accuracy(name, task, scale) for task in TASKS] for name in scores()}
    figures = {
        f"{name}, {task}": share for name, row in accuracies.items() for task, share in zip(TASKS, row, strict=True)
    }
    figures |= {f"cosine of {angle}°": math.cos(math.radians(angle)) for angle in (140, 90, 45, 0)}
    table = Heat(
        "Share of queries that find their partner",
        list(accuracies.values()),
        rows=list(accuracies),
        columns=[task.replace(" ", "\n", 1) for task in TASKS],
        texts=[[f"{share:.0%}" for share in row] for row in accuracies.values()],
        top=1.0,
    )
    return Finding(figures, _text(figures), [_fixed_scores(), table], PICTURE, height=4.3)


def scores() -> Mapping[str, Score]:
    """Every score, new; the last three have something to learn."""
    return {
        "dot": Dot(),
        "scaled dot": ScaledDot(),
        "capped dot": SoftCap(Dot(), 4.0),
        "Gaussian": Gaussian(1.0),
        "general": General(WIDTH),
        "additive": Additive(WIDTH, d_hidden=128),
        "MLP": MLP(WIDTH, d_hidden=128),
    }


def _accuracy(name: str, task: str, scale: Scale) -> float:
    """How often the partner has the largest weight, after learning where there is something to learn."""
    torch.manual_seed(scale.seed)
    score = scores()[name]
    draw = torch.Generator().manual_seed(scale.seed + 1)
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=draw))[0]

    def ask(n: int) -> tuple[Tensor, Tensor]:
        """Weights (n, S) of n queries over their keys, and where the partners stand."""
        query, keys, partner = partners(task, n, turn=turn, draw=draw)
        return attention_weights(query[:, None], keys, score=score)[:, 0], partner

    def loss() -> Tensor:
        weights, partner = ask(64)
        return F.nll_loss((weights + 1e-9).log(), partner)

    if any(parameter.requires_grad for parameter in score.parameters()):
        teach(score, loss, steps=scale.of(1500, 150), lr=scale.of(5e-3, 1e-2))
    with torch.no_grad():
        weights, partner = ask(scale.of(2000, 500))
    return float((weights.argmax(-1) == partner).float().mean())


def partners(task: str, n: int, *, turn: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (n, D), keys (n, S, D), and which key is the query's own, up to noise."""
    keys = F.normalize(torch.randn(n, N_KEYS, WIDTH, generator=draw), dim=-1) * 2
    if task == "mixed lengths":
        keys = keys * (0.4 + 1.6 * torch.rand(n, N_KEYS, 1, generator=draw))
    partner = torch.randint(N_KEYS, (n,), generator=draw)
    query = keys[torch.arange(n), partner] + 0.3 * torch.randn(n, WIDTH, generator=draw)
    return (query @ turn if task == "a hidden turn" else query), keys, partner


def _fixed_scores() -> Lines:
    """Scores of a query of length 1 with keys of the same direction and growing length."""
    lengths = torch.linspace(0, 3, 31)
    query, keys = torch.tensor([[1.0, 0.0]]), torch.stack((lengths, torch.zeros(31)), -1)
    named = {"dot": Dot(), "scaled dot": ScaledDot(), "capped dot": SoftCap(Dot(), 1.5), "Gaussian": Gaussian(1.0)}
    curves = {name: score(query, keys)[0].tolist() for name, score in named.items()}
    lines = lines_of(curves, lengths.tolist(), looks=(1, 3, 2, 0))
    return Lines("Score of a key that points as the query does", lines, "length of the key (query: 1)", "score")


def _text(figures: dict[str, float]) -> str:
    share = {name: f"{value:.0%}" for name, value in figures.items()}
    return f"""
Each query has one partner among {N_KEYS} keys of width {WIDTH}: itself with noise. Among keys of equal length the dot
product finds it ({share["dot, equal lengths"]}). It grows with the length of a key (left), so among mixed lengths
a long stranger beats a short partner ({share["dot, mixed lengths"]}); the Gaussian score, which is largest at the query
itself, does not fall for that ({share["Gaussian, mixed lengths"]}). Scaling and capping change how sharp weights are,
not which is largest. When queries are turned by a rule nobody told, no fixed score is better than chance
({share["dot, a hidden turn"]}, chance is {1 / N_KEYS:.0%}), and those with something to learn find the rule: general
{share["general, a hidden turn"]}, additive {share["additive, a hidden turn"]}, MLP {share["MLP, a hidden turn"]}.
That is why attention has matrices for queries and keys.

A small slip of the slides: the cosine of 140° is −{-figures["cosine of 140°"]:.2f}, not about −0.7.
"""


TITLE = "Similarity functions compared"
CLAIM = (
    "Dot products prefer long keys, distances do not, and only learned scores find a rule that is not plain likeness."
)
PICTURE = "Which score finds the partner?"
