"""Words and the words around them: what skip-gram models learn from (Mikolov et al., 2013).

A text becomes a stream of word ids, the most frequent word first, without rare words. In every epoch frequent words are
left out at random (`subsample`), and the rest is cut into blocks of centres with `window` words on either side:

    words      (N, C + 2·window)    centres are columns window … window + C
    documents  the same shape       where a word stands; -1 beyond the ends of the stream. No pair crosses documents.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Core
from torch import Tensor

from regard.data.text.documents import Document
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError
from regard.tasks.words.config import WordKind

RESERVED = ("<pad>", "<unk>")  # ids 0 and 1; words come after them
# Letters and digits, with apostrophes and hyphens inside; and pictures, one each.
_PATTERNS = {"words": r"\w+(?:['’\-]\w+)*|[\u2600-\u27BF\U0001F000-\U0001FAFF]", "spaces": r"\S+"}
_TABLE = 1_000_000  # entries of the table that noise is drawn from


class WordStream(NamedTuple):
    """The words of a text: how often each of the vocabulary occurs, the ids in order, and the document of each."""

    words: tuple[str, ...]
    counts: NDArray[np.int64]  # (V,), largest first
    ids: NDArray[np.int32]  # (n,), from 0; rare words are left out
    documents: NDArray[np.int32]  # (n,)


class Blocks(NamedTuple):
    """Centres with their surroundings, and the document of every word: both (N, C + 2·window)."""

    words: Tensor
    documents: Tensor


def cutter(kind: WordKind, *, lowercase: bool) -> Callable[[str], list[str]]:
    """A function from a text to its words: runs of letters and digits, or whatever stands between spaces."""
    find: Callable[[str], list[str]] = str.split if kind == "spaces" else re.compile(_PATTERNS[kind]).findall
    return (lambda text: find(text.lower())) if lowercase else find


def read_words(
    documents: Iterable[Document], cut: Callable[[str], list[str]], *, min_count: int, max_words: int = 0
) -> WordStream:
    """Count the words of all documents, and keep those that occur often enough; the `max_words` commonest, if given."""
    table: defaultdict[str, int] = defaultdict()
    table.default_factory = table.__len__  # a word met for the first time gets the next number
    parts, sizes, places, document_number = [], [], [], 0
    for document in documents:
        words = cut(document.text)
        parts.append(np.fromiter(map(table.__getitem__, words), np.int32, len(words)))
        sizes.append(len(words))
        places.append(document_number)
        document_number += not document.more
    raw = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    counts, names = np.bincount(raw, minlength=len(table)), list(table)
    often = counts >= min_count
    often[[table[name] for name in RESERVED if name in table]] = False
    order = np.argsort(-counts, kind="stable")  # equally frequent words stay in the order of their first occurrence
    order = order[often[order]][: max_words or None]
    _check_enough(len(order), len(raw), min_count)
    new = np.full(len(table), -1, np.int32)
    new[order] = np.arange(len(order), dtype=np.int32)
    ids, where = new[raw], np.repeat(np.array(places, np.int32), sizes)
    return WordStream(tuple(names[i] for i in order), counts[order], ids[ids >= 0], where[ids >= 0])


def _check_enough(n_kept: int, n_words: int, min_count: int) -> None:
    if n_words == 0:
        raise DataError("the text holds no words", hint="tokenizer.kind=spaces takes anything between spaces for one")
    if n_kept < 2:
        raise DataError(
            f"{'one word occurs' if n_kept else 'no word occurs'} {min_count} times or more among {n_words:,}; "
            "at least two different ones are needed",
            hint="give more text, or a smaller data.min_count",
        )


def word_tokenizer(words: Iterable[str], kind: WordKind, *, lowercase: bool) -> Tokenizer:
    """A tokenizer of these words, after <pad> and <unk>; it cuts texts as `cutter` does, and knows no other word."""
    names = [*RESERVED, *words]
    vocabulary = {word: index for index, word in enumerate(names)}
    if len(vocabulary) < len(names):
        raise DataError("a word occurs twice in the vocabulary", hint="words have to differ from each other")
    core = Core(models.WordLevel(vocab=vocabulary, unk_token=RESERVED[1]))
    if lowercase:
        core.normalizer = normalizers.Lowercase()
    pattern = re.sub(r"\\[uU]([0-9A-F]+)", lambda escape: chr(int(escape[1], 16)), _PATTERNS[kind])
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return Tokenizer.foreign(core, special_tokens=SpecialTokens(pad=0, unk=1))


def keep_rates(counts: NDArray[np.int64], sample: float) -> NDArray[np.float32]:
    """With which probability an occurrence of each word is kept: √(s/f) + s/f, at most 1; all, where `sample` is 0."""
    if not sample:
        return np.ones(len(counts), np.float32)
    rate = sample * counts.sum() / counts
    kept: NDArray[np.float32] = np.minimum(1, np.sqrt(rate) + rate).astype(np.float32)
    return kept


def noise_table(counts: NDArray[np.int64], *, power: float = 0.75) -> Tensor:
    """Ids to draw noise from: each word as often as its count to the `power`, at least once."""
    share = counts.astype(np.float64) ** power
    times = np.maximum(1, np.rint(share / share.sum() * _TABLE)).astype(np.int64)
    return torch.from_numpy(np.repeat(np.arange(len(counts)), times))


@dataclass(frozen=True)
class BlockPlan:
    """How a stream is cut for an epoch: so many centres a block, and so many words on either side."""

    centres: int = 32
    window: int = 5

    @property
    def width(self) -> int:
        """Words in a block, surroundings included."""
        return self.centres + 2 * self.window

    def cut(self, stream: WordStream, keep: NDArray[np.float32], rng: np.random.Generator) -> Blocks:
        """The blocks of one epoch, after leaving out frequent words at random."""
        kept = rng.random(len(stream.ids), dtype=np.float32) < keep[stream.ids]
        ids, documents = stream.ids[kept], stream.documents[kept]
        n_blocks = max(1, -(-len(ids) // self.centres))
        size, begin = n_blocks * self.centres + 2 * self.window, self.window
        words, places = np.zeros(size, np.int64), np.full(size, -1, np.int32)
        words[begin : begin + len(ids)], places[begin : begin + len(ids)] = ids, documents
        return Blocks(*(torch.from_numpy(a).unfold(0, self.width, self.centres) for a in (words, places)))

    def bands(self) -> Tensor:
        """Which words of a block are within each radius of each centre: (window + 1, C, C + 2·window) of 0 and 1."""
        distance = (torch.arange(self.width)[None] - torch.arange(self.centres)[:, None] - self.window).abs()
        radius = torch.arange(self.window + 1)[:, None, None]
        return ((distance > 0) & (distance <= radius)).float()
