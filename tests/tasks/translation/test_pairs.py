"""Where a recipe's pairs are found: here, under the data root, made up, or coming through standard input."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.errors import ConfigError, DataError
from regard.tasks.translation.config import PairData
from regard.tasks.translation.data import PairFiles


def texts(source) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in source.pairs()]


def test_standard_input_is_kept_for_a_second_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"eins\tone\r\nzwei\ttwo")))
    files = PairFiles(PairData(train=("-",)), None, tmp_path / "data")
    first = files.train
    assert (texts(first), texts(files.valid)) == ([("eins", "one")], [("zwei", "two")]), "one of two is held out"
    assert texts(first) == texts(PairFiles(PairData(train=("-",)), None, tmp_path / "data").train), (
        "as a resume reads it"
    )
    assert first.fingerprint(), "a file has one, a stream has not"


def test_names_are_found_here_then_under_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, here = tmp_path / "root", tmp_path / "here"
    for folder, word in ((root, "root"), (here, "here")):
        folder.mkdir()
        (folder / "a.tsv").write_text(f"{word}\tx\n")
    (root / "b.tsv").write_text("only\tthere\n")
    monkeypatch.chdir(here)
    files = PairFiles(PairData(train=("a.tsv",), valid=("b.tsv",)), root, tmp_path / "made")
    assert texts(files.train) == [("here", "x")]
    assert texts(files.valid) == [("only", "there")]
    with pytest.raises(DataError, match=r"c\.tsv: there is no such file here or under .*root") as problem:
        PairFiles(PairData(train=("c.tsv",)), root, tmp_path).train.pairs()
    assert "REGARD_DATA" in str(problem.value.hint)


def test_no_file_or_three_are_refused(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text("x\n")
    for names, message in (((), "0 files"), (("a", "b", "c"), "3 texts that are not told apart")):
        with pytest.raises(ConfigError, match=rf"data\.train names {message}"):
            PairFiles(PairData(train=names), tmp_path, tmp_path).train.pairs()


def test_languages_are_those_that_are_set_or_that_names_tell(tmp_path: Path) -> None:
    for name in ("a.en", "a.de", "plain.tsv"):
        (tmp_path / name).write_text("one\teins\ntwo\tzwei\n")
    (tmp_path / "table.csv").write_text("German,English\neins,one\nzwei,two\n")

    def languages(*names: str, **settings: tuple[str, str]) -> tuple[str, str] | None:
        return PairFiles(PairData(train=names, **settings), tmp_path, tmp_path / "made").languages

    assert languages("a.en", "a.de") == ("en", "de")
    assert languages("table.csv") == ("de", "en"), "a table's order counts"
    assert languages("plain.tsv") is None
    assert languages("plain.tsv", moses=("en", "de")) == ("en", "de")
    assert languages("a.en", "a.de", languages=("fr", "it")) == ("fr", "it")
