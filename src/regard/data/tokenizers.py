"""Text to ids and back: one class over the `tokenizers` library, six kinds of pieces.

    bpe, unigram, wordpiece   subwords over a byte alphabet: nothing is ever unknown (wordpiece: longest match first)
    bytes                     one id a byte of UTF-8; nothing to learn
    chars, words              one id a character or a word; what training has not seen is <unk>

Ids 0 to 3 are <pad>, <unk>, <s>, </s>. Text is normalised first: NFC, runs of whitespace to one space, none at the
ends, lower case on request; `decode(encode(text)) == normalise(text)` wherever nothing is unknown. In words and
subwords a space belongs to the piece after it, and one is put before the first word so that words look the same
everywhere. Special tokens written out in a text are ordinary characters. Everything is in one `tokenizer.json`, which
the library opens.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer as Core

from regard.data.bytechars import char_to_byte, readable
from regard.errors import DataError

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
KINDS = ("bpe", "unigram", "wordpiece", "chars", "bytes", "words")
BYTE_KINDS = ("bpe", "unigram", "wordpiece", "bytes")


class Tokenizer:
    """Text ↔ ids. Made by `learn_tokenizer` or `Tokenizer.load`."""

    pad_id, unk_id, bos_id, eos_id = range(len(SPECIALS))

    def __init__(self, core: Core) -> None:
        if [core.token_to_id(token) for token in SPECIALS] != list(range(len(SPECIALS))):
            raise DataError(f"this tokenizer does not begin with the special tokens {' '.join(SPECIALS)}")
        core.encode_special_tokens = True  # "<s>" in a text is three characters, not an instruction
        core.no_truncation()
        core.no_padding()
        self.core = core
        self._facts = _Facts(json.loads(core.to_str()))
        self._pieces: list[str] = [core.id_to_token(index) or "" for index in range(core.get_vocab_size())]

    @property
    def kind(self) -> str:
        """Which of `KINDS` this is."""
        return self._facts.kind

    @property
    def lowercase(self) -> bool:
        """Whether text is put in lower case first."""
        return self._facts.lowercase

    @property
    def size(self) -> int:
        """The number of ids, special tokens included."""
        return len(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    def normalise(self, text: str) -> str:
        """The text as the pieces will spell it, which is what decoding gives back."""
        normal: str = self.core.normalizer.normalize_str(text)
        return normal.removeprefix(" ")  # the ends were stripped: a space in front is the one we put there

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts at once, on all cores."""
        return [encoding.ids for encoding in self.core.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; special tokens are left out, broken UTF-8 shows as �."""
        text: str = self.core.decode([int(index) for index in ids], skip_special_tokens=True)
        return text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each piece as people would write it, with ▁ for the space before a word."""
        return [self._readable(int(index)) for index in ids]

    def _readable(self, index: int) -> str:
        piece = self._pieces[index]
        if index < len(SPECIALS):
            return piece
        return (readable(piece) if self.kind in BYTE_KINDS else piece).replace(" ", "▁")

    def word_ids(self, text: str) -> list[int]:
        """For each piece of `encode(text)`, the whitespace word that it belongs to, from 0.

        The words are those of `normalise(text)`; a space belongs to the word after it.
        """
        encoding = self.core.encode(text, add_special_tokens=False)
        normal = self.core.normalizer.normalize_str(text)
        if not self._facts.leading_space:
            return _count_spaces(encoding.tokens, start=0)
        if self.kind in BYTE_KINDS:
            return _count_spaces(encoding.tokens, start=-1)
        # Unknown words do not spell their space, so these are read off the pre-tokenizer, one piece a word.
        return _count_spaces([piece for piece, _ in self.core.pre_tokenizer.pre_tokenize_str(normal)], start=-1)

    def save(self, path: Path | str) -> None:
        """Write `tokenizer.json`, whole or not at all."""
        path = Path(path)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(self.core.to_str(pretty=True), encoding="utf-8")
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote."""
        try:
            return cls(Core.from_str(Path(path).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise DataError(f"{path}: no such tokenizer file", hint="a run folder keeps it as tokenizer.json") from None
        except DataError as error:
            raise DataError(f"{path}: {error}", hint=error.hint) from None
        except Exception as error:  # the library raises nothing more precise
            raise DataError(f"{path}: cannot be read as a tokenizer ({error})") from error

    def fingerprint(self) -> str:
        """A SHA-256 over everything that decides which ids a text gets."""
        return hashlib.sha256(self.core.to_str().encode()).hexdigest()


class _Facts:
    """What our tokenizers differ in, read off their own JSON, so that no second file is needed."""

    def __init__(self, description: dict[str, Any]) -> None:
        parts = (description.get("normalizer") or {}).get("normalizers") or []
        steps = {part["type"] for part in parts}
        self.lowercase = "Lowercase" in steps
        self.leading_space = "Prepend" in steps
        self.kind = self._kind(description["model"]["type"])
        if "NFC" not in steps or self.kind not in KINDS:
            raise DataError(f"not a tokenizer of regard's making (model {description['model']['type']})")

    def _kind(self, model: str) -> str:
        if model == "BPE":
            return "bpe" if self.leading_space else "bytes"
        if model == "WordLevel":
            return "words" if self.leading_space else "chars"
        return model.lower()


_SPACES = (" ", next(char for char, byte in char_to_byte().items() if byte == ord(" ")))


def _count_spaces(pieces: Iterable[str], *, start: int) -> list[int]:
    word, words = start, []
    for piece in pieces:
        word += piece.startswith(_SPACES)
        words.append(word)
    return words
