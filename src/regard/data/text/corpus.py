"""A tokenised corpus on disk, read through the page cache: any size, little memory.

A folder holds, for each side, the ids of all sentences in one flat array and where each begins:

    source.ids  target.ids           uint16, or uint32 for vocabularies over 65,536; without special tokens
    source.offsets  target.offsets   int64, n + 1 of them
    corpus.json                      counts, types, what was dropped, and the fingerprint of what it was made from

A large one has shards: source-00001.ids and so on. It is written under a temporary name and renamed, so a folder is
whole or absent; what was cut short later is noticed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.data.batching.chunks import chunks
from regard.data.batching.ragged import Ragged
from regard.data.io.cache import Header, Store, whole_numbers
from regard.data.io.lines import Say
from regard.data.io.shards import Facts, ShardJob, ShardWriter, Workshop, work_folder
from regard.data.text.memmap_ids import ID_TYPES, MemmapIdWriter, ShardedIds
from regard.data.text.pair_units import PairUnits
from regard.data.text.pairs import Pair
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError

_CHUNK = 4096  # pairs encoded at once


@dataclass(frozen=True, kw_only=True)
class CorpusHeader(Header):
    """What `corpus.json` says."""

    pairs: int
    source_tokens: int
    target_tokens: int
    source_dtype: str
    target_dtype: str
    dropped_long: int
    shards: tuple[tuple[int, int, int], ...] = ()  # pairs and tokens of both sides of each, where there are several

    def sound(self) -> bool:
        """Whether there is a pair, and ids are of a type that is written."""
        types = {self.source_dtype, self.target_dtype} <= {*ID_TYPES}
        counts = (self.pairs, self.source_tokens, self.target_tokens)
        shards = all(len(shard) == 3 and whole_numbers(*shard) for shard in self.shards)
        summed = not self.shards or tuple(map(sum, zip(*self.shards, strict=True))) == counts
        return types and whole_numbers(self.pairs - 1, *counts) and shards and summed


class Corpus(Store):
    """Tokenised pairs, by number. Made by `Corpus.build`, `Corpus.open` or `Corpus.cached`."""

    what, header_file, header_type = "a corpus", "corpus.json", CorpusHeader
    files = ("source.ids", "source.offsets", "target.ids", "target.offsets")

    def __init__(self, folder: Path, header: CorpusHeader) -> None:
        super().__init__(folder, header)
        shards = header.shards or ((header.pairs, header.source_tokens, header.target_tokens),)
        source, target = [(n, m) for n, m, _ in shards], [(n, m) for n, _, m in shards]
        self._source = ShardedIds(folder, "source", shards=source, dtype=header.source_dtype)
        self._target = ShardedIds(folder, "target", shards=target, dtype=header.target_dtype)
        self.source_lengths = self._source.lengths  # (n,)
        self.target_lengths = self._target.lengths  # (n,)

    def __len__(self) -> int:
        return int(self.header.pairs)

    def source(self, index: int) -> npt.NDArray[Any]:
        """The ids of a source sentence, (length,), as a view of the file."""
        return self._source[index]

    def target(self, index: int) -> npt.NDArray[Any]:
        """The ids of a target sentence, (length,), as a view of the file."""
        return self._target[index]

    def sources(self, indices: npt.NDArray[np.int64]) -> Ragged:
        """The ids of many source sentences, end to end."""
        return self._source.rows(indices)

    def targets(self, indices: npt.NDArray[np.int64]) -> Ragged:
        """The ids of many target sentences, end to end."""
        return self._target.rows(indices)

    @classmethod
    def build(
        cls,
        pairs: Iterable[Pair],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        folder: Path | str,
        *,
        max_tokens: int | None = None,
        fingerprint: str = "",
    ) -> Self:
        """Encode a stream of pairs into `folder`, replacing what is there.

        Pairs with more than `max_tokens` on a side are left out; the header counts them as `dropped_long`.
        """

        folder = Path(folder)
        with cls.writing(folder) as draft:
            writer = PairWriter(draft, source_tokenizer, target_tokenizer, max_tokens=max_tokens)
            for chunk in chunks(pairs, _CHUNK):
                writer.write(chunk)
            cls.write_header(draft, _header([writer.close(last=True)], max_tokens, fingerprint))
        return cls.open(folder)

    @classmethod
    def build_from(
        cls,
        units: PairUnits,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        folder: Path,
        *,
        workshop: Workshop,
        max_tokens: int | None = None,
        fingerprint: str = "",
        name: str = "",
        say: Say = lambda _: None,
    ) -> Self:
        """The same for files, by several processes, in as many shards as it takes; the pairs are the same."""
        tokenizers = [tokenizer.fingerprint() for tokenizer in (source_tokenizer, target_tokenizer)]
        plan = {"key": fingerprint, "tokenizers": tokenizers, "units": units.key(), **workshop.plan()}
        work = work_folder(folder)
        return cls.build_shards(
            PairJob(work, workshop.shard_bytes, units, source_tokenizer, target_tokenizer, max_tokens),
            folder,
            n_units=len(units),
            workers=workshop.processes,
            plan=plan,
            header=lambda facts: _header(facts, max_tokens, fingerprint),
            name=name,
            say=say,
        )


def _header(shards: Sequence[Facts], max_tokens: int | None, fingerprint: str) -> CorpusHeader:
    """The counts of all shards together."""
    names = {
        "pairs": "sentences",
        "source_tokens": "tokens",
        "target_tokens": "target_tokens",
        "dropped_long": "dropped",
    }
    totals = {name: sum(facts[key] for facts in shards) for name, key in names.items()}
    if not totals["pairs"]:
        dropped = totals["dropped_long"]
        message = f"no usable pairs: none was given, or all {dropped} are longer than {max_tokens} tokens"
        raise DataError(message, hint="raise max_tokens, or check the input")
    several = tuple((facts["sentences"], facts["tokens"], facts["target_tokens"]) for facts in shards)
    types = {"source_dtype": shards[0]["dtype"], "target_dtype": shards[0]["target_dtype"]}
    return CorpusHeader(**totals, **types, fingerprint=fingerprint, shards=several if len(shards) > 1 else ())


class PairWriter(ShardWriter):
    """Writes pairs that are short enough, and counts those that are not."""

    def __init__(self, folder: Path, source: Tokenizer, target: Tokenizer, *, max_tokens: int | None) -> None:
        self._source, self._target = MemmapIdWriter(folder, "source", source), MemmapIdWriter(folder, "target", target)
        self.max_tokens, self.dropped = max_tokens, 0

    @property
    def size(self) -> int:
        """Bytes of the ids of both sides."""
        return self._source.size + self._target.size

    def write(self, chunk: list[Pair]) -> None:
        """Write some pairs."""
        sources = self._source.tokenizer.encode_batch([pair.source for pair in chunk])
        targets = self._target.tokenizer.encode_batch([pair.target for pair in chunk])
        if self.max_tokens is not None:
            kept = [both for both in zip(sources, targets, strict=True) if max(map(len, both)) <= self.max_tokens]
            self.dropped += len(chunk) - len(kept)
            sources, targets = [both[0] for both in kept], [both[1] for both in kept]
        self._source.append(sources)
        self._target.append(targets)

    def close(self, *, last: bool) -> Facts:
        """End the files of both sides."""
        self._source.close()
        self._target.close()
        sides = {"tokens": self._source.tokens, "target_tokens": self._target.tokens}
        types = {"dtype": self._source.dtype.str, "target_dtype": self._target.dtype.str}
        return {"sentences": self._source.count, "dropped": self.dropped, **sides, **types}


@dataclass(frozen=True)
class PairJob(ShardJob):
    """Files of pairs to shards of a corpus."""

    work: Path
    shard_bytes: int
    units: PairUnits
    source: Tokenizer
    target: Tokenizer
    max_tokens: int | None

    def chunks(self, unit: int) -> Iterator[list[Pair]]:
        """The pairs of some files."""
        return chunks(self.units.pairs(unit), _CHUNK)

    def open(self, folder: Path) -> ShardWriter:
        """A shard of the corpus."""
        return PairWriter(folder, self.source, self.target, max_tokens=self.max_tokens)
