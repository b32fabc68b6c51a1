"""Which pieces make up which word, and how pieces are shown to people.

pieces   ▁run   ning   ▁home   </s>
words    0      0      1       −1             −1: a mark such as <s>, </s>, [CLS] or [SEP], which stands for no word
shown    run    ·ning  home    </s>           · letters that go on with the word before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.text.tokenizers import Tokenizer

NO_WORD = -1
SPACE = "▁"
_VISIBLE = str.maketrans({"\n": "⏎", "\t": "⇥", "\r": "␍", SPACE: "␣", " ": "␣"})


@dataclass(frozen=True)
class Words:
    """The words that pieces make up: their texts, and for each piece the number of its word, or −1."""

    texts: list[str]
    of_piece: list[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
        """Whitespace words; of a tokenizer of characters, the characters."""
        pieces, special, begin = tokenizer.tokens(ids), _marks(tokenizer), _Beginnings(tokenizer)
        of_piece: list[int] = []
        groups: list[list[int]] = []
        for index, piece in enumerate(pieces):
            if ids[index] in special:
                of_piece.append(NO_WORD)
                continue
            after_mark = not of_piece or of_piece[-1] == NO_WORD
            if after_mark or begin(piece, pieces[index - 1]):
                groups.append([])
            groups[-1].append(index)
            of_piece.append(len(groups) - 1)
        texts = [_text(tokenizer, [ids[i] for i in group], [pieces[i] for i in group]) for group in groups]
        return cls(texts, of_piece)

    def with_mark(self, *, first: bool = False) -> Words:
        """The same with one more place, at the end or at the beginning, that belongs to no word."""
        return Words(self.texts, [NO_WORD, *self.of_piece] if first else [*self.of_piece, NO_WORD])

    def groups(self) -> list[list[int]]:
        """The places of the pieces of each word, in order; a mark is a group of its own."""
        groups: list[list[int]] = []
        for index, word in enumerate(self.of_piece):
            if word == NO_WORD or index == 0 or word != self.of_piece[index - 1]:
                groups.append([])
            groups[-1].append(index)
        return groups


class _Beginnings:
    """Whether a piece begins a word, in the spelling of a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.each = tokenizer.kind in ("chars", "words")
        model = tokenizer.core.model
        wordpiece = tokenizer.kind == "foreign" and type(model).__name__ == "WordPiece"
        self.goes_on: str | None = model.continuing_subword_prefix if wordpiece else None

    def __call__(self, piece: str, before: str) -> bool:
        if self.each:
            return True
        if self.goes_on:
            return not piece.startswith(self.goes_on)
        return piece.startswith((SPACE, "\n")) or before.endswith("\n")


def shown(labels: Sequence[str], words: Words | None) -> list[str]:
    """Labels as people read them: the space before a word left out, pieces that go on with one marked by a dot."""
    if words is None:
        return [label.translate(_VISIBLE) for label in labels]
    texts = []
    for index, (label, word) in enumerate(zip(labels, words.of_piece, strict=True)):
        follows = word != NO_WORD and index > 0 and words.of_piece[index - 1] == word
        bare = label.removeprefix("##") if follows else label.removeprefix(SPACE)
        text = (bare or label).translate(_VISIBLE)
        texts.append(f"·{text}" if follows and text[:1].isalnum() else text)
    return texts


def _marks(tokenizer: Tokenizer) -> set[int]:
    """The ids that stand for no word. A mask does, and so does what is unknown."""
    special = tokenizer.special_tokens
    return {index for index in (special.pad, special.bos, special.eos, special.cls, special.sep) if index is not None}


def _text(tokenizer: Tokenizer, ids: Sequence[int], pieces: Sequence[str]) -> str:
    """A word as people write it; a space alone stays one, and what has no text is shown as its pieces."""
    text = tokenizer.decode(ids)
    return text.strip() or text or "".join(pieces)
