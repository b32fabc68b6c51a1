"""BPE-dropout: a text cut into other pieces each epoch (Provilkov, Emelianenko and Voita 2020).

While a word is put together from its bytes, each possible merge is passed over with probability `rate` at each step.
The library can do this but cannot be seeded; here the cut follows from (seed, epoch, index) alone, so a resumed run
sees exactly the pieces that an uninterrupted one sees. A rate of 0 gives the tokenizer's own cut.

A word has `CUTS` cuts, each drawn when it is first wanted; each time the word stands in a text, one of them is taken.
Drawing afresh every time would cost more than training on the result. Words and cuts have numbers and are looked up
for a whole batch at once; when they have become too many all are forgotten, and drawn again just as they were.
"""

from itertools import chain

import numpy as np

from regard.data.batching.hashing import Hashes, below, hashed, text_hash
from regard.data.batching.ragged import Ints, Ragged, Shelf
from regard.data.text.merges import Merges
from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError

CUTS = 32
_AT_ONCE = 8  # cuts of a word that are drawn together: few cost hardly less than some more
_KEPT_WORDS = 1 << 18  # different ones
_KEPT_IDS = 1 << 25  # in all that one shelf holds


class BpeDropout:
    """Encodes with random cuts that can be repeated."""

    def __init__(self, tokenizer: Tokenizer, rate: float, *, seed: int = 0) -> None:
        if tokenizer.kind != "bpe":
            raise UsageError(f"BPE-dropout needs a bpe tokenizer, this one is '{tokenizer.kind}'")

        self.tokenizer, self.rate, self.seed = tokenizer, rate, seed
        self._merges = Merges(tokenizer)
        self._words = _Words(self._merges.ids)
        self._texts = Shelf()  # words of examples, by index
        self._cuts = Shelf()  # pieces, by number of the word · CUTS + number of the cut

    def encode(self, text: str, *, epoch: int, index: int) -> list[int]:
        """The ids of a text, cut as (seed, epoch, index) says."""
        self._make_room()
        words = self._words.numbers([self._split(text)])
        ids: list[int] = self._cut(words, np.array([index], np.int64), epoch).ids.tolist()
        return ids

    def recut_rows(self, stored: Ragged, indices: Ints, *, epoch: int) -> Ragged:
        """Stored examples, cut anew; the texts stay the same. The words of an index are remembered.

        What an example becomes does not depend on the others.
        """
        self._make_room()
        new = np.flatnonzero(~self._texts.has(indices))
        if len(new):
            rows = [row.tolist() for row in stored.take(new)]
            texts = self.tokenizer.core.decode_batch(rows, skip_special_tokens=True)
            self._texts.put(indices[new], self._words.numbers([self._split(text) for text in texts]))
        return self._cut(self._texts.take(indices), indices, epoch)

    def _cut(self, words: Ragged, indices: Ints, epoch: int) -> Ragged:
        """Texts of word numbers as pieces: for each word one of its cuts, by seed, epoch, index and place."""
        draws = hashed(self.seed, epoch, np.repeat(indices, words.lengths), words.places)
        wanted = words.ids.astype(np.int64) * CUTS + below(draws, CUTS)
        if len(missing := wanted[~self._cuts.has(wanted)]):
            self._draw(np.unique(missing // _AT_ONCE))
        cuts = self._cuts.take(wanted)
        ends = np.append(0, np.cumsum(cuts.lengths))[np.append(0, np.cumsum(words.lengths))]  # of texts, in pieces
        return Ragged(cuts.ids.astype(np.int64), np.diff(ends))

    def _draw(self, groups: Ints) -> None:
        """Cuts that were not wanted before: always the same for the same seed, word and number."""
        wanted = (groups[:, None] * _AT_ONCE + np.arange(_AT_ONCE)).ravel()
        words, number = np.divmod(wanted, CUTS)
        streams = hashed(self.seed, self._words.hashes(words), number)
        self._cuts.put(wanted, self._merges.made(self._words.spelling.take(words), streams, rate=self.rate))

    def _split(self, text: str) -> list[str]:
        core = self.tokenizer.core
        return [word for word, _ in core.pre_tokenizer.pre_tokenize_str(core.normalizer.normalize_str(text))]

    def _make_room(self) -> None:
        """Forget what is remembered where it has become too much; the results stay the same."""
        if len(self._words) > _KEPT_WORDS or max(self._cuts.used, self._words.spelling.used) > _KEPT_IDS:
            self._words, self._texts, self._cuts = _Words(self._merges.ids), Shelf(), Shelf()
        if self._texts.used > _KEPT_IDS:
            self._texts = Shelf()


class _Words:
    """Words and their numbers, in the order in which they came; `spelling` holds the single pieces of each."""

    def __init__(self, ids: dict[str, int]) -> None:
        self.spelling = Shelf()
        self._ids = ids
        self._numbers: dict[str, int] = {}
        self._hashes: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, texts: list[list[str]]) -> Ragged:
        """Texts in words as texts in numbers."""
        new = [word for word in dict.fromkeys(chain.from_iterable(texts)) if word not in self._numbers]
        added = range(len(self), len(self) + len(new))
        self._numbers.update(zip(new, added, strict=True))
        self._hashes += map(text_hash, new)
        self.spelling.put(np.array(added, np.int64), Ragged.of([[self._ids[char] for char in word] for word in new]))
        return Ragged.of([[self._numbers[word] for word in text] for text in texts])

    def hashes(self, words: Ints) -> Hashes:
        """A hash of each of these words (k,), by which the draws of its cuts differ from those of others."""
        return np.fromiter((self._hashes[word] for word in words.tolist()), np.uint64, len(words))
