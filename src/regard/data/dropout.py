"""BPE-dropout: a text cut into other pieces each epoch (Provilkov, Emelianenko and Voita 2020).

While a word is put together from its bytes, each possible merge is passed over with probability `rate` at each step.
The library can do this but cannot be seeded; here the cut follows from (seed, epoch, index) alone, so a resumed run
sees exactly the pieces that an uninterrupted one sees. A rate of 0 gives the tokenizer's own cut.

A word has `CUTS` cuts, drawn once; each time it stands in a text, one of them is taken. Drawing afresh every time
would cost more than training on the result.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from random import Random

from regard.data.tokenizers import Tokenizer
from regard.errors import UsageError

CUTS = 32
_KEPT_TEXTS = 1 << 17  # texts whose words are remembered from epoch to epoch
_KEPT_CUTS = 1 << 21


class BpeDropout:
    """Encodes with random cuts that can be repeated."""

    def __init__(self, tokenizer: Tokenizer, rate: float, *, seed: int = 0) -> None:
        if tokenizer.kind != "bpe":
            raise UsageError(f"BPE-dropout needs a bpe tokenizer, this one is '{tokenizer.kind}'")
        if not 0.0 <= rate <= 1.0:
            raise UsageError(f"the dropout rate is {rate}, between 0 and 1 is allowed")
        self.tokenizer, self.rate, self.seed = tokenizer, rate, seed
        model = json.loads(tokenizer.core.to_str())["model"]
        self._ids: dict[str, int] = model["vocab"]
        self._merges = _read_merges(model["merges"], self._ids)
        self._words = lru_cache(_KEPT_TEXTS)(self._split)
        self._cut = lru_cache(_KEPT_CUTS)(self._draw)

    def encode(self, text: str, *, epoch: int, index: int) -> list[int]:
        """The ids of a text, cut as (seed, epoch, index) says."""
        choose = Random(f"{self.seed}/{epoch}/{index}").random
        return [piece for word in self._words(text) for piece in self._cut(word, int(CUTS * choose()))]

    def recut(self, ids: Iterable[int], *, epoch: int, index: int) -> list[int]:
        """Ids of a stored example, cut anew; the text stays the same."""
        return self.encode(self.tokenizer.decode(ids), epoch=epoch, index=index)

    def _split(self, text: str) -> tuple[str, ...]:
        core = self.tokenizer.core
        words = core.pre_tokenizer.pre_tokenize_str(core.normalizer.normalize_str(text))
        return tuple(word for word, _ in words)

    def _draw(self, word: str, number: int) -> list[int]:
        """One of the cuts of a word: always the same for the same seed."""
        random = Random(f"{self.seed}/{number}/{word}")
        pieces = [self._ids[char] for char in word]
        while len(pieces) > 1:
            best, place = None, 0
            for left in range(len(pieces) - 1):
                merge = self._merges.get((pieces[left], pieces[left + 1]))
                # Ties go to the leftmost; only merges that exist draw a number.
                if merge and not random.random() < self.rate and (best is None or merge < best):
                    best, place = merge, left
            if best is None:
                break
            pieces[place : place + 2] = [best[1]]
        return pieces


def _read_merges(merges: list[list[str] | str], ids: dict[str, int]) -> dict[tuple[int, int], tuple[int, int]]:
    """(left, right) → (rank, merged); the library wrote "left right" before it wrote pairs."""
    table = {}
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        table[ids[left], ids[right]] = (rank, ids[left + right])
    return table
