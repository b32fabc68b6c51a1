"""The tokens that a translation may be made of, by its source: what a run keeps as `shortlist.safetensors`.

    best       (n_source, k) int32    the likeliest target tokens of every source token, likeliest first; −1 fills up
    frequent   (n,) int32             the most frequent target tokens of all, the special ones among them

A sentence may be translated into those of its tokens, the frequent ones, the beginning that is asked for, and its own
tokens where both sides share a vocabulary, so that names can be copied. Logits of no other token are computed.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import read_tensors
from regard.data.batching.ragged import Ragged
from regard.data.text.corpus import Corpus
from regard.decoding.shortlist import Shortlist
from regard.errors import CheckpointError
from regard.tasks.translation.data import Languages
from regard.tasks.translation.lexical_table import MOST_LINKS, learn_lexical_table

NAME = "shortlist.safetensors"
BEST, FREQUENT = 100, 1_000  # of each source token, and of all: the frequent are the same for every row of a batch

Table = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class ShortlistTable:
    """The table; `copied` says that a source's own tokens belong to its shortlist."""

    best: Table
    frequent: Table
    copied: bool

    @classmethod
    def learn(
        cls, corpus: Corpus, languages: Languages, *, n_best: int = BEST, n_frequent: int = FREQUENT
    ) -> ShortlistTable:
        """From the pairs of a corpus, or from as many of them as it takes."""
        pairs = np.arange(0, len(corpus), _step(corpus.source_lengths, corpus.target_lengths))
        both = corpus.sources(pairs), corpus.targets(pairs)
        return cls.learn_from(*both, languages, n_best=n_best, n_frequent=n_frequent)

    @classmethod
    def learn_from(
        cls, sources: Ragged, targets: Ragged, languages: Languages, *, n_best: int = BEST, n_frequent: int = FREQUENT
    ) -> ShortlistTable:
        """From pairs of ids, or from as many of them as it takes."""
        some = slice(None, None, _step(sources.lengths, targets.lengths))
        sources, targets = sources.take(some), targets.take(some)
        n_source, n_target = (len(side.tokenizer) for side in (languages.source, languages.target))
        table = learn_lexical_table(sources, targets)
        tokenizer = languages.target.tokenizer
        special = [*tokenizer.special_tokens.present().values(), tokenizer.pad_id]
        ranked = np.argsort(-np.bincount(targets.ids, minlength=n_target), kind="stable")
        frequent = np.union1d(ranked[:n_frequent], special).astype(np.int32)
        return cls(table.best(n_best, n_source=n_source), frequent, languages.joint)

    def of(self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]]) -> Shortlist:
        """The shortlist of sentences, whose outputs have to begin with `prefixes`."""
        return Shortlist.of([self._tokens(*both) for both in zip(sources, prefixes, strict=True)])

    def _tokens(self, source: Sequence[int], prefix: Sequence[int]) -> npt.NDArray[Any]:
        likely = self.best[list(source)].ravel()
        own = list(source) if self.copied else []
        return np.concatenate([self.frequent, likely[likely >= 0], np.array([*own, *prefix], np.int32)])

    def save(self, run: RunFolder) -> None:
        """Write it beside the weights."""
        run.write_tensors(NAME, {"best": torch.from_numpy(self.best), "frequent": torch.from_numpy(self.frequent)})


def _step(source_lengths: npt.NDArray[Any], target_lengths: npt.NDArray[Any]) -> int:
    """How many pairs to go on by, so that there are not too many links."""
    links = int((source_lengths.astype(np.int64) * target_lengths).sum())
    return max(1, -(-links // MOST_LINKS))


def read_shortlist(folder: Path | None, languages: Languages, *, trained: bool) -> ShortlistTable:
    """The table of a run; `trained` says that the run has pairs to learn one from, where it has none."""
    if folder is None or not (folder / NAME).exists():
        raise CheckpointError(
            f"{folder or 'this model'}: has no shortlist ({NAME})",
            hint=f"learn one: regard train --resume --out {shlex.quote(str(folder))} decode.shortlist=true"
            if folder is not None and trained
            else "translate without: decode.shortlist=false",
        )
    return _checked(folder / NAME, languages)


def _checked(path: Path, languages: Languages) -> ShortlistTable:
    """What a file holds, if it belongs to these vocabularies."""
    tensors = read_tensors(path)
    n_source, n_target = (len(side.tokenizer) for side in (languages.source, languages.target))
    best, frequent = (tensors.get(name, torch.empty(0)) for name in ("best", "frequent"))
    shaped = best.ndim == 2 and frequent.ndim == 1 and len(best) == n_source and len(frequent) > 0
    fits = shaped and _ids(best, least=-1, n_target=n_target) and _ids(frequent, least=0, n_target=n_target)
    if not fits:
        raise CheckpointError(
            f"{path}: not a shortlist for {n_source:,} source and {n_target:,} target tokens",
            hint="it belongs to another run; translate without: decode.shortlist=false",
        )
    return ShortlistTable(best.numpy(), frequent.numpy(), languages.joint)


def _ids(values: Tensor, *, least: int, n_target: int) -> bool:
    """Whether all are ids of target tokens, from `least` on."""
    return values.dtype == torch.int32 and bool(((values >= least) & (values < n_target)).all())
