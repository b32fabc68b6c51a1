"""Sentence pairs as a task's data: where they are, how they are cut, and what is kept of them.

`TextSide` is one side's way from text to ids and back: Moses rules where asked for, then the tokenizer. `prepare`
reads, checks and encodes everything once, into memory-mapped ids under the run folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from regard.data.io.cache import store_key
from regard.data.io.globs import expand, is_pattern
from regard.data.io.hashes import Damaged, check_hashes, record_hashes
from regard.data.io.lines import STDIN
from regard.data.io.paths import find_data
from regard.data.io.saved import saved_part
from regard.data.io.shards import work_folder
from regard.data.synthetic.dates import write_dates
from regard.data.text.checks import Policy, check_pairs, pair_hashes
from regard.data.text.corpus import Corpus
from regard.data.text.moses import moses_detokenize, moses_tokenize
from regard.data.text.pair_files import pair_files
from regard.data.text.pair_units import PairUnits
from regard.data.text.pairs import Pair, Pairs, PairSet, PairSource
from regard.data.text.text_units import sample_every
from regard.data.text.tokenizers import Tokenizer, read_tokenizers, save_tokenizers
from regard.data.text.vocabulary import learn_pieces
from regard.errors import DataError
from regard.tasks.files import DataFiles, Say
from regard.tasks.translation.config import PairData, PieceConfig

_MOST_HELD = 2_000  # pairs that are held out of a large corpus


@dataclass(frozen=True)
class TextSide:
    """One side's way from text to ids and back."""

    tokenizer: Tokenizer
    language: str | None = None

    def normal(self, text: str) -> str:
        """The text as the tokenizer gets it."""
        return moses_tokenize(text, self.language) if self.language else text

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts → ids, without special tokens."""
        return self.tokenizer.encode_batch([self.normal(text) for text in texts])

    def decode(self, ids: Iterable[int]) -> str:
        """Ids → text as people write it."""
        text = self.tokenizer.decode(ids)
        return moses_detokenize(text, self.language) if self.language else text


@dataclass(frozen=True)
class Languages:
    """Both sides; one tokenizer may serve both."""

    source: TextSide
    target: TextSide

    @property
    def joint(self) -> bool:
        """Whether both sides share one tokenizer."""
        return self.source.tokenizer is self.target.tokenizer

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, or source.json and target.json where they differ."""
        save_tokenizers(folder, self.source.tokenizer, None if self.joint else self.target.tokenizer)

    @classmethod
    def load(cls, folder: Path, *, moses: tuple[str, str] | None) -> Languages:
        """Read what `save` wrote."""
        source, target = read_tokenizers(folder)
        assert source is not None  # both are written whole, or not at all
        return cls.of(source, target, moses=moses)

    @classmethod
    def learn(
        cls, pairs: Callable[[], Iterator[Pair]], pieces: PieceConfig, *, moses: tuple[str, str] | None
    ) -> Languages:
        """Learn the pieces from pairs that can be streamed more than once."""

        def learn(*sides: int) -> Tokenizer:
            return learn_pieces((pair[side] for pair in pairs() for side in sides), pieces)  # type: ignore[misc]

        return cls.of(*((learn(0, 1), None) if pieces.joint else (learn(0), learn(1))), moses=moses)

    @classmethod
    def of(cls, source: Tokenizer, target: Tokenizer | None, *, moses: tuple[str, str] | None) -> Languages:
        """Both sides, or one tokenizer for both."""
        languages = moses or (None, None)
        return cls(TextSide(source, languages[0]), TextSide(target or source, languages[1]))


class PairFiles(DataFiles[PairData]):
    """The pairs of a recipe."""

    ending = ".tsv"

    def source(self, files: Sequence[str], *, what: str) -> Pairs:
        """Describe one set of pairs: a table or two parallel texts, or many of either."""
        matched = [[find_data(one, self.root) for one in expand(name, self.root)] for name in files]
        sides = pair_files(
            matched, what=what, parallel=None if self.data.format is None else self.data.format == "lines"
        )
        data = self.data
        sources = tuple(PairSource(a, b, columns=data.columns, format=data.format) for a, b in sides)
        return sources[0] if len(sources) == 1 else PairSet(sources)

    @cached_property
    def train(self) -> Pairs:
        """The pairs to learn from."""
        return self._part("train", self.data.train) if self._has_valid else self._parted[0]

    @cached_property
    def valid(self) -> Pairs:
        """The pairs to choose by; where none are named, those saved beside the training pairs, or some of them."""
        files = self.data.valid or self.data.train
        return self._part("valid", files) if self._has_valid else self._parted[1]

    @property
    def _has_valid(self) -> bool:
        named = bool(self.data.valid) or self.data.synthetic is not None
        return named or self._saved(self.data.train, "valid") is not None

    def _saved(self, files: Sequence[str], part: str) -> str | None:
        """The part of a folder that the `datasets` package saved, if that is what is named."""
        if len(files) != 1 or files[0] == STDIN or is_pattern(files[0], self.root):
            return None
        return saved_part(find_data(files[0], self.root), part)

    @cached_property
    def _parted(self) -> tuple[Pairs, Pairs]:
        return self._part("train", self.data.train).parted(self.data.valid_share, most=_MOST_HELD)

    @cached_property
    def tests(self) -> Mapping[str, Pairs]:
        """The pairs to report on, by name."""
        if self.data.synthetic:
            return {"test": self._part("test", ())}
        return {name: self.source(files, what=f"test.{name}") for name, files in self.data.test.items()}

    @property
    def languages(self) -> tuple[str, str] | None:
        """The codes of both sides: as set, by Moses' rules, or as suffixes and columns tell."""
        return self.data.languages or self.data.moses or (None if self.data.synthetic else self.train.languages)

    def fingerprints(self) -> dict[str, str]:
        """A SHA-256 of every set, and of the way it is read."""
        sources = {"train": self.train, "valid": self.valid} | dict(self.tests)
        return {name: source.fingerprint() for name, source in sources.items()}

    def _part(self, part: str, files: Sequence[str]) -> Pairs:
        if self.data.synthetic is None:
            kept = [self.keep(name, part) for name in files]
            saved = self._saved(kept, part)
            return self.source([saved] if saved else kept, what=part)
        path = self.made / f"{part}.tsv"
        if not path.exists():
            counts = {f"n_{name}": getattr(self.data, f"n_{name}") for name in ("train", "valid", "test")}
            for draft in write_dates(self.made / ".draft", **counts, seed=0).values():
                draft.replace(self.made / draft.name)  # whole or absent, whenever a kill comes
            (self.made / ".draft").rmdir()
        return PairSource(path)


def read_pairs(source: Pairs, data: PairData, *, held_out: Iterable[Pairs] = (), say: Say) -> Iterator[Pair]:
    """Stream the pairs that pass the checks, then say what did not."""
    return checked_pairs(source.pairs(say), source.name, data, held_out=held_out, say=say)


def checked_pairs(
    pairs: Iterable[Pair], name: str, data: PairData, *, held_out: Iterable[Pairs] = (), say: Say
) -> Iterator[Pair]:
    """The same for pairs of any source."""
    hashes = pair_hashes(*(other.pairs() for other in held_out))
    checked = check_pairs(
        pairs,
        name=name,
        max_length=data.max_characters,
        max_ratio=data.max_ratio,
        policy=Policy(data.empty, data.long, data.ratio, data.duplicate, data.overlap),
        held_out=hashes,
    )
    yield from checked
    for line in checked.report.lines():
        say(line)


def encode_training(
    files: PairFiles, pieces: PieceConfig, folder: Path, *, known: Languages | None = None, say: Say
) -> tuple[Languages, Corpus]:
    """Check the training pairs, learn the tokenizers, and put the ids on disk; reused when nothing changed.

    Tokenizers that are `known` are not learnt again.
    """
    data = files.data
    held_out = [files.valid, *files.tests.values()]
    given = [] if known is None else [side.tokenizer.core.to_str() for side in (known.source, known.target)]
    every = sample_every(files.train.files(), pieces)
    sampled = [] if every == 1 else [every]
    key = store_key(*(s.fingerprint() for s in (files.train, *held_out)), repr(data), repr(pieces), *given, *sampled)
    made = folder / key[:24]
    if (made / "corpus" / "corpus.json").exists():
        try:
            check_hashes(made)
            return Languages.load(made, moses=data.moses), Corpus.open_checked(made / "corpus")
        except (DataError, Damaged) as problem:
            say(f"{problem}; it is made anew")
            shutil.rmtree(made)

    # Once, to say what is wrong before anything is learnt from it.
    units = PairUnits.of(
        files.train,
        lambda pairs: checked_pairs(pairs, files.train.name, data, held_out=held_out, say=say),
        most=files.workshop.shard_bytes,
        moses=data.moses,
        say=say,
    )
    languages = (
        known
        or _kept_languages(made, data)
        or Languages.learn(lambda: islice(units.all_pairs(), 0, None, every), pieces, moses=data.moses)
    )
    languages.save(made)
    record_hashes(made, ["tokenizer.json", "source.json", "target.json"])
    corpus = Corpus.build_from(
        units,
        languages.source.tokenizer,
        languages.target.tokenizer,
        made / "corpus",
        workshop=files.workshop,
        max_tokens=data.max_tokens,
        fingerprint=key,
        name="train",
        say=say,
    )
    if corpus.header.dropped_long:
        say(f"{files.train.name}: {corpus.header.dropped_long} pairs over {data.max_tokens} tokens dropped")
    return languages, corpus


def _kept_languages(made: Path, data: PairData) -> Languages | None:
    """The tokenizers that were learnt before a kill came, so that the shards that stand are of the same ones."""
    if not (work_folder(made / "corpus").exists() and check_whole(made)):
        return None
    return Languages.load(made, moses=data.moses)


def check_whole(folder: Path) -> bool:
    """Whether what a folder kept is as it was written."""
    try:
        return check_hashes(folder)
    except Damaged:
        return False
