"""Which tokens of a text make up which word, for any tokenizer: read off the text as it grows token by token."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.text.tokenizers import Tokenizer

_BROKEN = "\N{REPLACEMENT CHARACTER}"


def word_groups(tokenizer: Tokenizer, ids: Sequence[int]) -> list[tuple[str, list[int]]]:
    """The words of a text with the places of their tokens.

    A token belongs to the word that it ends in, and a space to the word after it. Tokens that spell nothing, as the
    first half of a character does, go with those that follow.
    """
    found: list[tuple[str, list[int]]] = []
    waiting: list[int] = []
    before = ""
    for place in range(len(ids)):
        text = tokenizer.decode(ids[: place + 1])
        waiting.append(place)
        if text.endswith(_BROKEN) and place + 1 < len(ids):
            continue
        new = text[len(before) :] if text.startswith(before) else text
        begins = not found or new[:1].isspace() or before[-1:].isspace()
        if new.strip() and begins:
            found.append((new.strip(), waiting))
            waiting = []
        elif new.strip():
            word, places = found[-1]
            found[-1] = (word + new.strip(), places + waiting)
            waiting = []
        elif not new and found:
            found[-1][1].extend(waiting)
            waiting = []
        before = text
    return found
