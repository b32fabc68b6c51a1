"""Many files by one name."""

from pathlib import Path

import pytest

from regard.data.io.globs import expand, expand_all, holds_something, is_pattern
from regard.data.text.pair_files import pair_files
from regard.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies here comes first."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")


def test_patterns_match_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", "a.txt", ".hidden.txt", "deep/er/c.txt", "d.csv")
    assert expand("*.txt", tmp_path) == ["a.txt", "b.txt"]
    assert expand("**/*.txt", tmp_path) == ["a.txt", "b.txt", "deep/er/c.txt"]
    assert expand(f"{tmp_path}/[ab].txt") == [f"{tmp_path}/a.txt", f"{tmp_path}/b.txt"]
    assert expand_all(["b.txt", "*.txt", "./a.txt"], tmp_path) == ["b.txt", "a.txt"]


def test_a_name_with_brackets_is_itself_where_it_exists(tmp_path: Path) -> None:
    write(tmp_path, "a[1].txt", "a1.txt")
    assert expand("a[1].txt", tmp_path) == ["a[1].txt"]
    assert not is_pattern("-", tmp_path)


def test_a_pattern_without_a_match_says_what_is_there(tmp_path: Path) -> None:
    write(tmp_path, "in/a.txt")
    with pytest.raises(DataError, match=r"in/\*\.tsv: no file matches this pattern here or under") as problem:
        expand("in/*.tsv", tmp_path)
    assert str(problem.value.hint) == f"{tmp_path / 'in'} holds: a.txt"


def test_empty_files_hold_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    (tmp_path / "b.txt").touch()
    assert [holds_something(tmp_path / name) for name in ("a.txt", "b.txt", ".")] == [True, False, True]


def test_parallel_texts_and_tables_of_many_files() -> None:
    assert pair_files([["1.tsv", "2.tsv"], ["2.tsv"]], what="train") == [("1.tsv", None), ("2.tsv", None)]
    sides = [("1.en", "1.de"), ("2.en", "2.de")]
    assert pair_files([["1.en", "2.en"], ["1.de", "2.de"]], what="train") == sides
    assert pair_files([["1.en"], ["2.en"], ["1.de"], ["2.de"]], what="train") == sides
    with pytest.raises(ConfigError, match="names 2 source files and 1 target file"):
        pair_files([["1.en", "2.en"], ["1.de"]], what="train")
