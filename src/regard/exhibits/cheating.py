"""Cheating through attention: a language model that sees the word it is to predict learns to copy it, and nothing else.

The same GPT on the same sentences, once with the causal mask and once without. Without it, training looks splendid:
the next word stands right there. But when the model writes by itself, there is no next word to look at.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import Causal, Mask
from regard.decoding import DecodeOptions
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import decoded, teach
from regard.exhibits.phrases import Phrasebook, is_sentence, sentences
from regard.inspection.plots.panels import Bars, Lines, lines_of
from regard.models.gpt import GPT, GPTConfig

MASKS: dict[str, Mask | None] = {"with the mask": Causal(), "without": None}
KINDS = tuple(MASKS)
WHAT = (
    "loss on new sentences as trained (nats a word)",
    "loss when the future is not there",
    "correct sentences written",
)


def run(scale: Scale) -> Finding:
    """Teach both, compare their losses, and let both write."""
    book = Phrasebook.of(sentences(scale.of(4000, 1000), seed=scale.seed))
    figures: dict[str, float] = {}
    curves, samples = {}, {}
    for name, mask in MASKS.items():
        model, losses = learn(book, mask, scale)
        samples_written = write(model, book, n=scale.of(500, 100))
        curves[name], samples[name] = losses, samples_written[:3]
        figures |= {f"{what}, {name}": value for what, value in _judge(model, book, mask, samples_written).items()}
    return Finding(figures, _text(figures, samples), [_losses(curves), _usefulness(figures)], PICTURE)


def learn(book: Phrasebook, mask: Mask | None, scale: Scale, *, steps: int | None = None) -> tuple[GPT, list[float]]:
    """A small GPT after a lesson in next words, told by the mask what it may look at."""
    torch.manual_seed(scale.seed)
    model = GPT(GPTConfig(n_tokens=book.tokenizer.size, d_model=64, n_heads=4, n_layers=2, n_positions=32, dropout=0.0))
    draw = torch.Generator().manual_seed(scale.seed)
    steps = scale.of(400, 160) if steps is None else steps
    return model, teach(model, lambda: next_word_loss(model, book.some(64, draw)[0], mask), steps=steps, lr=4e-3)


def next_word_loss(model: GPT, ids: Tensor, mask: Mask | None) -> Tensor:
    """What `model(ids)` is trained by, with the mask left open: nats a word."""
    logits = model.unembed(model.stack(model.embed(ids[:, :-1]), mask=mask))
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=model.config.pad_id)


def write(model: GPT, book: Phrasebook, *, n: int) -> list[str]:
    """Let the model write n sentences from nothing but <s>, drawing each next word."""
    words = book.tokenizer
    stepper = model.start(torch.full((n, 1), words.bos_id), capacity=24)
    rows = decoded(stepper, words, n_rows=n, options=DecodeOptions(strategy="sample", max_length=24))
    return [words.decode(row[0].tokens) for row in rows]


def _judge(model: GPT, book: Phrasebook, mask: Mask | None, texts: list[str]) -> dict[str, float]:
    new = Phrasebook.of(sentences(500, seed=99), tokenizer=book.tokenizer).ids
    with torch.no_grad():
        own, blind = next_word_loss(model, new, mask), next_word_loss(model, new, Causal())
    return dict(zip(WHAT, (float(own), float(blind), sum(map(is_sentence, texts)) / len(texts)), strict=True))


def _losses(curves: dict[str, list[float]]) -> Lines:
    lines = lines_of(curves, range(1, 1 + len(curves[KINDS[0]])), looks=(0, 1))
    return Lines("Loss in training", lines, "step", "loss (nats a word)", y_range=(0, 4.5))


def _usefulness(figures: dict[str, float]) -> Bars:
    shares = {name: 100 * figures[f"correct sentences written, {name}"] for name in MASKS}
    return Bars("Written sentences that are correct", shares, "correct (%)", KINDS[:1], "{:.0f} %", x_range=(0, 115))


def _text(figures: dict[str, float], samples: dict[str, list[str]]) -> str:
    own, blind, good = ([figures[f"{what}, {name}"] for name in KINDS] for what in WHAT)
    shown = {name: " / ".join(f"*{text or '(nothing)'}*" for text in texts) for name, texts in samples.items()}
    return f"""
The same small GPT learns the same sentences of a made-up language, once with the causal mask and once without. By its
loss the one without it is far better: {own[1]:.2f} against {own[0]:.2f} nats a word, because it copies each next word
from where it stands. Take the future away, as in writing, and its loss is {blind[1]:.1f} (the other's stays
{blind[0]:.2f}). Of what they write, {good[0]:.0%} are correct sentences with the mask and {good[1]:.0%} without.

With the mask: {shown["with the mask"]}

Without: {shown["without"]}

The slides say to set similarities of later words to 0; it is the *weights* that become 0, and the scores −inf before
the softmax (a score of 0 would leave a weight). That answers their question "why −inf?".
"""


TITLE = "Cheating through attention"
CLAIM = (
    "A language model that may see the next word has a low loss and writes nonsense; with the mask it is the reverse."
)
PICTURE = "Without the causal mask: a low loss, and nothing learned"
