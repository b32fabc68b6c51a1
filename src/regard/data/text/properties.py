"""What a tokenizer is, read off its own JSON, so that nothing has to be kept beside it.

Ours are told apart by their parts: the model (bpe, unigram, wordpiece, a table), whether a space is put before the
first word, and how text is split. One of ours normalises to NFC, or, where it is verbatim, not at all. What has roles
noted in it was made elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

from regard.data.text.special_tokens import MASK, SPECIALS, SpecialTokens
from regard.errors import DataError

KINDS = ("bpe", "unigram", "wordpiece", "chars", "bytes", "words")
BYTE_KINDS = ("bpe", "unigram", "wordpiece", "bytes")
FOREIGN = "foreign"
EACH_CHARACTER = r"(?m:.)"  # how `chars` splits, line breaks included


class TokenizerProperties:
    """The facts of one tokenizer; `special_tokens` makes it a foreign one, whose parts may be anything."""

    def __init__(self, description: dict[str, Any], *, special_tokens: SpecialTokens | None = None) -> None:
        self.model: str = description["model"]["type"]
        self.foreign = special_tokens is not None
        steps = _steps(description.get("normalizer"))
        self.lowercase = "Lowercase" in steps or _lowercases(description.get("normalizer"))
        self.leading_space = not self.foreign and "Prepend" in steps
        self.verbatim = not self.foreign and steps in ([], ["Lowercase"]) and description["normalizer"] is not None
        # What spells text as bytes says so in the part that undoes it.
        self.byte_level = '"ByteLevel"' in json.dumps(description.get("decoder"))
        self.kind = FOREIGN if special_tokens is not None else self._kind(description.get("pre_tokenizer"))
        if not self.foreign and ((not self.verbatim and "NFC" not in steps) or self.kind not in KINDS):
            raise DataError(
                f"not a tokenizer of regard's making (model {self.model})",
                hint="a tokenizer of another's making needs its roles: Tokenizer.foreign",
            )
        self.special_tokens = special_tokens or SpecialTokens.ours(mask=_has_mask(description))

    def _kind(self, splitter: dict[str, Any] | None) -> str:
        if self.model == "BPE":
            return "bytes" if (splitter or {}).get("type") == "ByteLevel" else "bpe"
        if self.model == "WordLevel":
            pattern = (splitter or {}).get("pattern") or {}
            return "chars" if pattern.get("Regex") == EACH_CHARACTER else "words"
        return self.model.lower()


def _steps(normalizer: dict[str, Any] | None) -> list[str]:
    return [part["type"] for part in (normalizer or {}).get("normalizers") or []]


def _lowercases(normalizer: dict[str, Any] | None) -> bool:
    return bool((normalizer or {}).get("lowercase")) or (normalizer or {}).get("type") == "Lowercase"


def _has_mask(description: dict[str, Any]) -> bool:
    return any(
        (t["content"], t["id"], t["special"]) == (MASK, len(SPECIALS), True) for t in description["added_tokens"]
    )
