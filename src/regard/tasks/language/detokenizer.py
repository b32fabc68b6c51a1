"""Ids to text as it is spoken: after what came before, and while it comes.

Some tokenizers spell a piece in one way at the beginning of a text and in another inside it, and a piece may hold half
a character. So a few pieces of the text before are spelled along, and taken off again.

Stop strings: a continuation is over where it says one of them.

A string may begin and end inside pieces, so it is looked for in the text, not among the ids. `StoppingStepper` stands
between decoding and a model's stepper: it reads along, and once a row has said a stop string, the only token left to
that row is the end mark. So every way of decoding knows stop strings, and rows that are over leave the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.text.tokenizers import Tokenizer
from regard.decoding import Stepper

_OVERLAP = 16  # pieces of the text before that decide how the next ones are spelled


def text_after(tokenizer: Tokenizer, before: Sequence[int], ids: Sequence[int]) -> str:
    """The text of ids that follow others: spelled as it is after them, spaces included."""
    last = list(before[-_OVERLAP:])
    return _behind(tokenizer, last, tokenizer.decode(last), ids)


def _behind(tokenizer: Tokenizer, last: Sequence[int], known: str, ids: Sequence[int]) -> str:
    """The same, where the last ids before and their text are known."""
    whole = tokenizer.decode([*last, *ids])
    return whole[len(known) :] if whole.startswith(known) else tokenizer.decode(ids)


class IncrementalDetokenizer:
    """Ids to text while they come: whole characters only, and nothing that may yet be a stop string."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int], stops: Sequence[str]) -> None:
        self.tokenizer, self.stops = tokenizer, stops
        self._follow(before)
        self.ids: list[int] = []
        self.n_shown = self.n_tokens = 0
        self.over = False

    def add(self, tokens: Sequence[int]) -> str:
        """What can be said now that these tokens have come; of those, the first up to a stop string count."""
        text, self.over = self._text([*self.ids, *tokens])
        if self.over:
            tokens = self._up_to_stop(tokens)
        self.ids += tokens
        self.n_tokens += len(tokens)
        new = self._say(text if self.over else text[: len(text) - self._held(text)])
        # Spelling all of it each time would take ever longer.
        if len(self.ids) >= 4 * _OVERLAP and self.n_shown == len(text):
            self._follow(self.ids)
            self.ids, self.n_shown = [], 0
        return new

    def take(self, tokens: Sequence[int]) -> int | None:
        """How many of these tokens count, where a stop string is complete with them; None where none is yet."""
        before = self.n_tokens
        self.add(tokens)
        return self.n_tokens - before if self.over else None

    def rest(self) -> str:
        """What was held back, when nothing more comes."""
        return self._say(self._text(self.ids)[0])

    def _text(self, ids: Sequence[int]) -> tuple[str, bool]:
        return cut_at(_behind(self.tokenizer, self._last, self._known, ids), self.stops)

    def _follow(self, before: Sequence[int]) -> None:
        self._last = list(before[-_OVERLAP:])
        self._known = self.tokenizer.decode(self._last)

    def _up_to_stop(self, tokens: Sequence[int]) -> Sequence[int]:
        n = next(n for n in range(1, len(tokens) + 1) if self._text([*self.ids, *tokens[:n]])[1])
        return tokens[:n]

    def _held(self, text: str) -> int:
        broken = len(text) - len(text.rstrip("\N{REPLACEMENT CHARACTER}"))
        begun = [n for stop in self.stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
        return max(broken, *begun) if begun else broken

    def _say(self, text: str) -> str:
        new, self.n_shown = text[self.n_shown :], max(self.n_shown, len(text))
        return new


def cut_at(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text before the first stop string, and whether there is one."""
    places = [index for index in (text.find(stop) for stop in stops) if index >= 0]
    return (text[: min(places)], True) if places else (text, False)


class StoppingStepper:
    """A stepper whose rows end after a stop string. `written` holds what each row wrote before."""

    def __init__(
        self,
        stepper: Stepper,
        *,
        tokenizer: Tokenizer,
        stops: Sequence[str],
        eos_id: int,
        written: Sequence[Sequence[int]],
    ) -> None:
        self.stepper, self.tokenizer, self.stops, self.eos_id = stepper, tokenizer, tuple(stops), eos_id
        # Every piece spells a byte at least; what was written before these was looked at before.
        self._tail = max(len(stop.encode()) for stop in stops) + 8
        self._written = [list(ids[-self._tail :]) for ids in written]
        self._begun = False

    @property
    def device(self) -> torch.device:
        """The model's."""
        return self.stepper.device

    def step(self, tokens: Tensor) -> Tensor:
        """The model's logits (N, V), but for rows that are over, which can only end."""
        logits = self.stepper.step(tokens)
        if not self._begun:  # these are the last tokens of the prompts
            self._begun = True
            return logits
        for ids, token in zip(self._written, tokens.tolist(), strict=True):
            ids.append(token)
            del ids[: -self._tail]
        over = [cut_at(self.tokenizer.decode(ids), self.stops)[1] for ids in self._written]
        if any(over):
            ending = torch.full_like(logits[0], -torch.inf)
            ending[self.eos_id] = 0.0
            logits = torch.where(torch.tensor(over, device=logits.device)[:, None], ending, logits)
        return logits

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        self._written = [list(self._written[row]) for row in rows.tolist()]
        self.stepper.select(rows, same_source=same_source)

    def attention(self) -> Tensor | None:
        """What the model's own stepper offers."""
        offer = getattr(self.stepper, "attention", None)
        weights: Tensor | None = offer() if callable(offer) else None
        return weights
