"""Sentences with *letter* in both its meanings, and their Spanish words: what the lectures translate word by word.

we send a short letter to her  →  nosotros enviar una corta carta a ella
you draw the first letter of it  →  tú dibujar la primera letra de ello
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from random import Random

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
