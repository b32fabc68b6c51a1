"""Texts as bags of small pieces, to count and compare them by: words and pairs of words, or runs of characters.

pieces = gram_function(texts)        words, where texts have spaces between them; characters where they have not
pieces("A dog, a 🐕")                 ["a", "dog", ",", "a", "🐕", "a dog", "dog ,", ", a", "a 🐕"]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

Grams = Callable[[str], list[str]]
_WORD = re.compile(r"\w+|[^\w\s]")
_LONG = 12  # characters between spaces, on average, that no language with spaces has
_LOOKED_AT = 1000


def words(text: str) -> list[str]:
    """Words in lower case; a punctuation mark or symbol is one too."""
    return _WORD.findall(text.lower())


def word_grams(text: str) -> list[str]:
    """Words and pairs of neighbours."""
    single = words(text)
    return single + [f"{one} {other}" for one, other in pairwise(single)]


def character_grams(text: str) -> list[str]:
    """Characters in runs of one, two and three; white space is one space."""
    plain = " ".join(text.lower().split())
    return [plain[i : i + n] for n in (1, 2, 3) for i in range(len(plain) - n + 1)]


def has_spaces(texts: Sequence[str]) -> bool:
    """Whether words are kept apart by spaces, as far as the first texts tell."""
    looked_at = texts[:_LOOKED_AT]
    return sum(map(len, looked_at)) <= _LONG * sum(len(text.split()) for text in looked_at)


def gram_function(texts: Sequence[str], *, fewest_words: float = 0) -> Grams:
    """How to cut texts like these: by characters where spaces are rare, or words fewer than so many a text."""
    looked_at = texts[:_LOOKED_AT]
    few = sum(len(text.split()) for text in looked_at) < fewest_words * len(looked_at)
    return word_grams if has_spaces(texts) and not few else character_grams
