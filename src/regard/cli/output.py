"""Where data goes: to standard output, or to a file that is there whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from regard.cli.console import put, say
from regard.errors import UsageError

Put = Callable[[str], None]


@contextmanager
def writing(out: Path | None) -> Iterator[Put]:
    """What takes a line of data. A file takes its place when the block ends well; one that was there is replaced."""
    if out is None:
        yield put
        return
    if out.is_dir():
        raise UsageError(f"--out {out}: is a folder, the name of a file was expected", hint=f"--out {out / 'out.txt'}")
    if out.exists() and not out.is_file():  # a pipe or a device: nothing to be renamed
        with out.open("w", encoding="utf-8", newline="\n", errors="replace") as file:
            yield lambda line: print(line, file=file)
        return
    place = out.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.{token_hex(6)}")
    try:
        with draft.open("w", encoding="utf-8", newline="\n", errors="replace") as file:
            yield lambda line: print(line, file=file)
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)
    say(f"outputs: {out}")
