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
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

from tokenizers import Tokenizer as Core

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
from regard.data.text.wordspans import count_spaces, trim, words_of
from regard.errors import DataError, UsageError

__all__ = ["BYTE_KINDS", "FOREIGN", "KINDS", "MASK", "SPECIALS", "SpecialTokens", "TemplatedIds", "Tokenizer"]


class Tokenizer:
    """Text ↔ ids. Made by `learn_tokenizer`, `Tokenizer.load` or `Tokenizer.foreign`."""

    def __init__(self, core: Core, *, special_tokens: SpecialTokens | None = None) -> None:
        if special_tokens is None and [core.token_to_id(token) for token in SPECIALS] != list(range(len(SPECIALS))):
            raise DataError(f"this tokenizer does not begin with the special tokens {' '.join(SPECIALS)}")
        core.encode_special_tokens = True  # "<s>" in a text is three characters, not an instruction
        core.no_truncation()
        core.no_padding()
        self.core = core
        self._traits = TokenizerProperties(describe(core), special_tokens=special_tokens)
        size = max(core.get_vocab().values()) + 1  # the ids of a foreign vocabulary may have gaps
        self._pieces: list[str] = [core.id_to_token(index) or "" for index in range(size)]
        added = core.get_added_tokens_decoder()
        self.special_ids = frozenset(index for index, token in added.items() if token.special)

    @classmethod
    def foreign(cls, core: Core, *, special_tokens: SpecialTokens) -> Self:
        """A tokenizer made elsewhere; at least one of its tokens must play a role."""
        if not special_tokens.present():
            raise UsageError("no token of this tokenizer plays a role", hint="give at least one, as Roles(eos=…)")
        make_special(core, special_tokens)
        return cls(core, special_tokens=special_tokens)

    @property
    def kind(self) -> str:
        """Which of `KINDS` this is, or "foreign"."""
        return self._traits.kind

    @property
    def lowercase(self) -> bool:
        """Whether text is put in lower case first."""
        return self._traits.lowercase

    @property
    def verbatim(self) -> bool:
        """Whether all whitespace is kept as it is written; never claimed of a foreign one."""
        return self._traits.verbatim

    @property
    def size(self) -> int:
        """The number of ids, special tokens included."""
        return len(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def special_tokens(self) -> SpecialTokens:
        """Which ids stand for what; None for what a foreign tokenizer lacks. Ours lack nothing but, perhaps, a mask."""
        return self._traits.special_tokens

    @property
    def pad_id(self) -> int:
        """The id that fills up short rows. Where there is none for it, the end's or any other: it is never read."""
        special_tokens = self.special_tokens
        return next(
            (
                index
                for index in (special_tokens.pad, special_tokens.eos, special_tokens.bos, special_tokens.unk)
                if index is not None
            ),
            0,
        )

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

    @property
    def mask_id(self) -> int | None:
        """The id of a hidden word, if there is one."""
        return self.special_tokens.mask

    @property
    def cls_id(self) -> int | None:
        """The id that heads a text for a classifier, if there is one; in ours it is that of <s>."""
        return self.special_tokens.cls

    @property
    def sep_id(self) -> int | None:
        """The id that closes each of two texts, if there is one; in ours it is that of </s>."""
        return self.special_tokens.sep

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
        return normal.removeprefix(" ") if self._traits.leading_space else normal

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts at once, on all cores."""
        return [encoding.ids for encoding in self.core.encode_batch_fast(list(texts), add_special_tokens=False)]

    def frame(self, first: Sequence[int], second: Sequence[int] | None = None) -> TemplatedIds:
        """The ids of one text or two between the special tokens that models of this tokenizer know.

        Ours give <s> a </s> and <s> a </s> b </s>; a foreign one gives what its post-processor says.
        """
        return self._frame(first, second)

    @cached_property
    def _frame(self) -> Template:
        return (
            read_template(self.core, self.special_tokens) if self._traits.foreign else template_of(self.special_tokens)
        )

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; special tokens are left out, broken UTF-8 shows as �."""
        text: str = self.core.decode([int(index) for index in ids], skip_special_tokens=True)
        return text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each piece as people would write it, with ▁ for the space before a word."""
        return [self._readable(int(index)) for index in ids]

    def _readable(self, index: int) -> str:
        piece = self._pieces[index]
        if index in self.special_ids:
            return piece
        spelled = self._traits.byte_level and all(char in char_to_byte() for char in piece)
        return (readable(piece) if spelled else piece).replace(" ", "▁")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """For each piece of `encode(text)`, the characters of `text` that it covers, whitespace at its ends aside."""
        return [trim(text, *span) for span in self.core.encode(text, add_special_tokens=False).offsets]

    def word_ids(self, text: str) -> list[int]:
        """For each piece of `encode(text)`, the whitespace word that it belongs to, from 0.

        The words are those of `normalise(text)`; a space belongs to the word after it.
        """
        if self._traits.foreign or self.verbatim:
            return words_of(text, self.core.encode(text, add_special_tokens=False).offsets)
        encoding = self.core.encode(text, add_special_tokens=False)
        normal = self.core.normalizer.normalize_str(text)
        if not self._traits.leading_space:
            return count_spaces(encoding.tokens, start=0)
        if self.kind in BYTE_KINDS:
            return count_spaces(encoding.tokens, start=-1)
        # Unknown words do not spell their space, so these are read off the pre-tokenizer, one piece a word.
        return count_spaces([piece for piece, _ in self.core.pre_tokenizer.pre_tokenize_str(normal)], start=-1)

    def save(self, path: Path | str) -> None:
        """Write `tokenizer.json`, or another file where one is named, whole or not at all."""
        path = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
        written = self.core.to_str(pretty=True)
        if self._traits.foreign:
            written = json.dumps(
                write_special_tokens(describe(self.core), self.special_tokens), indent=2, ensure_ascii=False
            )
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(written, encoding="utf-8")
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote."""
        try:
            written = Path(path).read_text(encoding="utf-8")
            return cls(Core.from_str(written), special_tokens=read_special_tokens(json.loads(written)))
        except FileNotFoundError:
            raise DataError(f"{path}: no such tokenizer file", hint="a run folder keeps it as tokenizer.json") from None
        except DataError as error:
            raise DataError(f"{path}: {error}", hint=error.hint) from None
        except Exception as error:  # the library raises nothing more precise
            raise DataError(f"{path}: cannot be read as a tokenizer ({error})") from error

    def fingerprint(self) -> str:
        """A SHA-256 over everything that decides which ids a text gets."""
        special_tokens = repr(self.special_tokens) if self._traits.foreign else ""
        return hashlib.sha256((self.core.to_str() + special_tokens).encode()).hexdigest()
