"""Text to ids and back: one class over the `tokenizers` library, six kinds of pieces of our own, and those of others.

    bpe, unigram, wordpiece   subwords over a byte alphabet: nothing is ever unknown (wordpiece: longest match first)
    bytes                     one id a byte of UTF-8; nothing to learn
    chars, words              one id a character or a word; what training has not seen is <unk>
    foreign                   made elsewhere: a `tokenizer.json` of any make, with the roles of its special tokens

Ids 0 to 3 of ours are <pad>, <unk>, <s>, </s>; id 4 is <mask> where it was asked for. Text is normalised first: NFC,
runs of whitespace to one space, none at the ends, lower case on request; `decode(encode(text)) == normalise(text)`
wherever nothing is unknown. In words and subwords a space belongs to the piece after it, and one is put before the
first word so that words look the same everywhere. A verbatim tokenizer, as language models need it, does none of this:
every line break and space is kept, and comes back. Special tokens written out in a text are ordinary characters.
Everything is in one `tokenizer.json`, which the library opens.

Which whitespace word a piece belongs to, and which characters it covers.

Where a folder keeps its tokenizers: one file, or one for each side of a pair.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer as Core

from regard.config.bounded import read_text
from regard.data.text.bytechars import char_to_byte, readable
from regard.data.text.properties import BYTE_KINDS, FOREIGN, KINDS, TokenizerProperties
from regard.data.text.special_tokens import (
    MASK,
    SPECIALS,
    SpecialTokens,
    describe,
    make_special,
    read_special_tokens,
    write_special_tokens,
)
from regard.data.text.templates import Template, TemplatedIds, read_template, template_of
from regard.errors import DataError, UsageError

__all__ = ["BYTE_KINDS", "FOREIGN", "KINDS", "MASK", "SPECIALS", "SpecialTokens", "TemplatedIds", "Tokenizer"]
_GAPS = 1000  # ids for each piece, at most: a vocabulary with more is no vocabulary
_SPACES = (" ", next(char for char, byte in char_to_byte().items() if byte == ord(" ")))


class Tokenizer:
    """Text ↔ ids. Made by `learn_tokenizer`, `Tokenizer.load` or `Tokenizer.foreign`.

    `kind` is one of `KINDS`, or "foreign"; `lowercase` says that text is put in lower case first, `verbatim` that all
    whitespace is kept as it is written, which is never claimed of a foreign one. `special_tokens` are the ids that
    stand for something else than text; those of a mask, and of what heads and parts texts, may be None.
    """

    def __init__(self, core: Core, *, special_tokens: SpecialTokens | None = None) -> None:
        if special_tokens is None and [core.token_to_id(token) for token in SPECIALS] != list(range(len(SPECIALS))):
            raise DataError(f"this tokenizer does not begin with the special tokens {' '.join(SPECIALS)}")
        size = id_space(core)
        core.encode_special_tokens = True  # "<s>" in a text is three characters, not an instruction
        core.no_truncation()
        core.no_padding()
        self.core = core
        properties = TokenizerProperties(describe(core), special_tokens=special_tokens)
        self.kind, self.lowercase, self.verbatim = properties.kind, properties.lowercase, properties.verbatim
        self.special_tokens = tokens = properties.special_tokens
        self.mask_id, self.cls_id, self.sep_id = tokens.mask, tokens.cls, tokens.sep
        self._properties = properties
        self._pieces: list[str] = [core.id_to_token(index) or "" for index in range(size)]
        added = core.get_added_tokens_decoder()
        self.special_ids = frozenset(index for index, token in added.items() if token.special)

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: as it was, with what its description alone does not say."""
        return _copied, (self.core.to_str(), self.special_tokens if self._properties.foreign else None)

    @classmethod
    def foreign(cls, core: Core, *, special_tokens: SpecialTokens) -> Self:
        """A tokenizer made elsewhere; at least one of its tokens must play a role."""
        if not special_tokens.present():
            raise UsageError("no token of this tokenizer plays a role", hint="give one, as SpecialTokens(eos=…)")
        make_special(core, special_tokens)
        return cls(core, special_tokens=special_tokens)

    @property
    def size(self) -> int:
        """The number of ids, special tokens included."""
        return len(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def pad_id(self) -> int:
        """The id that fills up short rows. Where there is none for it, the end's or any other: it is never read."""
        tokens = self.special_tokens
        return next((i for i in (tokens.pad, tokens.eos, tokens.bos, tokens.unk) if i is not None), 0)

    @property
    def unk_id(self) -> int:
        """The id of what has no piece; a tokenizer without one is an error (else ask `special_tokens`)."""
        return self._required("unk")

    @property
    def bos_id(self) -> int:
        """The id that begins a text; a tokenizer without one is an error (else ask `special_tokens`)."""
        return self._required("bos")

    @property
    def eos_id(self) -> int:
        """The id that ends a text; a tokenizer without one is an error (else ask `special_tokens`)."""
        return self._required("eos")

    def _required(self, role: str) -> int:
        index: int | None = getattr(self.special_tokens, role)
        if index is None:
            played = ", ".join(f"{name} ({self._pieces[i]})" for name, i in self.special_tokens.present().items())
            raise DataError(f"this tokenizer has no token for the role '{role}'; it has: {played}")
        return index

    def normalise(self, text: str) -> str:
        """The text as the pieces will spell it, which is what decoding gives back."""
        if self.core.normalizer is None:
            return text
        normal: str = self.core.normalizer.normalize_str(text)
        # Where a space is put in front, the ends were stripped before: this one is ours.
        return normal.removeprefix(" ") if self._properties.leading_space else normal

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        ids: list[int] = self.core.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts at once, on all cores; one needs no others, and no thread of Python waits for it."""
        if len(texts) == 1:
            return [self.encode(texts[0])]
        return [encoding.ids for encoding in self.core.encode_batch_fast(list(texts), add_special_tokens=False)]

    def frame(self, first: Sequence[int], second: Sequence[int] | None = None) -> TemplatedIds:
        """The ids of one text or two between the special tokens that models of this tokenizer know.

        Ours give <s> a </s> and <s> a </s> b </s>; a foreign one gives what its post-processor says.
        """
        return self._frame(first, second)

    @cached_property
    def _frame(self) -> Template:
        foreign, tokens = self._properties.foreign, self.special_tokens
        return read_template(self.core, tokens) if foreign else template_of(tokens)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; special tokens are left out, broken UTF-8 shows as �."""
        text: str = self.core.decode([int(index) for index in ids], skip_special_tokens=True)
        return text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each piece as people would write it, with ▁ for the space before a word."""
        known = self._known_spellings
        return [known.get(index) or known.setdefault(index, self._readable(index)) for index in map(int, ids)]

    @cached_property
    def _known_spellings(self) -> dict[int, str]:
        return {}

    def _readable(self, index: int) -> str:
        piece = self._pieces[index]
        if index in self.special_ids:
            return piece
        spelled = self._properties.byte_level and all(char in char_to_byte() for char in piece)
        return (readable(piece) if spelled else piece).replace(" ", "▁")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """For each piece of `encode(text)`, the characters of `text` that it covers, whitespace at its ends aside."""
        return [trim(text, *span) for span in self.core.encode(text, add_special_tokens=False).offsets]

    def word_ids(self, text: str) -> list[int]:
        """For each piece of `encode(text)`, the whitespace word that it belongs to, from 0.

        The words are those of `normalise(text)`; a space belongs to the word after it.
        """
        encoding = self.core.encode(text, add_special_tokens=False)
        if self._properties.foreign or self.verbatim:
            return words_of(text, encoding.offsets)
        if not self._properties.leading_space or self.kind in BYTE_KINDS:
            return count_spaces(encoding.tokens, start=-int(self._properties.leading_space))
        # Unknown words do not spell their space, so these are read off the pre-tokenizer, one piece a word.
        split = self.core.pre_tokenizer.pre_tokenize_str(self.core.normalizer.normalize_str(text))
        return count_spaces([piece for piece, _ in split], start=-1)

    def save(self, path: Path | str) -> None:
        """Write `tokenizer.json`, or another file where one is named, whole or not at all."""
        path = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
        content = self.core.to_str(pretty=True)
        if self._properties.foreign:
            noted = write_special_tokens(describe(self.core), self.special_tokens)
            content = json.dumps(noted, indent=2, ensure_ascii=False)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(content, encoding="utf-8")
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote."""
        try:
            content = read_text(path)
            return cls(Core.from_str(content), special_tokens=read_special_tokens(json.loads(content)))
        except FileNotFoundError:
            raise DataError(f"{path}: no such tokenizer file", hint="a run folder keeps it as tokenizer.json") from None
        except DataError as error:
            raise DataError(f"{path}: {error}", hint=error.hint) from None
        except Exception as error:  # the library raises nothing more precise
            raise DataError(f"{path}: cannot be read as a tokenizer ({error})") from error

    def fingerprint(self) -> str:
        """A SHA-256 over everything that decides which ids a text gets."""
        special_tokens = repr(self.special_tokens) if self._properties.foreign else ""
        return hashlib.sha256((self.core.to_str() + special_tokens).encode()).hexdigest()


def _copied(description: str, special_tokens: SpecialTokens | None) -> Tokenizer:
    return Tokenizer(Core.from_str(description), special_tokens=special_tokens)


def id_space(core: Core) -> int:
    """How many ids a tokenizer has, gaps included: one more than its largest; far more than its pieces is an error."""
    ids = core.get_vocab().values()
    size = max(ids, default=-1) + 1
    if not size or size > _GAPS * len(ids):
        raise DataError(f"this tokenizer has {len(ids):,} pieces, and ids up to {size - 1:,}")
    return size


def count_spaces(pieces: Iterable[str], *, start: int) -> list[int]:
    """The word of each piece, where each word begins with a piece that begins with its space."""
    word, words = start, []
    for piece in pieces:
        word += piece.startswith(_SPACES)
        words.append(word)
    return words


def words_of(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The whitespace word that each span begins in, or before; what follows the last word belongs to it."""
    word, words_of_chars, inside = 0, [], False
    for char in text:
        if inside and char.isspace():
            word += 1
        inside = not char.isspace()
        words_of_chars.append(word)
    last = len(text.split()) - 1
    return [max(0, min(words_of_chars[start], last)) if start < len(text) else max(0, last) for start, _ in spans]


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the whitespace at its ends; one of nothing but whitespace keeps a character."""
    while end - start > 1 and text[start].isspace():
        start += 1
    while end - start > 1 and text[end - 1].isspace():
        end -= 1
    return start, end


def save_tokenizers(folder: Path, source: Tokenizer, target: Tokenizer | None = None) -> None:
    """Write tokenizer.json, or source.json and target.json where the two sides differ."""
    folder.mkdir(parents=True, exist_ok=True)
    if target is None:
        source.save(folder / "tokenizer.json")
    else:
        source.save(folder / "source.json")
        target.save(folder / "target.json")


def read_tokenizers(folder: Path) -> tuple[Tokenizer | None, Tokenizer | None]:
    """What `save_tokenizers` wrote: for both sides, or one for each; none where nothing is read as text."""
    if (folder / "tokenizer.json").exists():
        return Tokenizer.load(folder / "tokenizer.json"), None
    if not (folder / "source.json").exists():
        return None, None
    return Tokenizer.load(folder / "source.json"), Tokenizer.load(folder / "target.json")
