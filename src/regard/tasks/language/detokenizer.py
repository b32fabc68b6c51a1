"""Ids to text as it is spoken: after what came before, and while it comes.

Some tokenizers spell a piece in one way at the beginning of a text and in another inside it, and a piece may hold half
a character. So a few pieces of the text before are spelled along, and taken off again.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.text.tokenizers import Tokenizer
from regard.tasks.language.stop_strings import cut_at

_OVERLAP = 16  # pieces of the text before that decide how the next ones are spelled


def text_after(tokenizer: Tokenizer, before: Sequence[int], ids: Sequence[int]) -> str:
    """The text of ids that follow others: spelled as it is after them, spaces included."""
    last = list(before[-_OVERLAP:])
    known, whole = tokenizer.decode(last), tokenizer.decode([*last, *ids])
    return whole[len(known) :] if whole.startswith(known) else tokenizer.decode(ids)


class IncrementalDetokenizer:
    """Ids to text while they come: whole characters only, and nothing that may yet be a stop string."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int], stops: Sequence[str]) -> None:
        self.tokenizer, self.before, self.stops = tokenizer, before, stops
        self.ids: list[int] = []
        self.said = 0
        self.over = False

    def add(self, token: int) -> str:
        """What can be said now that this token has come."""
        self.ids.append(token)
        text, self.over = cut_at(text_after(self.tokenizer, self.before, self.ids), self.stops)
        new = self._say(text if self.over else text[: len(text) - self._held(text)])
        if len(self.ids) >= 4 * _OVERLAP and self.said == len(
            text
        ):  # spelling all of it each time would take ever longer
            self.before, self.ids, self.said = self.ids, [], 0
        return new

    def rest(self) -> str:
        """What was held back, when nothing more comes."""
        return self._say(cut_at(text_after(self.tokenizer, self.before, self.ids), self.stops)[0])

    def _held(self, text: str) -> int:
        broken = len(text) - len(text.rstrip("\N{REPLACEMENT CHARACTER}"))
        begun = [n for stop in self.stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
        return max(broken, *begun) if begun else broken

    def _say(self, text: str) -> str:
        new, self.said = text[self.said :], max(self.said, len(text))
        return new
