"""Where data goes: to standard output, or to a file that is there whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from regard.cli.console import put, say
from regard.errors import UsageError

Put = Callable[[str], None]


@contextmanager
def writing(out: Path | None) -> Iterator[Put]:
    """What takes a line of data. A file takes its place when the block ends well; one that was there is replaced."""
    if out is None:
        yield put
        return
    _refuse_folder(out)
    if out.exists() and not out.is_file():  # a pipe or a device: nothing to be renamed
        with out.open("w", encoding="utf-8", newline="\n", errors="replace") as file:
            yield lambda line: print(line, file=file)
        return
    with _draft(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", errors="replace")
        yield lambda line: print(line, file=text)
        text.flush()
        text.detach()


@contextmanager
def writing_bytes(out: Path) -> Iterator[Callable[[bytes], object]]:
    """What takes bytes for a file that takes its place when the block ends well."""
    _refuse_folder(out)
    with _draft(out) as file:
        yield file.write


@contextmanager
def _draft(out: Path) -> Iterator[BinaryIO]:
    """A file that takes its place when the block ends well; one that was there is replaced."""
    place = out.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.{token_hex(6)}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)
    say(f"outputs: {out}")


def _refuse_folder(out: Path) -> None:
    if out.is_dir():
        raise UsageError(f"--out {out}: is a folder, the name of a file was expected", hint=f"--out {out / 'out.txt'}")
