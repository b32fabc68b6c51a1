"""Which whitespace word a piece belongs to, and which characters it covers."""

from collections.abc import Iterable, Sequence

from regard.data.text.bytechars import char_to_byte

_SPACES = (" ", next(char for char, byte in char_to_byte().items() if byte == ord(" ")))


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
