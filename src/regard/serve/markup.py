"""HTML as pieces that are translated and pieces that stay as they are.

Tags, comments, scripts and style sheets stay to the letter; what stands between them is text, whose character
references are read before it is translated and written after. Nothing is interpreted: a text that a model writes is
escaped, and cannot become markup.

    pieces("<p>A <b>dog</b> &amp; a cat.</p>")
    [("<p>", False), ("A", True), (" <b>", False), ("dog", True), ("</b> ", False), ("& a cat.", True), ("</p>", False)]
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

Piece = tuple[str, bool]  # what it is, and whether it is translated
_RAW = ("script", "style", "template", "textarea", "code")  # what is in these stays, too
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_SIGNS = re.compile(r"""[>"']""")
_UNTRANSLATED = re.compile(r"""\stranslate\s*=\s*["']?no\b""", re.IGNORECASE)


def pieces(text: str) -> list[Piece]:
    """The pieces of a text, in their order; those that stay are joined."""
    found: list[Piece] = []
    for piece, translated in _parted(text):
        if not translated and found and not found[-1][1]:
            found[-1] = found[-1][0] + piece, False
        else:
            found.append((piece, translated))
    return found


def written(text: str) -> str:
    """A text as HTML."""
    return html.escape(text, quote=False)


def _parted(text: str) -> Iterator[Piece]:
    place = 0
    for begin, end in _markup(text):
        yield from _text(text[place:begin])
        yield text[begin:end], False
        place = end
    yield from _text(text[place:])


def _text(raw: str) -> Iterator[Piece]:
    """A stretch without markup; the white space around it stays, and within it is one blank."""
    inner = raw.strip()
    if not any(sign.isalpha() for sign in html.unescape(inner)):
        if raw:
            yield raw, False
        return
    begin = raw.index(inner)
    if begin:
        yield raw[:begin], False
    yield " ".join(html.unescape(inner).split()), True
    if begin + len(inner) < len(raw):
        yield raw[begin + len(inner) :], False


def _markup(text: str) -> Iterator[tuple[int, int]]:
    """Where markup begins and ends; one that has no end is text."""
    place = 0
    while (begin := text.find("<", place)) >= 0:
        name = _NAME.match(text, begin + 1)
        if text.startswith("<!--", begin):
            end = _after(text, "-->", begin + 4)
        elif name or text[begin + 1 : begin + 2] in ("/", "!", "?"):
            end = _tag_end(text, begin)
        else:  # as in a < b
            place = begin + 1
            continue
        if end < 0:
            return
        if name and (name[0].lower() in _RAW or _UNTRANSLATED.search(text, begin, end)) and text[end - 2] != "/":
            end = _element_end(text, name[0], end)
        yield begin, end
        place = end


def _tag_end(text: str, begin: int) -> int:
    """The place after a tag, whose quotes may hold what looks like its end; −1 where it has none."""
    place = begin + 1
    while (found := _SIGNS.search(text, place)) is not None:
        if found[0] == ">":
            return found.end()
        close = text.find(found[0], found.end())
        if close < 0:
            return -1
        place = close + 1
    return -1


def _element_end(text: str, name: str, place: int) -> int:
    """The place after the end tag of an element; its content, and elements of its name in it, are not looked at."""
    close = re.compile(f"</{name}", re.IGNORECASE | re.ASCII).search(text, place)
    end = -1 if close is None else _tag_end(text, close.start())
    return len(text) if end < 0 else end


def _after(text: str, end: str, place: int) -> int:
    found = text.find(end, place)
    return -1 if found < 0 else found + len(end)
