"""Bytes to lines: which encoding hand-made files are told to have, and what is said about those that are no text."""

import gzip
import io
import random
import zipfile

import pytest

from regard.data.io import encoding as module
from regard.data.io.encoding import TextLines, detect_encoding, known_encoding, open_text
from regard.errors import DataError, UsageError

GERMAN = "Größe;Maß\nÄpfel – „süß“;1,5 €\n"
LATIN = "Größe;Maß\nÄpfel, süß;1,5\n"
FRENCH = "L’été, c’était déjà bien ; un œuf à 2 €.\nÇa, où ?\n"
POLISH = "Zażółć gęślą jaźń, proszę bardzo\nŁódź leży nad rzeką\n"
RUSSIAN = "Широкая электрификация южных губерний\nдаст мощный толчок\n"
JAPANESE = "これはペンです。\n彼は学生です。\n"
EMOJI = "fine 👍🏽\n🇩🇪;é\n"
BOM8, BOM_LE, BOM_BE = b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"

READ = {  # name: (bytes, codec, lines)
    "empty": (b"", "utf-8", []),
    "a mark and nothing else": (BOM8, "utf-8", []),
    "one line without an end": (b"one", "utf-8", ["one"]),
    "one empty line": (b"\n", "utf-8", [""]),
    "LF": (b"a\n\nb\n", "utf-8", ["a", "", "b"]),
    "CRLF": (b"a\r\n\r\nb\r\n", "utf-8", ["a", "", "b"]),
    "CR": (b"a\r\rb\r", "utf-8", ["a", "", "b"]),
    "CR without a last one": (b"a\rb", "utf-8", ["a", "b"]),
    "a lone CR among LF is a character": (b"a\rb\nc\n", "utf-8", ["a\rb", "c"]),
    "one CR at the end": (b"one\r", "utf-8", ["one"]),
    "other separators are characters": ("a\u2028b\x0bc\x85d\n".encode(), "utf-8", ["a\u2028b\x0bc\x85d"]),
    "UTF-8": (GERMAN.encode(), "utf-8", GERMAN.splitlines()),
    "UTF-8 with a mark": (BOM8 + GERMAN.encode(), "utf-8", GERMAN.splitlines()),
    "emoji": (EMOJI.encode(), "utf-8", EMOJI.splitlines()),
    "Japanese in UTF-8": (JAPANESE.encode(), "utf-8", JAPANESE.splitlines()),
    "UTF-16 LE with a mark": (BOM_LE + GERMAN.encode("utf-16-le"), "utf-16-le", GERMAN.splitlines()),
    "UTF-16 BE with a mark": (BOM_BE + GERMAN.encode("utf-16-be"), "utf-16-be", GERMAN.splitlines()),
    "UTF-16 LE without": (GERMAN.encode("utf-16-le"), "utf-16-le", GERMAN.splitlines()),
    "UTF-16 BE without": (GERMAN.encode("utf-16-be"), "utf-16-be", GERMAN.splitlines()),
    "UTF-16 CRLF": (BOM_LE + "a\r\nb\r\n".encode("utf-16-le"), "utf-16-le", ["a", "b"]),
    "UTF-16 emoji": (BOM_BE + EMOJI.encode("utf-16-be"), "utf-16-be", EMOJI.splitlines()),
    "UTF-16 Japanese with a mark": (BOM_LE + JAPANESE.encode("utf-16-le"), "utf-16-le", JAPANESE.splitlines()),
    "UTF-16 where 0A0A is a character": (BOM_LE + "a\u0a0ab\n".encode("utf-16-le"), "utf-16-le", ["a\u0a0ab"]),
    "Windows-1252, German": (GERMAN.encode("cp1252"), "cp1252", GERMAN.splitlines()),
    "Latin-1, German": (LATIN.encode("latin-1"), "cp1252", LATIN.splitlines()),
    "Windows-1252, French": (FRENCH.encode("cp1252"), "cp1252", FRENCH.splitlines()),
    "Windows-1252, one letter": (b"x\xe9", "cp1252", ["xé"]),
    "Windows-1252 that holds a UTF-8 sequence by chance": (
        "Spaß»; Öl; schön\n".encode("cp1252"),
        "cp1252",
        ["Spaß»; Öl; schön"],
    ),
    "Windows-1252, units": ("5 °C, 3 m², ½ l, don´t\n".encode("cp1252"), "cp1252", ["5 °C, 3 m², ½ l, don´t"]),
    "text that begins like a format": (b"RIFF raff\nID3 tags\n", "utf-8", ["RIFF raff", "ID3 tags"]),
    "10,000 words": (("wört " * 10_000 + "\nend").encode("cp1252"), "cp1252", ["wört " * 10_000, "end"]),
}


def workbook(*names):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return packed.getvalue()


REFUSED = {  # name: (bytes, message, hint)
    "Excel": (workbook("[Content_Types].xml", "xl/workbook.xml"), "looks like an Excel workbook", "save it as CSV"),
    "Word": (workbook("[Content_Types].xml", "word/document.xml"), "looks like a Word document", "plain text"),
    "ZIP": (workbook("a.csv"), "looks like a ZIP archive", "unzip FILE"),
    "old Excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), "old Excel workbook", "CSV"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "looks like a PDF document", "plain text"),
    "Parquet": (b"PAR1\x15\x04\x15\x10", "looks like a Parquet table", ".parquet"),
    "PNG": (b"\x89PNG\r\n\x1a\n", "looks like a PNG image", "a text file"),
    "WAV": (b"RIFF\x24\x08\0\0WAVEfmt ", "looks like a WAV recording", "a text file"),
    "UTF-32": (BOM_LE + b"\0\0a\0\0\0", "looks like UTF-32", "iconv -f UTF-32"),
    "zeros": (b"text\0\0\0with\0zeros" * 9, "binary data (zero byte at offset 4)", "UTF-8"),
    "numbers of two bytes": (b"\1\0\2\0\3\0\4\0\5\0\6\0\7\0\x08\0", "binary data", "UTF-8"),
    "a zero later on": (b"a\n" * 200_000 + b"b\0\0\n", "f.csv:200001: holds zero bytes in a row", "damaged"),
    "Russian": (RUSSIAN.encode("cp1251"), "neither UTF-8 nor Windows-1252 (byte 0xD8 at offset 0)", "iconv -f CP1251"),
    "Russian in KOI8": (RUSSIAN.encode("koi8-r"), "another language", "iconv"),
    "Polish": (POLISH.encode("cp1250"), "another language", "iconv"),
    "Chinese": ("你好，世界！今天天气很好\n".encode("gbk"), "another language", "iconv"),
    "Japanese": (JAPANESE.encode("shift_jis"), "another language", "iconv"),
    "DOS": ("Größe für Übung\n".encode("cp850"), "another language", "iconv"),
    "noise": (random.Random(0).randbytes(4000).replace(b"\0", b"\1"), "neither UTF-8 nor Windows-1252", "iconv"),
    "half a character": (b"one\ntwo \xf0\x9f\x91", "f.csv:2: not UTF-8 (byte 0xF0 at offset 8", "iconv -c -f UTF-8"),
    "half of UTF-16": (BOM_LE + b"a\0\n\0b", "f.csv:2: not UTF-16 (little-endian) (byte 0x62 at offset 6", "UTF-16-LE"),
    "a surrogate alone": (BOM_BE + b"\0a\0\n\xd8\0\0b", "f.csv:2: not UTF-16 (big-endian)", "UTF-16-BE"),
    "mixed": (
        "süß und schön\n".encode() * 3 + b"s\xfc\xdf\n",
        "f.csv:4: not UTF-8 (byte 0xFC at offset 52",
        "iconv -c",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_lines(name, tmp_path):
    content, codec, lines = READ[name]
    (tmp_path / "f.csv").write_bytes(content)
    with open_text(tmp_path / "f.csv") as text:
        assert list(text) == lines
        assert text.encoding.codec == codec
    title = {"utf-16-le": "UTF-16 (little-endian)", "utf-16-be": "UTF-16 (big-endian)", "cp1252": "Windows-1252"}
    assert text.note == (f"{tmp_path / 'f.csv'}: read as {title[codec]}" if codec != "utf-8" else None)


NEED_MORE = ("UTF-16 LE without", "UTF-16 BE without", "CR", "a lone CR", "Windows-1252 that", "10,000")


@pytest.mark.parametrize("name", [name for name in READ if not name.startswith(NEED_MORE)])
@pytest.mark.parametrize("block", [1, 2, 7])
def test_blocks_of_any_size_give_the_same_lines(name, block, monkeypatch):
    """Characters, line ends and marks are cut through; what takes a whole block to be told is left out."""
    content, codec, lines = READ[name]
    monkeypatch.setattr(module, "BLOCK", block)
    text = TextLines(io.BytesIO(content), name="f.csv")
    assert list(text) == lines
    assert text.encoding.codec == codec


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_text_is_named(name):
    content, message, hint = REFUSED[name]
    with pytest.raises(DataError) as caught:
        list(TextLines(io.BytesIO(content), name="f.csv"))
    assert str(caught.value).startswith("f.csv:")
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_lines_before_a_bad_one_come_first():
    lines = iter(TextLines(io.BytesIO("ä\nö\n".encode() * 2 + b"\xff\n"), name="f.csv"))
    assert [next(lines) for _ in range(4)] == ["ä", "ö", "ä", "ö"]
    with pytest.raises(DataError, match=r"f\.csv:5: not UTF-8"):
        next(lines)


def test_the_encoding_is_told_at_the_first_byte_that_is_not_ascii():
    ascii_lines = b"plain line\n" * 60_000  # several blocks
    for late, codec in (("Größe\n".encode("cp1252"), "cp1252"), ("Größe\n".encode(), "utf-8")):
        text = TextLines(io.BytesIO(ascii_lines + late), name="f.csv")
        *plain, last = text
        assert (len(plain), last, text.encoding.codec) == (60_000, "Größe", codec)


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_character_across_two_blocks_tells_the_encoding(cut, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 32)
    content = b"x" * (32 - cut) + "é👍\n".encode()
    assert list(TextLines(io.BytesIO(content), name="f")) == ["x" * (32 - cut) + "é👍"]
    text = TextLines(io.BytesIO(b"x" * (32 - cut) + b"\xe9t\xe9\n"), name="f")
    assert (list(text), text.encoding.codec) == (["x" * (32 - cut) + "été"], "cp1252")


def test_gzip_is_undone_and_ends_are_kept(tmp_path):
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress("ä\r\nö".encode("utf-16")))
    with open_text(tmp_path / "f.csv.gz") as text:
        assert list(text.lines(ends=True)) == ["ä\n", "ö"]
        assert text.encoding.codec == "utf-16-le"


def test_a_pipe_is_not_waited_for():
    """A line is there as soon as its bytes are: nothing more is read before it is handed out."""

    class Pipe(io.BytesIO):
        reads = 0

        def read1(self, size=-1, /):
            self.reads += 1
            return self.readline()

    pipe = Pipe("one\nzwölf\ndrei\n".encode())
    lines = iter(TextLines(pipe, name="<stdin>"))
    assert (next(lines), pipe.reads) == ("one", 1)
    assert (next(lines), pipe.reads) == ("zwölf", 2)


def test_an_encoding_that_is_given_is_believed(tmp_path):
    (tmp_path / "f.txt").write_bytes(RUSSIAN.encode("cp1251"))
    with open_text(tmp_path / "f.txt", encoding="cp1251") as text:
        assert list(text) == RUSSIAN.splitlines()
        assert text.note == f"{tmp_path / 'f.txt'}: read as cp1251"
    text = TextLines(io.BytesIO(BOM8 + b"a\n"), name="f", encoding="UTF8")
    assert (list(text), text.note) == (["a"], None)
    for wrong in ("klingon", "base64"):
        with pytest.raises(UsageError, match=f"encoding '{wrong}' is not known"):
            known_encoding(wrong)


def test_detection_alone():
    assert detect_encoding(b"plain", name="f") is None
    assert detect_encoding("Maß".encode(), name="f").codec == "utf-8"
    assert detect_encoding(BOM_LE + b"a\0", name="f").mark == 2
    assert detect_encoding(b"caf\xe9", name="f", complete=True).codec == "cp1252"


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DataError, match="no such file"), open_text(tmp_path / "no.csv"):
        pass
    with pytest.raises(DataError, match="is a directory"), open_text(tmp_path):
        pass
