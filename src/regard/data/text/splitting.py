"""Text into sentences, by rules that fit on a page.

    a line break             always ends one, so that files with a sentence a line are read as they are
    " . "  " ! "  " ? "      a mark that stands alone, as in tokenised text (WikiText), ends one; a closing bracket
                             after it belongs to it, and so does a quotation mark that closes one opened before
    "word. Next"             a mark on a word ends one, with the quotes and brackets on it, unless a small letter comes
    "Dr. Who"  "J. Doe"      not after abbreviations, initials, words with a dot inside, nor before any letter came
    。！？                    end one wherever they stand

What is not recognised as an end makes a sentence longer, nothing worse. No text is lost but whitespace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Possessive throughout, and never begun inside a run of marks: no text makes it slow.
_MARK = re.compile(r"(?<![.!?…])[.!?…]++(?:\s++[.!?…]++(?=\s|$))*+[\"'”’»)\]]*+(?=\s|$)|[。！？]++[」』”’）]*+")
_CLOSING = re.compile(r"\s+(?:[)\]”»]|'')(?=\s|$)")
_CLOSING_QUOTE = re.compile(r"\s+\"(?=\s|$)")
_LETTER = re.compile(r"[^\W\d_]")
_NEAR = 64
_WIDE = "。！？"
_OPENING = "\"'“‘«([„‚¿¡"
_ABBREVIATION = re.compile(
    r"mrs?|ms|dr|prof|[sj]r|st|rev|hon|gov|sen|gen|col|maj|capt|cmdr|lt|sgt|adm|mt|ft|ave|blvd|dept|univ|bros|cf|vs|viz|"
    r"ca|approx|hr|fr|bzw|evtl|ggf|inkl|sog|vgl|zzgl|mme|mlle|sra",
    re.IGNORECASE,
)
_BEFORE_NUMBERS = re.compile(
    r"nos?|nr|vols?|figs?|eq|ch|sec|pp?|ed|bd|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec", re.IGNORECASE
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without whitespace at their ends; a text of whitespace has none."""
    return [sentence for line in text.splitlines() for sentence in _sentences(line)]


def split_lines(text: str) -> list[str]:
    """The lines of a text that hold anything, each as one sentence."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for mark in _MARK.finditer(line):
        end = _end(line, mark, start=start)
        if end is not None and (sentence := line[start:end].strip()):
            yield sentence
            start = end
    if rest := line[start:].strip():
        yield rest


def _end(line: str, mark: re.Match[str], *, start: int) -> int | None:
    """Where the sentence ends whose mark this may be; None if it goes on."""
    if mark.start() < start:
        return None
    if mark[0][0] in _WIDE:
        return mark.end()
    # Looking a little way around the mark only keeps the work linear in the text's length.
    before = line[max(start, mark.start() - _NEAR) : mark.start()]
    if before[-1:].isspace():
        return _closed(line, mark.end(), start=start)
    after = line[mark.end() : mark.end() + _NEAR].lstrip()[:2].lstrip(_OPENING)
    if after[:1].islower() or not _LETTER.search(line, start, mark.start()):
        return None
    word = before.rsplit(None, 1)[-1].lstrip(_OPENING)
    return None if mark[0] == "." and _is_short(word, after) else mark.end()


def _closed(line: str, end: int, *, start: int) -> int:
    """The end of a sentence after a mark that stands alone: with what closes a quotation or a bracket."""
    if line.count('"', start, end) % 2 and (quote := _CLOSING_QUOTE.match(line, end)):
        end = quote.end()
    while closing := _CLOSING.match(line, end):
        end = closing.end()
    return end


def _is_short(word: str, after: str) -> bool:
    """Whether a word with a dot on it is an abbreviation, given what comes after it."""
    initial = len(word) == 1 and word.isupper()
    numbered = after[:1].isdigit() and _BEFORE_NUMBERS.fullmatch(word) is not None
    return initial or numbered or "." in word or _ABBREVIATION.fullmatch(word) is not None
