"""Odd files as strangers have them, a row each: what is in it, and what must come of it.

A row gives a file (or two), by name and content, the reader, and what it gives: cells, dates and numbers, or the
beginning of an error and a hint that can be typed.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.data.audio.corpus import read_spoken
from regard.data.images.captions import CaptionSource
from regard.data.images.sources import ImageSource
from regard.data.series.calendar import continue_dates, learn_pattern
from regard.data.series.files import read_series
from regard.data.text.documents import TextSource
from regard.data.text.labelled import LabelSource
from regard.data.text.pairs import PairSource
from regard.errors import RegardError


class Odd(NamedTuple):
    """A file by name and content, and what it must give; an error is its beginning without the path, and its hint."""

    name: str
    content: bytes | str
    gives: Any = None
    error: str = ""
    hint: str = ""


def check(odd: Odd, folder: Path, read: Any) -> None:
    path = folder / odd.name
    path.write_bytes(odd.content.encode() if isinstance(odd.content, str) else odd.content)
    if not odd.error:
        assert read(path) == odd.gives
        return
    with pytest.raises(RegardError) as caught:
        read(path)
    assert str(caught.value).replace(f"{folder}/", "").startswith(odd.error)
    assert odd.hint in (caught.value.hint or "")


def rows_of(table: list[Odd]) -> Any:
    return pytest.mark.parametrize("odd", table, ids=[f"{i}-{odd.name}" for i, odd in enumerate(table)])


DOGS = [("A dog.", "Ein Hund."), ("Two cats.", "Zwei Kätzchen.")]


def table(separator: str, *head: str, rows: Any = DOGS) -> str:
    return "\n".join(separator.join(row) for row in ([head] if head else []) + list(rows)) + "\n"


def lines(*records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


PAIRS = [
    Odd("a.tsv", table("\t"), DOGS),
    Odd("a.tsv", table("\t", "source", "target"), DOGS),
    Odd("a.tsv", table("\t", "en", "de"), DOGS),
    Odd("a.tsv", table("\t", "Hi.", "Hallo."), [("Hi.", "Hallo."), *DOGS]),
    Odd("a.txt", table("\t"), DOGS),
    Odd("a.csv", table(",", "source", "target"), DOGS),
    Odd("a.csv", table(";", "English", "German"), DOGS),
    Odd("a.csv", table("|", "src", "tgt"), DOGS),
    Odd("a.csv", table("\t", "src", "tgt"), DOGS),
    Odd("a.csv", "sep=;\n" + table(";", "en", "de"), DOGS),
    Odd("a.csv", table(",", "source", "target").encode("utf-8-sig"), DOGS),
    Odd("a.csv", table(",", "source", "target").encode("utf-16"), DOGS),
    Odd("a.csv", table(",", "source", "target").encode("utf-16-le"), DOGS),
    Odd("a.csv", table(",", "source", "target").encode("cp1252"), DOGS),
    Odd("a.csv", table(",", "source", "target").replace("\n", "\r\n"), DOGS),
    Odd("a.csv.gz", gzip.compress(table(";", "en", "de").encode("cp1252")), DOGS),
    Odd("a.csv", 'id,en,de\n1,"A dog, a cat","Ein ""Hund"""\n', [("A dog, a cat", 'Ein "Hund"')]),
    Odd("a.csv", table(",", "a", "b"), None, "a.csv:1: no column looks like the source",
        """data.columns='["a", "b"]'"""),
    Odd("a.csv", "en,de,fr\nx,y,z\n", None, "a.csv:1: several columns could be the source: en, de, fr",
        """data.columns='["en", "de"]'"""),
    Odd("a.jsonl", lines({"source": "a", "target": "x"}), [("a", "x")]),
    Odd("a.jsonl", lines({"translation": {"en": "a", "de": "x"}}), [("a", "x")]),
    Odd("a.jsonl", lines({"id": "7", "translation": {"de": "x", "fr": "y"}}), [("x", "y")]),
    Odd("a.json", json.dumps([{"en": "a", "de": "x"}, {"en": "b", "de": "y"}], indent=1), [("a", "x"), ("b", "y")]),
    Odd("a.json", '[{"en": "a", "de": "x"}]', [("a", "x")]),
    Odd("a.jsonl", "[1, 2]\n", None, "a.jsonl:1: a JSON int, an object with columns was expected", "a line looks like"),
    Odd("a.csv", b"%PDF-1.4 \x00", None, "a.csv: is no text; it looks like a PDF document", "save it as plain text"),
    Odd("a.csv", b"PK\x03\x04....xl/workbook.xml", None, "a.csv: is no text; it looks like an Excel", "save it as CSV"),
    Odd("a.csv", "", None, "a.csv: is empty", "at least one line"),
]  # fmt: skip


@rows_of(PAIRS)
def test_pairs(odd, tmp_path):
    check(odd, tmp_path, lambda path: [(pair.source, pair.target) for pair in PairSource(path).pairs()])


FILMS = [("a good film", "1"), ("a bad one, though", "0")]
LABELS = [
    Odd("a.tsv", table("\t", "text", "label", rows=FILMS), FILMS),
    Odd("a.csv", table(";", "Rezension", "Sterne", rows=FILMS), FILMS),
    Odd("a.csv", 'review,sentiment\n"a good film",1\n"a bad one, though",0\n', FILMS),
    Odd("a.csv", '"a good film",1\n"a bad one, though",0\n', FILMS),
    Odd("a.csv", '1,"a good film"\n0,"a bad one, though"\n', FILMS),
    Odd("a.csv", 'id,stars,review_text\n7,1,a good film\n8,0,"a bad one, though"\n', FILMS),
    Odd("a.csv", 'label|comment\n1|a good film\n0|a bad one, though\n', FILMS),
    Odd("a.jsonl", lines({"data": {"text": "x"}, "meta": {"label": 3}}), [("x", "3")]),
    Odd("a.jsonl", lines({"tweet": "x", "emotion": "joy"}), [("x", "joy")]),
    Odd("a.txt", "LOC:city Where is Köln ?\n".encode("latin-1"), [("Where is Köln ?", "LOC")]),
    Odd("a.csv", "text,a,b\nx,1,2\n", None, "a.csv:1: no column looks like the label; it has: text, a, b",
        'say which: data.text="text" data.label="a"'),
    Odd("a.csv", "text,stars,rating\nx,1,2\n", None, "a.csv:1: several columns could be the label: stars, rating",
        'data.label="stars"'),
]  # fmt: skip


@rows_of(LABELS)
def test_labels(odd, tmp_path):
    check(odd, tmp_path, lambda path: [(one.text, one.label) for one in LabelSource(path).examples()])


def days(*texts: str) -> str:
    return "".join(f"{text},{i}\n" for i, text in enumerate(texts))


def each(form: str, *numbers: int) -> str:
    return days(*(form % number for number in numbers))


SERIES = [  # the name of the date column, the columns, the last value, the next date
    Odd("a.csv", "date,x\n" + each("2020-01-%02d", 1, 2, 3), ("date", ("x",), 2.0, "2020-01-04")),
    Odd("a.csv", "date,x\n" + each("2020-01-%02d 13:00", 1, 2, 3), ("date", ("x",), 2.0, "2020-01-04 13:00")),
    Odd("a.csv", "date,x\n" + each("2020-01-01T%02d:00:00Z", 1, 2, 3), ("date", ("x",), 2.0, "2020-01-01T04:00:00Z")),
    Odd("a.csv", "t,x\n" + each("2020-01-01 %02d:00+01:00", 1, 2, 3), ("t", ("x",), 2.0, "2020-01-01 04:00+01:00")),
    Odd("a.csv", "Datum;x\n28.12.2020;1,5\n29.12.2020;1.234,5\n30.12.2020;2,25\n",
        ("Datum", ("x",), 2.25, "31.12.2020")),
    Odd("a.csv", "d,x\n" + each("12/%d/2020", 28, 29, 30), ("d", ("x",), 2.0, "12/31/2020")),
    Odd("a.csv", "d,x\n" + each("12/%d/2020 2:30 PM", 28, 29, 30), ("d", ("x",), 2.0, "12/31/2020 2:30 PM")),
    Odd("a.csv", "d,x\n" + each("%d Dec 2020", 28, 29, 30), ("d", ("x",), 2.0, "31 Dec 2020")),
    Odd("a.csv", "d,x\n" + each("%d. Dezember 2020", 28, 29, 30), ("d", ("x",), 2.0, "31. Dezember 2020")),
    Odd("a.csv", "timestamp,x\n" + each("16094592%02d", 0, 1, 2), ("timestamp", ("x",), 2.0, "1609459203")),
    Odd("a.csv", "timestamp,x\n" + each("16094592%02d000", 0, 1, 2), ("timestamp", ("x",), 2.0, "1609459203000")),
    Odd("a.csv", "date,x\n" + each("202012%d", 28, 29, 30), ("date", ("x",), 2.0, "20201231")),
    Odd("a.csv", "Monat,x\n" + each("2020-%02d", 1, 2, 3), ("Monat", ("x",), 2.0, "2020-04")),
    Odd("a.csv", "year,x\n" + each("19%d", 60, 61, 62), ("year", ("x",), 2.0, "1963")),
    Odd("a.csv", "q,x\n" + each("2020Q%d", 1, 2, 3), ("q", ("x",), 2.0, "2020Q4")),
    Odd("a.csv", "d,x\n" + days("2020-01-31", "2020-02-29", "2020-03-31"), ("d", ("x",), 2.0, "2020-04-30")),
    Odd("a.csv", "d,x\n" + each("2020-01-%02d", 1, 2, 3, 6, 7, 8, 9, 10), ("d", ("x",), 7.0, "2020-01-13")),
    Odd("a.csv", "d,x\n" + each("2020-01-%02d", 3, 2, 1), ("d", ("x",), 0.0, "2020-01-04")),
    Odd("a.csv", "date,x\n2020-01-01,1\n2020-01-02,2\n".encode("utf-16"), ("date", ("x",), 2.0, "2020-01-03")),
    Odd("a.csv", "Datum\tGröße\n1.2.2020\t1\n2.2.2020\t2\n3.2.2020\t3\n".encode("cp1252"),
        ("Datum", ("Größe",), 3.0, "4.2.2020")),
    Odd("a.csv", "date|x|y\n2020-01-01|1|2\n2020-01-02|3|4\n", ("date", ("x", "y"), 3.0, "2020-01-03")),
    Odd("a.csv", "date,x,y\n2020-01-01,\"1,200\",$3\n2020-01-02,\"1,300\",$4\n",
        ("date", ("x", "y"), 1300.0, "2020-01-03")),
    Odd("a.csv", ",date,x\n0,2020-01-01,1\n1,2020-01-02,2\n", ("date", ("x",), 2.0, "2020-01-03")),
    Odd("a.csv", "date,x,weather\n2020-01-01,1,sun\n2020-01-02,2,rain\n", ("date", ("x",), 2.0, "2020-01-03")),
    Odd("a.csv", "2020-01-01,1\n2020-01-02,2\n", ("date", ("column2",), 2.0, "2020-01-03")),
    Odd("a.csv", "date,x,\n2020-01-01,1,\n2020-01-02,2,\n", ("date", ("x",), 2.0, "2020-01-03")),
    Odd("a.csv", "x\n1\n2\n", ("", ("x",), 2.0, None)),
    Odd("a.csv", "unique_id,ds,y\nA,2020-01-01,1\nA,2020-01-02,2\nB,2020-01-01,7\nB,2020-01-02,8\n",
        ("ds", ("A", "B"), 2.0, "2020-01-03")),
    Odd("a.csv", "store_id;Datum;Umsatz\n7;01.01.2020;1,5\n8;01.01.2020;2,5\n7;02.01.2020;3,5\n8;02.01.2020;4,5\n",
        ("Datum", ("7", "8"), 3.5, "03.01.2020")),
    Odd("a.csv", "date,ticker,open,close\n2020-01-01,A,1,2\n2020-01-01,B,3,4\n2020-01-02,A,5,6\n2020-01-02,B,7,8\n",
        ("date", ("A.open", "A.close", "B.open", "B.close"), 5.0, "2020-01-03")),
    Odd("a.csv", "id,ds,y\nA,2020-01-01,1\nA,2021-01-01,3\nB,2021-01-01,7\nC,2021-01-01,0\n",
        ("ds", ("A", "B", "C"), 3.0, None)),
    Odd("a.csv", "date,x\n01/02/2020,1\n02/01/2020,2\n", None, "a.csv:2: '01/02/2020' is 1 February 2020 (day-first)",
        'data.dates="day-first"'),
    Odd("a.csv", "date,x\n2020-01-01,1\nsoon,2\n", None, "a.csv:3: 'soon' is no date", "dates are written"),
    Odd("a.csv", "date,x\n2020-01-01,1\n02.01.2020,2\n", None, "a.csv:3: '02.01.2020' is written unlike"),
    Odd("a.csv", "date,x\n2020-01-01,1\n2020-01-02,1\n2020-01-03\n", None, "a.csv:4: has 1 cells, and the header"),
    Odd("a.csv", "date,x\n2020-01-01,1\n2020-01-02,?\n", None, "a.csv:3: x is '?'; numbers are needed", "data.missing"),
]  # fmt: skip


@rows_of(SERIES)
def test_series(odd, tmp_path):
    def read(path):
        series = read_series(path)
        coming = None
        if series.dates is not None:
            pattern = learn_pattern(series.dates, where=series.where).pattern
        if series.dates is not None and pattern is not None:
            coming = series.dates.format.write(continue_dates(pattern, series.dates.moments[-1], 1))[0]
        return series.date_column, series.columns, series.values[-1, 0], coming

    check(odd, tmp_path, read)


SPOKEN = [
    Odd("a.csv", "audio,text\n1.wav,hello\n", [("1.wav", "hello")]),
    Odd("a.csv", "file;transcript\n1.wav;grün\n".encode("cp1252"), [("1.wav", "grün")]),
    Odd("a.tsv", "client_id\tpath\tsentence\n7\t1.mp3\thello\n", [("1.mp3", "hello")]),
    Odd("a.jsonl", lines({"audio": {"path": "1.wav"}, "text": "hello"}), [("1.wav", "hello")]),
    Odd("a.csv", "a,b,c\n1.wav,hello,x\n", None, "a.csv:1: no column looks like the audio or the text; it has: a, b, c",
        'data.audio="a" data.text="b"'),
]  # fmt: skip


@rows_of(SPOKEN)
def test_recordings(odd, tmp_path):
    check(odd, tmp_path, lambda path: [(row.path.name, row.text) for row in read_spoken(path)])


CAPTIONS = [
    Odd("a.csv", "image,caption\n1.jpg,a dog\n1.jpg,a brown dog\n", [("1.jpg", ("a dog", "a brown dog"))]),
    Odd("a.csv", "Bild;Beschreibung\n1.jpg;ein Kätzchen\n".encode("cp1252"), [("1.jpg", ("ein Kätzchen",))]),
    Odd("a.csv", "image_name| comment_number| comment\n1.jpg| 0| a dog\n", [("1.jpg", ("a dog",))]),
    Odd("a.jsonl", lines({"file": "1.jpg", "text": "a dog"}), [("1.jpg", ("a dog",))]),
]


@rows_of(CAPTIONS)
def test_captions(odd, tmp_path):
    check(odd, tmp_path, lambda path: [(one.image, one.captions) for one in CaptionSource(path).examples()])


IMAGES = [
    Odd("a.csv", "filename,class\n1.jpg,cat\n", [("1.jpg", "cat")]),
    Odd("a.csv", "Datei;Klasse\n1.jpg;Hündchen\n".encode("cp1252"), [("1.jpg", "Hündchen")]),
]


@rows_of(IMAGES)
def test_images(odd, tmp_path):
    check(odd, tmp_path, lambda path: [(Path(one.held).name, one.label) for one in ImageSource(path).examples()])


TEXTS = [
    Odd("a.txt", "Grüße\n".encode("utf-16"), ["Grüße\n"]),
    Odd("a.txt", "Grüße\n".encode("cp1252"), ["Grüße\n"]),
    Odd("a.txt", "Grüße\r\nund mehr".encode("utf-8-sig"), ["Grüße\nund mehr"]),
    Odd("a.txt", "old\rMacintosh\r", ["old\nMacintosh\n"]),
    Odd("a.txt", "Привет, как дела сегодня".encode("cp1251"), None, "a.txt: neither UTF-8 nor Windows-1252",
        "iconv -f CP1251"),
    Odd("a.txt", b"\x89PNG\r\n\x1a\n\0\0", None, "a.txt: is no text; it looks like a PNG image",
        "a text file was expected"),
]  # fmt: skip


@rows_of(TEXTS)
def test_texts(odd, tmp_path):
    check(odd, tmp_path, lambda path: [document.text for document in TextSource([path]).documents()])
