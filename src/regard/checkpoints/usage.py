"""How a model is asked, for those who ask it without regard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """What a task knows of its model's inputs and outputs: ids around a text, ids that never come, how to decode.

    `opening` and `closing` stand around what is read, `banned` is never written; `ends` says that the model may end a
    text itself.
    """

    opening: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()
    banned: tuple[int, ...] = ()
    ends: bool = True
    beam: int = 1
    length_penalty: float = 1.0
    max_length: int = 256
