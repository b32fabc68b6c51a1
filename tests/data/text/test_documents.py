"""Documents from files, folders, tables and standard input, however odd."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from regard.data.text import documents as texts
from regard.data.text.documents import Document, Split, TextSource
from regard.errors import DataError, UsageError

WIKI = (
    " \n = First = \n \n Text . \n \n = = Part = = \n \n More ( J \n = 7 / 2 ) = \n 0 . \n \n = Second = \n \n End . \n"
)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(*paths: Path | str, split: Split = "file", column: str = "text") -> list[Document]:
    return list(TextSource(paths, split=split, column=column).documents())


@pytest.mark.parametrize(
    "content", ["one line", "one line\n", "\n a\n\n\tb  \n", "😀 é e\u0301\u2028x\n", "\ufeffx"[1:]]
)
def test_a_whole_file_is_kept_to_the_letter(content: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", content)
    assert read(path) == [Document(content, f"{path}:1")]


def test_only_line_ends_and_the_byte_order_mark_change(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\ufeffa\r\n\r\nb\rc\r\n".encode())
    assert read(path)[0].text == "a\n\nb\rc\n"
    assert [d.text for d in read(path, split="blank")] == ["a", "b\rc"]


def test_blank_lines_part_documents(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "\n \none\ntwo\n\n\n  three\n\t\nfour")
    assert read(path, split="blank") == [
        Document("one\ntwo", f"{path}:3"),
        Document("  three", f"{path}:7"),
        Document("four", f"{path}:9"),
    ]


def test_lines_are_documents(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one\n\n two \n")
    assert read(path, split="line") == [Document("one", f"{path}:1"), Document(" two ", f"{path}:3")]


def test_headings_begin_documents_and_nothing_is_lost(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", WIKI)
    documents = read(path, split="heading")
    assert "".join(document.text for document in documents) == WIKI
    assert [document.where for document in documents] == [f"{path}:1", f"{path}:12"]
    assert documents[1].text.startswith(" = Second = \n")


def test_a_long_text_comes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "PART", 20)
    content = "alpha beta\n  gamma\n\ndelta\n   epsilon\nzeta\n" * 3
    for split in ("file", "heading"):
        documents = read(write(tmp_path / "a.txt", content), split=split)  # type: ignore[arg-type]
        assert "".join(document.text for document in documents) == content
        assert [document.more for document in documents] == [True] * (len(documents) - 1) + [False]
        assert len(documents) > 3
        assert not any(document.text[0].isspace() for document in documents)
        places = [int(document.where.rpartition(":")[2]) for document in documents]
        assert places[0] == 1
        assert content.split("\n")[places[1] - 1] == documents[1].text.split("\n")[0]


def test_a_line_of_ten_thousand_words(tmp_path: Path) -> None:
    content = "word " * 10_000
    for split in ("file", "blank", "heading", "line"):
        (document,) = read(write(tmp_path / "a.txt", content), split=split)  # type: ignore[arg-type]
        assert document.text == content


def test_folders_are_read_in_order_whatever_is_in_them(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "two")
    write(tmp_path / "a" / "z.txt.gz", gzip.compress(b"one"))
    write(tmp_path / "c.jsonl", '{"text": "three"}\n\n{"text": ""}\n{"text": "four\\n"}\n')
    write(tmp_path / "d" / "e.JSONL.gz", gzip.compress(b'{"text": "five"}'))
    write(tmp_path / "empty.txt", "")
    write(tmp_path / "notes.md", "no")
    write(tmp_path / ".hidden.txt", "no")
    write(tmp_path / ".git" / "x.txt", "no")
    documents = read(tmp_path)
    assert [document.text for document in documents] == ["one", "two", "three", "four\n", "five"]
    assert documents[3].where == f"{tmp_path / 'c.jsonl'}:4"


def test_another_column_and_a_parquet_table(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path = write(tmp_path / "a.jsonl", json.dumps({"meta": {"body": "here"}}))
    assert read(path, column="meta.body")[0].text == "here"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["p", "q"]}), tmp_path / "a.parquet")
    assert [document.text for document in read(tmp_path / "a.parquet")] == ["p", "q"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\nb")))
    assert read("-", split="blank") == [Document("a", "<stdin>:1"), Document("b", "<stdin>:3")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", r"a\.txt: is empty"),
        ("a.txt", b"\n \n", r"a\.txt: holds no text, only empty lines"),
        ("a.txt", b"caf\xc3\xa9\ncaf\xe9\n", r"a\.txt:2: not UTF-8 \(byte 0xE9 at offset 9"),
        ("a.jsonl", b'{"text": "x"}\n{"txt": "y"}', r"a\.jsonl:2: no column 'text'; it has: txt"),
        ("a.jsonl", b'{"text": 3}', r"a\.jsonl:1: column 'text' holds 3 \(int\), text was expected"),
        ("a.jsonl", b"text", r"a\.jsonl:1: not JSON"),
    ],
)
def test_problems_are_named_by_file_and_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=message):
        read(path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"no text files in this folder \(\.txt, \.jsonl, \.parquet\); it is empty"):
        read(tmp_path)
    write(tmp_path / "notes.md", "x")
    with pytest.raises(DataError, match=r"it holds: notes\.md"):
        read(tmp_path)
    write(tmp_path / "a.txt", "")
    with pytest.raises(DataError, match="its files hold no text"):
        read(tmp_path)
    with pytest.raises(UsageError, match="split 'page' is not known; allowed: file, blank, heading, line"):
        TextSource(("a",), split="page")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no text is named"):
        TextSource(())


def test_the_fingerprint_is_of_contents_and_reading(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.txt", "x"), write(tmp_path / "b.txt", "x")
    assert TextSource((a,)).fingerprint() == TextSource((b,)).fingerprint()
    assert TextSource((a,)).fingerprint() != TextSource((a,), split="line").fingerprint()
    assert TextSource((a,)).fingerprint() != TextSource((a, b)).fingerprint()
    write(b, "y")
    assert TextSource((a,)).fingerprint() != TextSource((b,)).fingerprint()
