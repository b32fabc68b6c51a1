import gzip

import pytest
import torch

from regard.checkpoints.foreign.word2vec import NamedVectors, read_word2vec, write_word2vec
from regard.errors import DataError, UsageError

NAMED = NamedVectors(("the", "größe", "😀", "1913"), torch.randn(4, 5, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("binary", [False, True])
def test_what_is_written_comes_back_to_the_last_bit(tmp_path, binary):
    write_word2vec(tmp_path / "v", NAMED, binary=binary)
    again = read_word2vec(tmp_path / "v")
    assert again.words == NAMED.words
    assert torch.equal(again.vectors, NAMED.vectors)
    (tmp_path / "v.gz").write_bytes(gzip.compress((tmp_path / "v").read_bytes()))
    assert torch.equal(read_word2vec(tmp_path / "v.gz").vectors, NAMED.vectors)


def test_the_first_line_of_text_says_how_many(tmp_path):
    write_word2vec(tmp_path / "v", NAMED)
    lines = (tmp_path / "v").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "4 5"
    assert lines[2].startswith("größe ")
    assert len(lines[1].split(" ")) == 6


def test_a_file_of_glove_has_no_first_line(tmp_path):
    (tmp_path / "g").write_text("a 1 2\nb -3 4e-1\n")
    found = read_word2vec(tmp_path / "g")
    assert found.words == ("a", "b")
    assert found.vectors.tolist() == [[1, 2], [-3, pytest.approx(0.4)]]


def test_binary_without_line_ends_is_read_too(tmp_path):
    rows = NAMED.vectors.numpy().astype("<f4")
    body = b"".join(w.encode() + b" " + r.tobytes() for w, r in zip(NAMED.words, rows, strict=True))
    (tmp_path / "b").write_bytes(b"4 5\n" + body)
    assert torch.equal(read_word2vec(tmp_path / "b").vectors, NAMED.vectors)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"3 2\na 1 2\nb 1 2\n", "holds 2 vectors, and says that there are 3"),
        (b"a 1 2\nb 1\n", r":2: not a word and 2 numbers"),
        (b"2 2\na 1 2\na 1 2\n", "'a' occurs twice"),
        (b"1 2\na 1 nan\n", "no numbers"),
        (b"2 2\na \x00\x00\x80\x3f\x00\x00\x80\x3f\n", "ends after 1 of 2 vectors"),
        (b"word\n", ":1: not a word and"),
    ],
)
def test_broken_files_are_told(tmp_path, content, message):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_word2vec(tmp_path / "v")


def test_words_with_spaces_cannot_be_written(tmp_path):
    with pytest.raises(UsageError, match="'new york' cannot be written"):
        write_word2vec(tmp_path / "v", NamedVectors(("new york",), torch.zeros(1, 2)))
    assert list(tmp_path.iterdir()) == []
