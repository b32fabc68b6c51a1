"""Gzip undone: parts, zeros behind the end, and what is damaged."""

import gzip
import io
import zlib

import pytest

from regard.data.io.gzipped import Unpacked
from regard.data.io.lines import read_lines
from regard.errors import DataError


def unpacked(packed):
    return io.BufferedReader(Unpacked(io.BytesIO(packed))).read()


@pytest.mark.parametrize("content", [b"", b"a", b"some text\n" * 100_000, bytes(3_000_000)])
def test_what_was_packed_comes_back(content):
    assert unpacked(gzip.compress(content)) == content


def test_parts_follow_each_other_and_zeros_may_fill_up():
    packed = gzip.compress(b"one ") + gzip.compress(b"two") + bytes(5000)
    assert unpacked(packed) == b"one two"


def test_zeros_without_end_are_refused():
    with pytest.raises(zlib.error, match=r"more than 1,048,576 zeros stand behind it"):
        unpacked(gzip.compress(b"one") + bytes(2_000_000))


def test_cut_and_changed():
    packed = gzip.compress(b"some text " * 1000)
    for end in (5, 20, len(packed) - 1):
        with pytest.raises(EOFError):
            unpacked(packed[:end])
    with pytest.raises(zlib.error):
        unpacked(packed[:-8] + b"\0\0\0\0" + packed[-4:])
    with pytest.raises(zlib.error):
        unpacked(packed + b"something else")


def test_a_line_of_3_gigabytes_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(gzip.compress(b"a" * (64 << 20), 1) * 48)
    with pytest.raises(DataError, match=r"a.txt:1: a line is longer than 67,108,864 characters"):
        next(read_lines(tmp_path / "a.txt"))
