"""Attention does not see order, and positions make it.

Self-attention of permuted words is the permuted self-attention: f(πx) = πf(x). Whatever tells positions apart breaks
that, and only then can a model learn anything in which order counts.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import ALiBi, Causal, Learned, MultiHeadAttention, Rotary, Sinusoidal
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import teach
from regard.inspection.plots.panels import Bars, Line, Lines, Panel
from regard.layers import Embedding, EncoderBlock, FeedForward

WIDTH, HEADS, LENGTH, N_WORDS = 32, 4, 12, 20
CHANGE, RIGHT = "‖f(πx) − πf(x)‖ / ‖f(x)‖", "order told right"
WAYS = ("no positions", "sinusoidal", "learned", "rotary", "ALiBi", "causal mask")


class Judge(nn.Module):
    """One block of attention between words, told their places in one of six ways, and a yes or no on their mean."""

    def __init__(self, way: str) -> None:
        super().__init__()
        rotary = Rotary(WIDTH // HEADS) if way == "rotary" else None
        self.embedding = Embedding(N_WORDS, WIDTH)
        added: dict[str, nn.Module] = {
            "sinusoidal": Sinusoidal(WIDTH, n_positions=LENGTH),
            "learned": Learned(WIDTH, n_positions=LENGTH),
        }
        self.places = added.get(way)
        self.alibi = ALiBi(HEADS) if way == "ALiBi" else None
        self.mask = Causal() if way == "causal mask" else None
        self.block = EncoderBlock(
            WIDTH,
            attention=MultiHeadAttention(WIDTH, HEADS, rotary=rotary),
            feedforward=FeedForward(WIDTH, 2 * WIDTH),
            order="pre",
        )
        self.verdict = nn.Linear(WIDTH, 2)

    def look(self, ids: Tensor) -> Tensor:
        """Words (B, T) → their vectors after one block (B, T, D)."""
        embedded = self.embedding(ids)
        bias = None if self.alibi is None else self.alibi(ids.shape[1], ids.shape[1])
        placed = embedded if self.places is None else self.places(embedded)
        seen: Tensor = self.block(placed, mask=self.mask, bias=bias)
        return seen

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, 2) of word 0 standing before word 1."""
        logits: Tensor = self.verdict(self.look(ids).mean(1))
        return logits


def run(scale: Scale) -> Finding:
    """Permute what goes in and compare what comes out; then teach each to tell which of two words came first."""
    taught = scale.of(WAYS, ("no positions", "sinusoidal"))
    gaps, curves = {}, {}
    for way in WAYS:
        torch.manual_seed(scale.seed)
        judge = Judge(way)
        gaps[way] = gap(judge, seed=scale.seed)
        if way in taught:
            curves[way] = _learn(judge, scale)
    figures = {f"{CHANGE}, {way}": value for way, value in gaps.items()}
    figures |= {f"{RIGHT}, {way}": curve[-1] for way, curve in curves.items()}
    panels: list[Panel] = [
        Bars("Change when words are permuted", gaps, CHANGE, WAYS[1:], "{:.1e}", log=True,
             x_range=(1e-8, 100)),
        _curves(curves, scale),
    ]  # fmt: skip
    return Finding(figures, _text(figures), panels, PICTURE, height=4.4)


def gap(judge: Judge, *, seed: int) -> float:
    """How far attending to permuted words is from permuting attended words, relative to what comes out."""
    draw = torch.Generator().manual_seed(seed)
    ids, turn = torch.randint(N_WORDS, (64, LENGTH), generator=draw), torch.randperm(LENGTH, generator=draw)
    with torch.no_grad():
        before, after = judge.look(ids)[:, turn], judge.look(ids[:, turn])
    return float((after - before).norm() / before.norm())


def _learn(judge: Judge, scale: Scale) -> list[float]:
    """Accuracy on new sentences after every tenth of the lesson."""
    draw = torch.Generator().manual_seed(scale.seed + 1)

    def loss() -> Tensor:
        ids, first = sentences(64, draw)
        return F.cross_entropy(judge(ids), first)

    accuracy = []
    for _ in range(10):
        teach(judge, loss, steps=scale.of(80, 30), lr=3e-3, warmup=5)
        with torch.no_grad():
            ids, first = sentences(1000, draw)
            accuracy.append(float((judge(ids).argmax(-1) == first).float().mean()))
    return accuracy


def sentences(n: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random words (n, T) among which word 0 and word 1 stand once each, and whether 0 stands first."""
    ids = torch.randint(2, N_WORDS, (n, LENGTH), generator=draw)
    places = torch.rand(n, LENGTH, generator=draw).argsort(1)[:, :2]
    ids.scatter_(1, places, torch.tensor([0, 1]).expand(n, 2))
    return ids, (places[:, 0] < places[:, 1]).long()


def _curves(curves: dict[str, list[float]], scale: Scale) -> Lines:
    steps = [scale.of(80, 30) * (i + 1) for i in range(10)]
    looks = {"no positions": 1, "sinusoidal": 0, "causal mask": 4, "rotary": 2, "ALiBi": 3}
    lines = [
        Line(way, steps, [100 * a for a in curve], look=looks[way]) for way, curve in curves.items() if way in looks
    ]
    return Lines("Which of two words came first?", lines, "steps of training", "right (%)", y_range=(40, 102))


def _text(figures: dict[str, float]) -> str:
    change = {way: figures[f"{CHANGE}, {way}"] for way in WAYS}
    right = {way: f"{figures.get(f'{RIGHT}, {way}', 0.0):.0%}" for way in WAYS}  # the small version teaches two only
    return f"""
One block of self-attention and feed-forward over {LENGTH} random words. Permuting the words permutes what comes out
and changes nothing else: the difference is {change["no positions"]:.0e}, rounding. So a model without positions
cannot tell which of two words came first; after training it is right in {right["no positions"]} of new sentences,
a coin's toss. Added to embeddings (sinusoidal: {change["sinusoidal"]:.2f}; learned: {change["learned"]:.2f}, small
before training), turned into queries and keys (rotary: {change["rotary"]:.2f}) or put into the scores (ALiBi:
{change["ALiBi"]:.2f}), positions break the symmetry, and the same block learns the task: {right["sinusoidal"]} with
sinusoids, {right["rotary"]} with rotary ones. A causal mask breaks it as well ({change["causal mask"]:.2f}): a word
that sees only what stands before it knows something of order without any positions ({right["causal mask"]}). ALiBi
knows how far, but not on which side: no help here ({right["ALiBi"]}) unless a causal mask goes with it.
"""


TITLE = "Permutation and positions"
CLAIM = "Without positions, permuted words give permuted outputs and order cannot be learned; positions break that."
PICTURE = "Attention is blind to order until positions tell it"
