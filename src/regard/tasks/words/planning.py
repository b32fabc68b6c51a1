"""What suits a text to learn word vectors from: which words are kept, how many numbers each has, and passes."""

from __future__ import annotations

from regard.config.recipe import Recipe
from regard.config.wording import short_count
from regard.tasks.words.data import text_files
from regard.tasks.words.skipgrams import cutter
from regard.training.plan import Plan, within
from regard.training.setup import RunContext

_LOOKED_AT = 2**22  # characters whose words are counted; of more text, words are as long on average
_WIDTHS = ((20_000, 32), (200_000, 64), (20_000_000, 100), (200_000_000, 200))


def plan_words(recipe: Recipe, context: RunContext) -> Plan:
    """The plan for a recipe's text."""
    n = _count(recipe, context)
    return Plan(
        data=f"{short_count(n)} words of text",
        settings={
            "data": {"min_count": 1 if n < 20_000 else 2 if n < 300_000 else 5},
            "model": {"name": "word-vectors", "d_model": next((d for most, d in _WIDTHS if n < most), 300)},
            "train": {"epochs": round(within(3, 5 * (1.2e6 / max(1, n)) ** 0.4, 40))},
        },
    )


def _count(recipe: Recipe, context: RunContext) -> int:
    """About how many words there are, rare ones included."""
    cut = cutter(recipe.tokenizer.kind, lowercase=False)
    words = looked_at = characters = 0
    for document in text_files(recipe.data, context.data_root, context.data).train.documents():
        characters += len(document.text)
        if looked_at < _LOOKED_AT:
            words, looked_at = words + len(cut(document.text)), looked_at + len(document.text)
    return round(words * characters / max(1, looked_at))
