"""Bytes to text, whatever a stranger's program wrote: which encoding a file has, told from its bytes.

    with open_text("reviews.csv") as text:
        for line in text: ...
        text.note                       "reviews.csv: read as Windows-1252", or None where it is UTF-8

In this order: a magic number (a PDF, a workbook) is refused by its name; a byte-order mark; UTF-16 without one, by its
zero bytes; UTF-8, where the bytes are that; Windows-1252 (of which Latin-1 text is a part), where they read as Western
text. Everything else is an error that says what was seen. ASCII fits all, so nothing is decided before the first byte
that is not: a file is read once, from front to back, and memory holds a block and a line.

A line ends at "\\n", a "\\r" before it goes with it; a lone "\\r" is an ordinary character, so that the lines of two
parallel files stay together. Only where the first block holds "\\r" and no "\\n" at all does a line end there.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from regard.data.io.lines import BOM, LONGEST_LINE, display_name, long_line, open_bytes
from regard.errors import DataError, UsageError

BLOCK = 1 << 18
Line = tuple[str, bool]  # without its ending, and whether it had one


@dataclass(frozen=True)
class Encoding:
    """A codec by Python's name, what people call it, and how many bytes of a byte-order mark come first."""

    codec: str
    title: str
    mark: int = 0


UTF_8 = Encoding("utf-8", "UTF-8")
WINDOWS_1252 = Encoding("cp1252", "Windows-1252")
UTF_16_LE = Encoding("utf-16-le", "UTF-16 (little-endian)")
UTF_16_BE = Encoding("utf-16-be", "UTF-16 (big-endian)")

_MARKED = (
    (BOM, Encoding("utf-8", "UTF-8", 3)),
    (b"\xff\xfe", Encoding("utf-16-le", "UTF-16 (little-endian)", 2)),
    (b"\xfe\xff", Encoding("utf-16-be", "UTF-16 (big-endian)", 2)),
)
_SAVE_TABLE = "save it as CSV"
_SAVE_TEXT = "save it as plain text"
_UNPACK = "unpack it first"
_MAGIC = (  # first bytes, what they belong to, what to do
    (b"%PDF-", "a PDF document", _SAVE_TEXT),
    (b"{\\rtf", "an RTF document", _SAVE_TEXT),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel workbook or Word document", "save it as CSV or plain text"),
    (b"PAR1", "a Parquet table", "give it a name that ends in .parquet"),
    (b"ARROW1", "an Arrow table", "save it as Parquet or CSV"),
    (b"SQLite format 3\0", "an SQLite database", "export the table as CSV"),
    (b"\x93NUMPY", "a NumPy array", _SAVE_TABLE),
    (b"\x89HDF\r\n", "an HDF5 file", "save it as CSV or Parquet"),
    (b"BZh", "bzip2 data", "unpack it first: bunzip2 FILE"),
    (b"\xfd7zXZ\0", "xz data", "unpack it first: unxz FILE"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "unpack it first: unzstd FILE"),
    (b"\x1f\x8b", "gzip data inside gzip data", "unpack it once: gunzip FILE"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!", "a RAR archive", _UNPACK),
    (b"\x89PNG", "a PNG image", "a text file was expected"),
    (b"\xff\xd8\xff", "a JPEG image", "a text file was expected"),
    (b"GIF8", "a GIF image", "a text file was expected"),
    (b"RIFF", "a WAV recording or another RIFF file", "a text file was expected"),
    (b"fLaC", "a FLAC recording", "a text file was expected"),
    (b"OggS", "an Ogg recording", "a text file was expected"),
    (b"ID3", "an MP3 recording", "a text file was expected"),
    (b"\xff\xfe\0\0", "UTF-32 text", "convert it: iconv -f UTF-32 -t UTF-8 FILE"),
    (b"\0\0\xfe\xff", "UTF-32 text", "convert it: iconv -f UTF-32 -t UTF-8 FILE"),
)
_WORDS = (b"BZh", b"RIFF", b"ID3", b"GIF8", b"PAR1", b"Rar!", b"OggS", b"fLaC", b"ARROW1")  # a text may begin so too
_PACKED = (  # what a ZIP archive holds, if it is a document
    (b"xl/", "an Excel workbook", _SAVE_TABLE),
    (b"opendocument.spreadsheet", "an OpenDocument spreadsheet", _SAVE_TABLE),
    (b"word/", "a Word document", _SAVE_TEXT),
    (b"opendocument.text", "an OpenDocument text", _SAVE_TEXT),
    (b"[Content_Types].xml", "an Office document", "save it as CSV or plain text"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a\x1b"))
_HIGH = bytes(range(128, 256))
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SEQUENCE = re.compile(rb"[\xc2-\xde][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")  # \xdf is ß
_LONG_RUN = re.compile(rb"[\x80-\xff]{4,}")
# Signs that no Western text puts inside a word; ‘ ’ ´ · – — and the soft hyphen may stand there, and so may letters.
_SIGN = re.compile(
    rb"(?<=[A-Za-z])[\x80-\x82\x84-\x89\x8b\x8d\x8f\x90\x93-\x95\x98\x99\x9b\x9d\xa1-\xac\xae-\xb3\xb5\xb6\xb8-\xbf](?=[a-z])"
)
_UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # bytes that Windows-1252 has no character for
_ANY_BREAK = re.compile(r"\r\n|\r|\n")


class _LongLine(Exception):  # noqa: N818 - never leaves this file
    pass


class _Undecodable(Exception):  # noqa: N818 - never leaves this file
    def __init__(self, byte: int, offset: int) -> None:
        self.byte, self.offset = byte, offset


@contextmanager
def open_text(path: Path | str, *, encoding: str | None = None) -> Iterator[TextLines]:
    """The lines of a file, or of standard input for "-"; gzip is undone. `encoding`, if given, is believed."""
    with open_bytes(path) as stream:
        yield TextLines(stream, name=display_name(path), encoding=encoding)


class TextLines:
    """The lines of a stream, decoded; they can be gone through once.

    `encoding` is what is known so far: UTF-8 until a byte says otherwise. Ask for it, or for `note`, at the end.
    """

    def __init__(self, stream: BinaryIO, *, name: str, encoding: str | None = None) -> None:
        self.name = name
        self.encoding = UTF_8 if encoding is None else known_encoding(encoding)
        self._open = encoding is None  # whether the encoding is still to be told
        self._read = getattr(stream, "read1", stream.read)  # what is there: a pipe is not waited for

    @property
    def note(self) -> str | None:
        """What to tell the user: how the file was read, where that is not UTF-8."""
        return None if self.encoding.codec.startswith("utf-8") else f"{self.name}: read as {self.encoding.title}"

    def __iter__(self) -> Iterator[str]:
        return self.lines()

    def lines(self, *, ends: bool = False) -> Iterator[str]:
        """Every line without its ending, or with "\\n" for one if `ends`; an empty file gives none."""
        number = 0
        try:
            for number, (line, ended) in enumerate(_split(self._texts()), start=1):
                if "\0\0" in line:
                    message = f"{self.name}:{number}: holds zero bytes in a row, and text has none"
                    raise DataError(message, hint="the file may be damaged; fetch it again")
                yield line + "\n" if ends and ended else line
        except _Undecodable as bad:
            raise self._undecodable(bad, number + 1) from None
        except _LongLine:
            raise long_line(f"{self.name}:{number + 1}") from None

    def _texts(self) -> Iterator[str]:
        """The stream in blocks of text; the text before bytes that cannot be decoded still comes."""
        block = self._first()
        offset, decoder = self.encoding.mark, None
        while True:
            if decoder is None and self._open and not block.isascii():
                block = self._tell(block)
            if decoder is None and not self._open:
                decoder = codecs.getincrementaldecoder(self.encoding.codec)()
            if decoder is None:  # all encodings that are still possible agree on ASCII
                yield block.decode("ascii")
            else:
                held = len(decoder.getstate()[0])  # bytes of a character that the block before began
                try:
                    yield decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    yield error.object[: error.start].decode(self.encoding.codec)
                    raise _Undecodable(error.object[error.start], offset - held + error.start) from None
            offset += len(block)
            if not block:
                return
            block = self._read(BLOCK)

    def _first(self) -> bytes:
        """The first block without its byte-order mark, and what it tells."""
        block: bytes = self._read(BLOCK)
        while 0 < len(block) < 16 and not _plain(block) and (more := self._read(BLOCK)):
            block += more  # too few bytes of something that is not plain text to tell what it is
        if self._open and (told := _by_marks(block, name=self.name)) is not None:
            self.encoding, self._open = told, False
        return block[self.encoding.mark :]

    def _tell(self, block: bytes) -> bytes:
        """Decide by the first block that is not all ASCII; by the next one too if this may end within a character."""
        late = block[:-4].isascii()
        more = self._read(BLOCK) if late else b""
        self.encoding, self._open = _by_bytes(block + more, complete=late and not more, name=self.name), False
        return block + more

    def _undecodable(self, bad: _Undecodable, line: int) -> DataError:
        byte = f"byte 0x{bad.byte:02X} at offset {bad.offset} of the text"
        message = f"{self.name}:{line}: not {self.encoding.title} ({byte}), as the file is otherwise"
        codec = self.encoding.codec.removesuffix("-sig").upper()
        return DataError(message, hint=f"leave out what does not fit: iconv -c -f {codec} -t UTF-8 FILE")


def known_encoding(name: str) -> Encoding:
    """An encoding by the name a user gives: any that Python decodes text with."""
    try:
        info = codecs.lookup(name)
        "a".encode(info.name)
    except (LookupError, ValueError):
        hint = "common ones are utf-8, utf-16, cp1252, cp1251, shift_jis, gbk"
        raise UsageError(f"encoding '{name}' is not known", hint=hint) from None
    return Encoding("utf-8-sig" if info.name == "utf-8" else info.name, name)


def detect_encoding(head: bytes, *, name: str, complete: bool = False) -> Encoding | None:
    """The encoding of a file that begins with these bytes; None if they are ASCII, which can still become anything.

    What is no text is a DataError that says what it looks like. `complete` says that the file ends with these bytes.
    """
    told = _by_marks(head, name=name)
    return told if told is not None or head.isascii() else _by_bytes(head, complete=complete, name=name)


def _by_marks(head: bytes, *, name: str) -> Encoding | None:
    looks = binary_format(head)
    if looks is not None:
        kind, remedy = looks
        raise DataError(f"{name}: is no text; it looks like {kind}", hint=remedy)
    for mark, encoding in _MARKED:
        if head.startswith(mark):
            return encoding
    return _by_zeros(head, name=name) if b"\0" in head else None


def binary_format(head: bytes) -> tuple[str, str] | None:
    """What a file that begins with these bytes looks like and what to do about it, if it is known to be no text."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        held = ((kind, remedy) for sign, kind, remedy in _PACKED if sign in head)
        return next(held, ("a ZIP archive", "unpack it first: unzip FILE"))
    for magic, kind, remedy in _MAGIC:
        if head.startswith(magic) and not (magic in _WORDS and _plain(head)):
            return kind, remedy
    return None


def _plain(sample: bytes) -> bool:
    return sample.isascii() and sample.translate(None, _CONTROLS) == sample


def _by_zeros(head: bytes, *, name: str) -> Encoding | None:
    """UTF-16 without a mark: in one half of its characters zeros are common, in the other there are none.

    A zero here and there is an odd character of a text that is to be told by other bytes.
    """
    even, odd = head[0::2].count(0), head[1::2].count(0)
    encoding = UTF_16_LE if odd > even else UTF_16_BE
    common, rare, half = max(even, odd), min(even, odd), len(head) // 2
    few = b"\0\0" not in head and head.count(0) * 16 <= len(head)
    if common * 20 >= half and rare * 200 <= half and not (few and _decoded(head, "utf-8") is not None):
        text = (_decoded(head, encoding.codec) or "\0").encode("utf-8")
        if text.translate(None, _CONTROLS) == text:
            return encoding
    if few:
        return None
    message = f"{name}: is no text; it looks like binary data (zero byte at offset {head.index(0)})"
    raise DataError(message, hint="a text file was expected, in UTF-8")


def _decoded(head: bytes, codec: str) -> str | None:
    """The text of bytes that may end in the middle of a character; None where they are not of this encoding."""
    try:
        return codecs.getincrementaldecoder(codec)().decode(head)
    except UnicodeDecodeError:
        return None


def _by_bytes(sample: bytes, *, complete: bool, name: str) -> Encoding:
    """UTF-8 or Windows-1252, by bytes that are not all ASCII. Where both are mixed UTF-8 it is: its reader objects."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=complete)
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(sample) - error.start > 1:
            return UTF_8  # a file that was cut short within a character
        rest = _SEQUENCE.sub(b"", sample)
        mixed = (len(sample) - len(rest)) * 10 >= len(sample) - len(sample.translate(None, _HIGH))
        doubt = _doubt(rest)
        if doubt is None:
            return UTF_8 if mixed else WINDOWS_1252
        where = f"byte 0x{sample[error.start]:02X} at offset {error.start}"
        message = f"{name}: neither UTF-8 nor Windows-1252 ({where}); it looks like {doubt}"
        raise DataError(
            message, hint="if it is text, convert it from what it is: iconv -f CP1251 -t UTF-8 FILE"
        ) from None
    return UTF_8


def _doubt(sample: bytes) -> str | None:
    """Why these bytes are no Western text in one byte a character; None if nothing speaks against it."""
    if len(sample.translate(None, _CONTROLS)) * 100 < len(sample) * 99:
        return "binary data"
    high = len(sample) - len(sample.translate(None, _HIGH))
    letters = len(sample) - len(sample.translate(None, _LETTERS))
    runs = sum(map(len, _LONG_RUN.findall(sample)))
    signs = len(_SIGN.findall(sample))
    crowded = high >= 8 and high * 10 > 6 * (high + letters)
    if _UNDEFINED.search(sample) or crowded or runs * 10 > high or signs * 10 > high:
        return "text in an older encoding of another language"
    return None


def _split(texts: Iterator[str]) -> Iterator[Line]:
    """Lines of text that comes in blocks."""
    first = next(texts, "")
    if "\r" in first[:-1] and "\n" not in first:
        yield from _split_any(first, texts)
        return
    begun: list[str] = []  # pieces of a line that has not ended yet
    length = 0
    text: str | None = first
    while text is not None:
        *whole, rest = text.split("\n")
        for line in whole:
            if begun:
                line, begun = "".join([*begun, line]), []
            yield (line.removesuffix("\r"), True)
        length = len(rest) if whole else length + len(rest)
        if length > LONGEST_LINE:
            raise _LongLine
        if rest:
            begun.append(rest)
        text = next(texts, None)
    if begun:
        yield ("".join(begun).removesuffix("\r"), False)


def _split_any(first: str, texts: Iterator[str]) -> Iterator[Line]:
    """Lines of a file that ends them with "\\r", as old Macintosh programs did."""
    rest, text = "", first
    while True:
        text = rest + text
        held = text.endswith("\r")  # a "\n" may follow in the next block
        *whole, rest = _ANY_BREAK.split(text[:-1] if held else text)
        yield from ((line, True) for line in whole)
        rest += "\r" * held
        if len(rest) > LONGEST_LINE:
            raise _LongLine
        following = next(texts, None)
        if following is None:
            break
        text = following
    if rest:
        yield (rest.removesuffix("\r"), rest.endswith("\r"))
