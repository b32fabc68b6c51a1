"""Alignments that cross: which source word each target word looked at, where the order of words differs.

The lectures' pair: *I ate an apple* becomes *Ich habe einen Apfel gegessen*: the verb goes to the end, and a helper
takes its place. A model with attention learns from sentences alone where each word comes from, and its weights show it.
"""

from __future__ import annotations

from random import Random

import numpy as np
import torch

from regard.attention import watch
from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.lessons import recurrent_translator
from regard.exhibits.phrases import Phrasebook
from regard.inspection.alignments import Alignment, align
from regard.inspection.plots.panels import Heat, Panel
from regard.models.recurrent import RecurrentSeq2Seq

WHO = {"i": ("ich", "habe"), "you": ("du", "hast"), "we": ("wir", "haben"), "they": ("sie", "haben")}
VERBS = {"ate": "gegessen", "bought": "gekauft", "saw": "gesehen", "found": "gefunden", "forgot": "vergessen",
         "painted": "gemalt"}  # fmt: skip
THINGS = {"an apple": "einen apfel", "a fish": "einen fisch", "a house": "ein haus", "a book": "ein buch",
          "the tree": "den baum", "the picture": "das bild", "the garden": "den garten",
          "an egg": "ein ei", "an umbrella": "einen schirm"}  # fmt: skip
WHEN = {"": "", "today": "heute", "yesterday": "gestern", "often": "oft"}
SHOWN = ("i ate an apple", "they often forgot the picture")


def pair(random: Random) -> tuple[str, str, list[tuple[int, int]]]:
    """An English sentence, its German one, and which of their words are each other's (source, target)."""
    who, verb, thing, when = (random.choice(list(words)) for words in (WHO, VERBS, THINGS, WHEN))
    return compose(who, verb, thing, when)


def compose(who: str, verb: str, thing: str, when: str) -> tuple[str, str, list[tuple[int, int]]]:
    """The adverb stands before the English verb, and before the German object; the verb goes to the end.

    Helper and article are nobody's: they agree with the subject and with the noun.
    """
    n = 1 if when else 0
    source = " ".join(filter(None, (who, when, verb, thing)))
    target = " ".join(filter(None, (*WHO[who], WHEN[when], THINGS[thing], VERBS[verb])))
    gold = [(0, 0), *([(1, 2)] if when else []), (n + 3, n + 3), (n + 1, n + 4)]
    return source, target, gold


def run(scale: Scale) -> Finding:
    """Teach a recurrent model with additive attention, and read the alignments of new sentences off its weights."""
    random = Random(f"crossing/{scale.seed}")
    asked = [pair(random) for _ in range(scale.of(100, 40))]
    known = {source for source, _, _ in asked} | set(SHOWN)
    taught = [triple for triple in (pair(random) for _ in range(scale.of(3000, 1500))) if triple[0] not in known]
    english, german = (Phrasebook.of([triple[:2][side] for triple in taught]) for side in (0, 1))
    lesson = {"width": 24, "dropout": 0.2, "steps": scale.of(300, 150), "lr": 1e-2, "seed": scale.seed}
    model = recurrent_translator(english, german, **lesson)  # type: ignore[arg-type]
    seen = [looked(model, english, german, source, target) for source, target, _ in asked]
    gold = [triple[2] for triple in asked]
    shown = [compose(*parts) for parts in (("i", "ate", "an apple", ""), ("they", "forgot", "the picture", "often"))]
    maps = [looked(model, english, german, source, target) for source, target, _ in shown]
    figures = {
        "words that look at their source": agreement(seen, gold),
        "the same by going straight on": agreement([_diagonal(each) for each in seen], gold),
        "mean largest weight": float(np.mean([each.matrix.max(1).mean() for each in seen])),
        "crossing pairs, of all pairs of links": _crossings(gold),
    }
    panels = [_panel(each, *triple) for each, triple in zip(maps, shown, strict=True)]
    return Finding(figures, _text(figures), panels, PICTURE, height=4.4)


def looked(model: RecurrentSeq2Seq, english: Phrasebook, german: Phrasebook, source: str, target: str) -> Alignment:
    """Where each target word looked when it was predicted; the marks of start and end are left out."""
    one, other = (
        Phrasebook.of([text], tokenizer=book.tokenizer) for text, book in ((source, english), (target, german))
    )
    with torch.no_grad(), watch(model, kinds=["cross"]) as seen:
        model(one.ids, other.ids[:, :-1])
    weights = seen.only().weights[0, 0].numpy()  # (T, S)
    words = [range(len(text.split())) for text in (source, target)]
    return align(weights[:, 1:], source_words=words[0], target_words=words[1])


def agreement(alignments: list[Alignment], gold: list[list[tuple[int, int]]]) -> float:
    """The share of target words that stand for one source word and have their largest weight on it."""
    right = [link in each.pairs for each, links in zip(alignments, gold, strict=True) for link in links]
    return sum(right) / len(right)


def _diagonal(alignment: Alignment) -> Alignment:
    n_target, n_source = alignment.matrix.shape
    straight = [(min(t, n_source - 1), t) for t in range(n_target)]
    return Alignment(straight, alignment.matrix, "argmax")


def _crossings(gold: list[list[tuple[int, int]]]) -> float:
    pairs = [(a, b) for links in gold for i, a in enumerate(links) for b in links[:i]]
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in pairs) / len(pairs)


def _panel(alignment: Alignment, source: str, target: str, gold: list[tuple[int, int]]) -> Panel:
    texts = [[f"{weight:.2f}" for weight in row] for row in alignment.matrix]
    return Heat(f"“{source}”", alignment.matrix.tolist(), rows=target.split(), columns=source.split(), texts=texts,
                marks=[(t, s) for s, t in gold], top=1.0,
                x_name="looked at (frame: where the word comes from)")  # fmt: skip


def _text(figures: dict[str, float]) -> str:
    looks, straight = figures["words that look at their source"], figures["the same by going straight on"]
    crossing = figures["crossing pairs, of all pairs of links"]
    return f"""
A recurrent encoder–decoder with additive attention learns little English sentences and their German ones,
where the participle goes to the end: *I ate an apple* → *Ich habe einen Apfel gegessen*. Nobody tells it which word
belongs to which. In new sentences {looks:.0%} of the German words that stand for one English word put their largest
weight on it (going straight on, word by word, would hit {straight:.0%}); the mean largest weight is
{figures["mean largest weight"]:.2f}. The verb's link crosses those of the words it jumps over: {crossing:.0%} of all
pairs of links cross. *habe* and *einen* stand for no single word; the article often looks at its noun, whose gender
decides it.

The slides' picture is "somewhat linear because word order is roughly similar"; this one is not, and attention does not
care.
"""


TITLE = "Alignments that cross"
CLAIM = "Attention finds which word comes from which, also where the order changes, without being told."
PICTURE = "The verb goes to the end, and attention follows it"
