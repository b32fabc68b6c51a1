"""What `regard predict` is asked about: texts, lines, or files, of which a folder and a pattern name many.

    Inputs.of(predictor, ["a.wav", "talks/", "*.flac"], say=say) an input a file, each called by its path
    Inputs.of(predictor, ["A text."], say=say)                   a text is what it says, also where a file is called so
    Inputs.of(predictor, [], lines="in.txt", say=say)            an input a line; "-" is standard input

What a word cannot be made into is kept as an input with its problem, so that the others are predicted all the same.
"""

from __future__ import annotations

import glob
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from regard.errors import DataError, RegardError

CHUNK, FILES = 512, 64  # texts, and files, that are predicted for at a time, at most
Say = Callable[[str], None]
_SHOWN = 40  # characters of a text that is named by itself


@dataclass(frozen=True)
class Given:
    """One input, what messages call it, what JSON calls it, and why it cannot be one, where that is known already."""

    value: str
    name: str
    told: str
    problem: RegardError | None = None

    def because(self, problem: RegardError) -> Given:
        """The same, refused."""
        return replace(self, problem=problem)


@dataclass(frozen=True)
class Inputs:
    """Inputs one after the other, `total` of them where that is known, and how many are taken at a time, at most.

    `files` says that they are files, `alone` that one was named and nothing else, `typed` that a person types them.
    """

    each: Iterable[Given]
    total: int | None
    chunk: int
    files: bool = False
    alone: bool = False
    typed: bool = False

    @classmethod
    def of(cls, predictor: Any, words: Sequence[str], *, say: Say, lines: str | None = None) -> Inputs:
        """The inputs that a predictor is given as words of the command line, else as the lines of a file."""
        files = bool(predictor.suffixes)
        if not words:
            return cls._of_lines(lines or "-", predictor, say)
        if not files:
            each = [Given(text, repr(_shown(text)), text) for text in words]
            for text in words:
                _remark_on_files(text, say)
        else:
            each = [one for word in words for one in _files_of(word, predictor)]
        alone = len(words) == 1 == len(each) and each[0].value == words[0]
        return cls(each, len(each), FILES if files else CHUNK, files=files, alone=alone)

    @classmethod
    def _of_lines(cls, path: str, predictor: Any, say: Say) -> Inputs:
        from regard.data.io.lines import STDIN, display_name, stream_lines

        files = bool(predictor.suffixes)
        typed = path == STDIN and sys.stdin.isatty()
        if typed:
            say(f"one {'path' if files else 'text'} a line; Ctrl-D ends")
        lines = stream_lines(path, say=say)
        if files:
            each = (one for line in lines if line.strip() for one in _files_of(line, predictor))
        else:
            each = (Given(line, f"{display_name(path)}:{number}", line) for number, line in enumerate(lines, start=1))
        return cls(each, None, 1 if typed else FILES if files else CHUNK, files=files, typed=typed)

    def listed(self) -> Inputs:
        """The same with all of them known at once."""
        each = list(self.each)
        return replace(self, each=each, total=len(each))

    def changed(self, change: Callable[[Iterable[Given]], Iterable[Given]]) -> Inputs:
        """The same with every input changed, such as into a prompt."""
        return replace(self, each=change(self.each))

    def chunks(self) -> Iterator[list[Given]]:
        """All inputs, some at a time: few at first, so that the first outputs come soon."""
        stream, size = iter(self.each), max(1, self.chunk // 8)
        while some := list(islice(stream, size)):
            yield some
            size = min(2 * size, self.chunk)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _remark_on_files(text: str, say: Say) -> None:
    """A person who names a file wants its lines, most likely."""
    try:
        if not text or not Path(text).is_file():
            return
    except (OSError, ValueError):  # too long for a name, or no name at all
        return
    say(f"{text} is taken as a text; to read the lines of the file: --input {text}")


def _files_of(word: str, predictor: Any) -> list[Given]:
    """The files that a path stands for: itself, those of a folder, or those that fit a pattern."""
    path = Path(word)
    try:
        if path.is_dir():
            return _inside(path, word, predictor)
        if not glob.has_magic(word) or path.exists():
            return [_file(word)]
        found = sorted(glob.glob(word, recursive=True))
    except (OSError, ValueError):  # what is wrong with the name, its reader says
        return [_file(word)]
    if not found:
        return [_file(word).because(DataError(f"{word}: there is no file whose name fits this pattern"))]
    return [one for name in found for one in (_files_of(name, predictor) if Path(name).is_dir() else [_file(name)])]


def _inside(folder: Path, word: str, predictor: Any) -> list[Given]:
    found = predictor.files_in(folder)
    if found:
        return [_file(name) for name in found]
    endings = ", ".join(predictor.suffixes)
    problem = DataError(f"{word}: there is no file in this folder that ends in {endings}")
    return [_file(word).because(problem)]


def _file(name: str) -> Given:
    return Given(name, name, name)
