"""How much plain text there is, of what kind, and which pieces suit it: what plans for texts go by.

size = text_size(files)                 reads the texts through, and keeps the beginning
size.pieces(given)                      characters where a short text has few different ones, else subwords
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.text.documents import Document
from regard.data.text.grams import has_spaces
from regard.tasks.texts import TextFiles
from regard.training.plan import within

_LOOKED_AT = 2**18  # characters that show whether words are kept apart
_FEW = 200  # different characters: an alphabet
_SHORT = 3_000_000  # characters of a text that is read one by one, if they are few
_VOCABULARIES = ((50_000, 512), (500_000, 1_000), (5_000_000, 4_000), (50_000_000, 8_000), (500_000_000, 16_000))


@dataclass(frozen=True, kw_only=True)
class TextSize:
    """What there is to learn from and, `held_…`, to choose by; and how it is written."""

    characters: int
    documents: int
    held_characters: int
    held_documents: int
    all_documents: int  # one that is cut where the held-out part begins counts once
    alphabet: int  # different characters
    spaced: bool  # whether words are kept apart by spaces

    @property
    def all_characters(self) -> int:
        """To learn from and to choose by."""
        return self.characters + self.held_characters

    @property
    def paired(self) -> bool:
        """Whether there is another document for each, on both sides."""
        return min(self.documents, self.held_documents) >= 2

    def pieces(self, given: Mapping[str, Any], *, letters: bool = True) -> dict[str, Any]:
        """The `[tokenizer]` section that suits it, of the kind that is given; `letters`: single ones may do."""
        single = not self.spaced or (letters and self.alphabet <= _FEW)
        kind = given.get("kind") or ("chars" if single and self.characters < _SHORT else "bpe")
        if kind == "chars":
            return {"kind": kind, "size": max(512, self.alphabet + 64)}
        return {"kind": kind, "size": next((size for most, size in _VOCABULARIES if self.characters < most), 32_000)}

    def tokens(self, pieces: Mapping[str, Any]) -> float:
        """About how many such pieces the training text has."""
        if pieces["kind"] in ("chars", "bytes"):
            return max(1.0, self.characters)
        each = within(2.0, 2.0 + (pieces["size"] / 8000) ** 0.4, 4.3) if self.spaced else 1.5
        return max(1.0, self.characters / (5.0 if pieces["kind"] == "words" else each))

    def held_out_share(self, tokens: float, *, most: int) -> float:
        """A tenth, or less of a text that has more than enough to choose by."""
        return round(within(0.001, most / tokens, 0.1), 4)

    def held_tokens(self, tokens: float, share: float) -> float:
        """About how many tokens there are to choose by, if that share is held out."""
        return tokens * min(share, self.held_characters / max(1, self.characters))


def without_shape(model: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A planned `[model]` section; where somebody named a size, nothing of the plan changes its shape."""
    shape = {"d_model", "n_heads", "n_layers", "d_feedforward"} if "size" in given else set()
    return {name: value for name, value in model.items() if name not in shape}


def text_size(files: TextFiles) -> TextSize:
    """Read the texts of a recipe through."""
    count = _Count()
    if files.valid is None:
        assert files.held_out is not None
        for held, document in files.held_out.documents():
            count.add(document, held=held)
    else:
        for document in files.train.documents():
            count.add(document, held=False)
        for document in files.valid.documents():
            count.add(document, held=True)
    return count.size()


class _Count:
    def __init__(self) -> None:
        self.characters, self.documents = [0, 0], [0, 0]
        self.alphabet: set[str] = set()
        self.beginning = ""
        self.cut = 0
        self.last = ("", False)

    def add(self, document: Document, *, held: bool) -> None:
        """One more document, or part of one."""
        self.characters[held] += len(document.text)
        self.documents[held] += not document.more
        self.cut += self.last == (document.where, False) and held  # the part of one that was learnt from
        self.last = (document.where, held)
        self.alphabet.update(document.text)
        self.beginning += document.text[: max(0, _LOOKED_AT - len(self.beginning))]

    def size(self) -> TextSize:
        """What was counted."""
        return TextSize(
            characters=self.characters[False],
            documents=self.documents[False],
            held_characters=self.characters[True],
            held_documents=self.documents[True],
            all_documents=sum(self.documents) - self.cut,
            alphabet=len(self.alphabet),
            spaced=has_spaces([self.beginning]),
        )
