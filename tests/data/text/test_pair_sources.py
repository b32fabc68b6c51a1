"""Files to pairs: every format, the odd files people have, and what the messages say."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from regard.data.io.lines import read_lines
from regard.data.text.pairs import Pair, PairSource
from regard.errors import DataError, EnvironmentProblem, UsageError


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pairs_of(source: PairSource) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in source.pairs()]


def fails(source: PairSource) -> DataError:
    with pytest.raises(DataError) as caught:
        list(source.pairs())
    return caught.value


def parallel(folder: Path, source: bytes | str, target: bytes | str) -> PairSource:
    return PairSource(write(folder / "a.en", source), write(folder / "a.de", target))


# Parallel files ------------------------------------------------------------------------------------------------------


def test_parallel_files_pair_line_by_line(tmp_path: Path) -> None:
    source = parallel(tmp_path, "A dog.\nTwo cats.\n", "Ein Hund.\nZwei Katzen.\n")
    assert list(source.pairs()) == [Pair("A dog.", "Ein Hund.", 1), Pair("Two cats.", "Zwei Katzen.", 2)]


def test_line_endings_bom_and_a_missing_last_newline_do_not_show(tmp_path: Path) -> None:
    source = parallel(tmp_path, b"\xef\xbb\xbfa\r\nb\r\n", b"x\ny")
    assert pairs_of(source) == [("a", "x"), ("b", "y")]


def test_only_newline_ends_a_line(tmp_path: Path) -> None:
    odd = "a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\rh"
    source = parallel(tmp_path, odd + "\n", "x\n")
    assert pairs_of(source) == [(odd, "x")]


@pytest.mark.parametrize("text", ["🐕‍🦺 läuft", " two  spaces ", "word " * 10_000], ids=["emoji", "spaces", "long"])
def test_text_comes_through_unchanged(tmp_path: Path, text: str) -> None:
    assert pairs_of(parallel(tmp_path, text, "x")) == [(text, "x")]


def test_gzip_is_known_by_its_bytes_not_its_name(tmp_path: Path) -> None:
    source = parallel(tmp_path, gzip.compress(b"a\n") + gzip.compress(b"b\n"), "x\ny\n")
    assert pairs_of(source) == [("a", "x"), ("b", "y")]
    plain = write(tmp_path / "plain.gz", "just text\n")
    assert list(read_lines(plain)) == ["just text"]


def test_damaged_gzip_is_named(tmp_path: Path) -> None:
    error = fails(parallel(tmp_path, gzip.compress(b"a\n" * 5000)[:-12], "x\n" * 5000))
    assert str(error).startswith(f"{tmp_path / 'a.en'}: damaged gzip data")


@pytest.mark.parametrize(("n_source", "n_target"), [(2, 5), (5, 2), (0, 3)])
def test_unequal_line_counts_give_both(tmp_path: Path, n_source: int, n_target: int) -> None:
    error = fails(parallel(tmp_path, "a\n" * n_source, "x\n" * n_target))
    assert f"a.en has {n_source} lines" in str(error)
    assert f"a.de has {n_target}" in str(error)


def test_empty_files(tmp_path: Path) -> None:
    assert str(fails(parallel(tmp_path, "", ""))) == f"{tmp_path / 'a.en'}: is empty"
    with pytest.raises(DataError, match="is empty"):
        list(read_lines(tmp_path / "a.en"))


def test_bad_utf8_gives_line_and_offset(tmp_path: Path) -> None:
    error = fails(parallel(tmp_path, b"\xef\xbb\xbffine\nna\xefve\n", "x\ny\n"))
    where = "(byte 0xEF at offset 10 of the text)"
    assert str(error) == f"{tmp_path / 'a.en'}:2: not UTF-8 {where}, as the file is otherwise"
    assert "iconv" in str(error.hint)


def test_utf16_and_windows_1252_are_recognised_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    source = parallel(tmp_path, "ä\n".encode("utf-16"), "Straße\n".encode("cp1252"))
    assert [tuple(pair) for pair in source.pairs(said.append)] == [("ä", "Straße", 1, "")]
    assert said == [
        f"{tmp_path / 'a.en'}: read as UTF-16 (little-endian)",
        f"{tmp_path / 'a.de'}: read as Windows-1252",
    ]


def test_missing_file_lists_what_is_there(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "a\n")
    error = fails(PairSource(tmp_path / "tain.en", tmp_path / "train.en"))
    assert str(error) == f"{tmp_path / 'tain.en'}: no such file"
    assert "train.en" in str(error.hint)
    assert "does not exist either" in str(fails(PairSource(tmp_path / "no" / "x.tsv")).hint)


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    assert "is a directory" in str(fails(PairSource(tmp_path)))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"a\tx\nb\ty\n", gzip.compress(b"a\tx\nb\ty\n")):
        stdin = io.TextIOWrapper(io.BytesIO(content))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert pairs_of(PairSource("-")) == [("a", "x"), ("b", "y")]
        assert not stdin.buffer.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xc3\xa9\t\xff\n")))
    assert str(fails(PairSource("-"))).startswith("<stdin>:1: not UTF-8")


def test_pairs_are_held_out_evenly_and_never_twice(tmp_path: Path) -> None:
    source = parallel(tmp_path, "".join(f"{i}\n" for i in range(100)), "".join(f"{i}\n" for i in range(100)))
    train, valid = source.parted(0.05, most=1000)
    assert [pair.line for pair in valid.pairs()] == [20, 40, 60, 80, 100]
    assert sorted([*train.pairs(), *valid.pairs()], key=lambda pair: pair.line) == list(source.pairs())
    assert len({part.fingerprint() for part in (source, train, valid)}) == 3
    assert len(list(source.parted(0.5, most=2)[1].pairs())) == 2
    two = parallel(tmp_path, "a\nb\n", "x\ny\n").parted(0.05, most=9)
    assert [pairs_of(part) for part in two] == [[("a", "x")], [("b", "y")]]
    with pytest.raises(DataError, match="1 pair cannot be divided") as caught:
        parallel(tmp_path, "a\n", "x\n").parted(0.05, most=9)
    assert "--valid" in str(caught.value.hint)


# Tables --------------------------------------------------------------------------------------------------------------


def test_tsv_takes_the_first_two_columns_and_knows_no_quotes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'say "hi\tx\tmore\nb\ty\n')
    assert pairs_of(PairSource(path)) == [('say "hi', "x"), ("b", "y")]
    assert pairs_of(PairSource(path, columns=(1, 0))) == [("x", 'say "hi'), ("y", "b")]


def test_names_mean_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\tde\ten\n1\tHund\tdog\n")
    source = PairSource(path, columns=("en", "de"))
    assert list(source.pairs()) == [Pair("dog", "Hund", 2)]
    assert pairs_of(PairSource(path, columns=(1, 2))) == [("de", "en"), ("Hund", "dog")]


def test_csv_with_quotes_commas_and_line_breaks(tmp_path: Path) -> None:
    content = 'source,target\r\n"a, ""b""",x\r\n"two\nlines",y\r\nc,z'
    found = list(PairSource(write(tmp_path / "a.csv", content)).pairs())
    assert found == [Pair('a, "b"', "x", 2), Pair("two\nlines", "y", 3), Pair("c", "z", 5)]


def test_csv_with_a_quote_left_open(tmp_path: Path) -> None:
    error = fails(PairSource(write(tmp_path / "a.csv", 'source,target\na,x\n"b,y\nc,z\n')))
    assert "a.csv:3: not a row of the table" in str(error)
    assert "quotation mark" in str(error.hint)


def test_jsonl_and_nested_names(tmp_path: Path) -> None:
    lines = [{"source": "a", "target": "x\u2028y"}, {"target": None, "source": "b"}]
    path = write(tmp_path / "a.jsonl", "\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    assert pairs_of(PairSource(path)) == [("a", "x\u2028y"), ("b", "")]
    nested = write(tmp_path / "b.jsonl.gz", gzip.compress(b'{"translation": {"de": "Hund", "en": "dog"}}\n'))
    assert pairs_of(PairSource(nested, columns=("translation.en", "translation.de"))) == [("dog", "Hund")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"source": "a"', "not JSON"),
        ('["a", "b"]', "a JSON list, an object"),
        ('{"source": 7, "target": "x"}', "column 'source' holds 7 (int)"),
        ('{"sorce": "a", "target": "x"}', "no column 'source'; it has: sorce, target"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, says: str) -> None:
    error = fails(PairSource(write(tmp_path / "a.jsonl", '{"source": "a", "target": "x"}\n' + line + "\n")))
    assert f"a.jsonl:2: {says}" in str(error)


def test_half_a_surrogate_pair_does_not_break_what_follows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"source": "a\\ud83d", "target": "x"}\n')
    assert pairs_of(PairSource(path)) == [("a?", "x")]


def test_blank_lines_are_empty_pairs_that_the_checks_can_count(tmp_path: Path) -> None:
    for name, content in {
        "a.tsv": "a\tx\n\nb\ty\n",
        "a.csv": "source,target\na,x\n\nb,y\n",
        "a.jsonl": '{"source":"a","target":"x"}\n\n{"source":"b","target":"y"}\n',
    }.items():
        assert pairs_of(PairSource(write(tmp_path / name, content))) == [("a", "x"), ("", ""), ("b", "y")]


def test_missing_column_lists_names_and_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "english,german\na,x\n")
    error = fails(PairSource(path, columns=("english", "germn")))
    assert str(error) == f"{path}:1: no column 'germn'; it has: english, german"
    assert error.hint == "did you mean 'german'?"


def test_too_few_columns(tmp_path: Path) -> None:
    error = fails(PairSource(write(tmp_path / "a.tsv", "a\tx\nonly one\n")))
    assert str(error) == f"{tmp_path / 'a.tsv'}:2: has 1 column, at least 2 are needed"


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl", "a.parquet"])
def test_empty_tables(tmp_path: Path, name: str) -> None:
    assert "is empty" in str(fails(PairSource(write(tmp_path / name, ""))))


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = {"source": ["a", None], "target": ["x", "y"], "t": [{"de": "Hund"}, {"de": "Katze"}]}
    parquet.write_table(pyarrow.table(table), path, row_group_size=1)
    assert list(PairSource(path).pairs()) == [Pair("a", "x", 1), Pair("", "y", 2)]
    assert pairs_of(PairSource(path, columns=("target", "t.de"))) == [("x", "Hund"), ("y", "Katze")]
    assert "no column 'sauce'; it has: source, target, t" in str(fails(PairSource(path, columns=("sauce", "target"))))
    assert "cannot be read as Parquet" in str(fails(PairSource(write(tmp_path / "b.parquet", "text\n"))))


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(EnvironmentProblem, match="needs pyarrow") as caught:
        list(PairSource(write(tmp_path / "a.parquet", "PAR1")).pairs())
    assert caught.value.hint == 'pip install "regard[parquet]"'


# The description -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "xml"}, "format 'xml' is not known; allowed: lines, tsv, csv, jsonl, parquet"),
        ({"format": "lines"}, "needs two files"),
        ({"target": "b.de", "format": "csv"}, "needs one file"),
        ({"target": "b.de", "columns": (0, 1)}, "columns are for tables"),
        ({"columns": ("a", 1)}, "two names or two numbers"),
        ({"columns": (-1, 1)}, "counted from 0"),
        ({"columns": (0, 1), "format": "jsonl"}, "names, not numbers"),
        ({"source": "-", "target": "-"}, "cannot both be standard input"),
    ],
)
def test_descriptions_that_make_no_sense(options: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        PairSource(**{"source": "a.tsv", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.tsv", "tsv"),
        ("a.CSV", "csv"),
        ("a.jsonl.gz", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.txt", "tsv"),
        ("-", "tsv"),
    ],
)
def test_format_by_suffix(name: str, kind: str) -> None:
    assert PairSource(name).resolved_format == kind
    assert PairSource(name, format="csv").resolved_format == "csv"


def test_fingerprint_follows_the_contents_and_how_they_are_read(tmp_path: Path) -> None:
    one = parallel(tmp_path, "a\n", "x\n")
    first = one.fingerprint()
    (tmp_path / "copy").mkdir()
    assert parallel(tmp_path / "copy", "a\n", "x\n").fingerprint() == first
    assert parallel(tmp_path, "a\n", "y\n").fingerprint() != first
    table = write(tmp_path / "t.tsv", "a\tx\n")
    assert PairSource(table).fingerprint() != PairSource(table, columns=(1, 0)).fingerprint()
    with pytest.raises(DataError, match="read only once"):
        PairSource("-").fingerprint()
