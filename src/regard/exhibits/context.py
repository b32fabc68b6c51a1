"""Contextual embeddings: one word, two meanings, before and after attention.

The lectures' example: translate word by word, and *letter* is Spanish *carta* or *letra*. An embedding is a dictionary,
one word, one vector. After attention the vector has taken in the words around it, and the two meanings come apart.

Sentences with *letter* in both its meanings, and their Spanish words: what the lectures translate word by word.

we send a short letter to her  →  nosotros enviar una corta carta a ella
you draw the first letter of it  →  tú dibujar la primera letra de ello
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from random import Random

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import attend
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import teach
from regard.exhibits.phrases import Phrasebook
from regard.inspection.plots.panels import Heat, Panel, Points
from regard.models.bert import Bert, BertConfig

Pairs = list[tuple[str, str]]

WHO = {"i": "yo", "we": "nosotros", "you": "tú", "they": "ellos"}
WHOSE = {"a": "una", "the": "la", "your": "tu", "this": "esta"}
# English to Spanish, slot by slot; "read a letter" alone leaves the meaning open.
MEANINGS = {
    "carta": (
        WHO, {"write": "escribir", "send": "enviar", "read": "leer", "post": "mandar"}, WHOSE,
        {"long": "larga", "short": "corta", "": ""}, {"letter": "carta"}, {"to": "a", "from": "de"},
        {"her": "ella", "him": "él", "friends": "amigos"},
    ),
    "letra": (
        WHO, {"spell": "deletrear", "print": "imprimir", "read": "leer", "draw": "dibujar"}, WHOSE,
        {"first": "primera", "last": "última", "": ""}, {"letter": "letra"}, {"of": "de", "in": "en"},
        {"words": "palabras", "names": "nombres", "it": "ello"},
    ),
}  # fmt: skip


def pairs_by_meaning(*, n_unseen: int, seed: int) -> tuple[dict[str, Pairs], dict[str, Pairs]]:
    """Sentence pairs of each meaning, all but `n_unseen` to learn from, and those."""
    taught, unseen = {}, {}
    for meaning, slots in MEANINGS.items():
        choices = product(*(slot.items() for slot in slots))
        pairs = [(_line(english for english, _ in words), _line(spanish for _, spanish in words)) for words in choices]
        Random(f"meanings/{seed}").shuffle(pairs)
        unseen[meaning], taught[meaning] = pairs[:n_unseen], pairs[n_unseen:]
    return taught, unseen


def _line(words: Iterable[str]) -> str:
    return " ".join(filter(None, words))


class WordWise(nn.Module):
    """Each word's vector after some blocks of attention, and the Spanish word it is taken for."""

    def __init__(self, n_english: int, n_spanish: int, *, n_layers: int) -> None:
        super().__init__()
        self.encoder = Bert(
            BertConfig(n_tokens=n_english, d_model=32, n_heads=2, d_feedforward=64, n_layers=n_layers, n_positions=16,
                       n_segments=0, dropout=0.0, attention_dropout=0.0, mlm=False, pooler=False, nsp=False)
        )  # fmt: skip
        self.output = nn.Linear(32, n_spanish)

    def forward(self, book: Phrasebook) -> Tensor:
        """English rows (B, T) → logits of a Spanish word for each (B, T, V)."""
        logits: Tensor = self.output(self.encoder.encode(book.rows))
        return logits


def run(scale: Scale) -> Finding:
    """Teach word-by-word translation without and with attention, and follow *letter* through the blocks."""
    taught, unseen = pairs_by_meaning(n_unseen=100, seed=scale.seed)
    english, spanish = (Phrasebook.of([p[side] for pairs in taught.values() for p in pairs]) for side in (0, 1))
    tests = {
        meaning: tuple(Phrasebook.of([pair[side] for pair in pairs], tokenizer=book.tokenizer)
                       for side, book in ((0, english), (1, spanish)))
        for meaning, pairs in unseen.items()
    }  # fmt: skip
    models = {n: learn(english, spanish, n_layers=n, scale=scale) for n in (0, 2)}
    figures = {f"“letter” translated right, {n} blocks": translated(model, tests) for n, model in models.items()}
    stages = {meaning: follow(models[2], test[0]) for meaning, test in tests.items()}
    cosines = {stage: measure(stages["carta"][stage], stages["letra"][stage]) for stage in stages["carta"]}
    figures |= {f"{what}, {stage}": value for stage, row in cosines.items() for what, value in row.items()}
    return Finding(figures, _text(figures), _panels(stages, cosines), PICTURE, height=4.2)


def learn(english: Phrasebook, spanish: Phrasebook, *, n_layers: int, scale: Scale) -> WordWise:
    """A translator of single words, with so many blocks of attention."""
    torch.manual_seed(scale.seed)
    model = WordWise(english.tokenizer.size, spanish.tokenizer.size, n_layers=n_layers)
    draw = torch.Generator().manual_seed(scale.seed)

    def loss() -> Tensor:
        rows = torch.randint(len(english.ids), (64,), generator=draw)
        logits, labels = model(english.picked(rows)), spanish.ids[rows]
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=spanish.tokenizer.pad_id)

    teach(model, loss, steps=scale.of(300, 120), lr=5e-3)
    return model


def _places(book: Phrasebook) -> tuple[Tensor, Tensor]:
    """Where *letter* stands in every row."""
    letter = (book.ids == book.tokenizer.encode("letter")[0]).int().argmax(1)
    return torch.arange(len(letter)), letter


def translated(model: WordWise, tests: dict[str, tuple[Phrasebook, ...]]) -> float:
    """How often *letter* becomes the right one of its two translations."""
    right = []
    for english, spanish in tests.values():
        with torch.no_grad():
            guess = model(english).argmax(-1)
        right.append((guess == spanish.ids)[_places(english)])
    return float(torch.cat(right).float().mean())


def follow(model: WordWise, book: Phrasebook) -> dict[str, Tensor]:
    """The vectors of *letter* (N, D) as embedded, as a plain average, and after each block."""
    encoder, mask = model.encoder, book.rows.mask()
    with torch.no_grad():
        words = encoder.embedding(book.ids)
        stages = {"embedding": words}
        # The lectures' first idea, nothing learned in between: softmax(V Vᵀ / √d) V.
        stages["average"] = attend(words[:, None], words[:, None], words[:, None], mask=mask)[:, 0]
        hidden = encoder.norm(encoder.positions(words))
        for i, block in enumerate(encoder.encoder.blocks):
            hidden = block(hidden, mask=mask)
            stages[f"block {i + 1}"] = hidden
    return {name: states[_places(book)] for name, states in stages.items()}


def measure(one: Tensor, other: Tensor) -> dict[str, float]:
    """Mean cosines of two vectors of the same meaning, and of different meanings."""
    a, b = F.normalize(one, dim=-1), F.normalize(other, dim=-1)
    others = ~torch.eye(len(a), dtype=torch.bool)
    within = torch.cat(((a @ a.T)[others], (b @ b.T)[others]))
    return {"cosine within a meaning": float(within.mean()), "cosine between meanings": float((a @ b.T).mean())}


def _panels(stages: dict[str, dict[str, Tensor]], by_stage: dict[str, dict[str, float]]) -> list[Panel]:
    last = {meaning: vectors["block 2"] for meaning, vectors in stages.items()}
    together = torch.cat(list(last.values()))
    _, _, axes = torch.svd(together - together.mean(0))
    groups = {
        meaning: tuple((vectors - together.mean(0)) @ axes[:, i] for i in (0, 1)) for meaning, vectors in last.items()
    }
    cosines = [list(row.values()) for row in by_stage.values()]
    return [
        Heat("Likeness of “letter” in two sentences", cosines,
             rows=["embedding", "plain average", "after block 1", "after block 2"],
             columns=["of one meaning", "of two meanings"], texts=[[f"{c:.2f}" for c in row] for row in cosines],
             top=1.0, x_name="mean cosine of the vectors in two sentences"),
        Points("“letter” in new sentences, after attention",
               {meaning: (x.tolist(), y.tolist()) for meaning, (x, y) in groups.items()},
               "first principal axis", "second principal axis"),
    ]  # fmt: skip


def _text(figures: dict[str, float]) -> str:
    within, between = (
        {stage: figures[f"cosine {what}, {stage}"] for stage in ("embedding", "average", "block 2")}
        for what in ("within a meaning", "between meanings")
    )
    alone, seen = (figures[f"“letter” translated right, {n} blocks"] for n in (0, 2))
    return f"""
The slides translate word by word: *letter* is *carta* in "we send a short letter to her" and *letra* in "you draw the
first letter of names". Its embedding is the same vector everywhere (cosine {between["embedding"]:.2f}), so a model that
has nothing else gets {alone:.0%} of them right in new sentences. With two blocks of attention it is {seen:.0%}. On the
way the vector splits in two: after the second block the cosine is {within["block 2"]:.2f} between sentences of one
meaning and {between["block 2"]:.2f} across meanings. Even the slides' plain average, softmax(VVᵀ/√d)·V with no matrix
in between, begins to tell them apart ({within["average"]:.2f} against {between["average"]:.2f}), because the neighbours
differ.

Where the slides slip: they write softmax(VVᵀ)/√d; the division belongs inside the softmax.
"""


TITLE = "Contextual embeddings"
CLAIM = "An embedding gives *letter* one vector for both its meanings; after attention the two come apart."
PICTURE = "One word, two meanings: attention tells them apart"
