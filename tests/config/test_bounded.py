"""The door for files of others: what is no file, too large or too deep is refused before anything is taken for it."""

import os

import pytest

from regard.config.bounded import (
    DEEPEST,
    NotRegular,
    allowed,
    at_most,
    free_memory,
    open_regular,
    parse_json,
    parse_toml,
    read_bytes,
    read_json,
    read_size,
    require,
)
from regard.errors import EnvironmentProblem, UsageError


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotRegular, match=r"it is a pipe, and a file was expected"):
        open_regular(tmp_path / "pipe")


def test_a_device_is_refused():
    with pytest.raises(NotRegular, match=r"it is a device"):
        read_bytes("/dev/zero")


def test_a_folder_and_a_missing_file_are_what_they_always_were(tmp_path):
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "gone")
    with pytest.raises(FileNotFoundError):
        open_regular(f"{tmp_path}/zero\0byte")


def test_what_a_shell_hands_over_is_read_where_streams_are_allowed():
    read, write = os.pipe()
    os.write(write, b"some text\n")
    os.close(write)
    try:
        with open_regular(f"/dev/fd/{read}", streams=True) as file:
            assert file.read() == b"some text\n"
        with pytest.raises(NotRegular):
            open_regular(f"/dev/fd/{read}")
    finally:
        os.close(read)


def test_a_size_beyond_what_such_a_file_has(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 11)
    assert read_bytes(tmp_path / "a", most=11) == b"x" * 11
    with pytest.raises(ValueError, match=r"11 B, and such a file has at most 10 B"):
        read_bytes(tmp_path / "a", most=10)


def nested(depth):
    return "[" * depth + "]" * depth


def test_depth_of_json_is_counted_exactly():
    assert parse_json(nested(DEEPEST)) is not None
    with pytest.raises(ValueError, match=r"more than 64 deep"):
        parse_json(nested(DEEPEST + 1))
    with pytest.raises(ValueError, match=r"more than 64 deep"):
        parse_json(nested(100_000))
    assert parse_json('["' + "[" * 1000 + '"]') == ["[" * 1000]  # brackets in a text are no depth


@pytest.mark.parametrize(
    "text",
    [f"a = {nested(1000)}", "a = " + "{b = " * 500 + "1" + "}" * 500, ".".join("a" * 100_000) + " = 1",
     "x = 1\n[" + ".".join(["'a'"] * 50_000) + "]"],
)  # fmt: skip
def test_depth_of_toml(text):
    with pytest.raises(ValueError, match=r"more than 64 deep"):
        parse_toml(text)


def test_toml_with_dots_in_its_texts_is_read():
    text = "a." * 500
    assert parse_toml(f'x = "{text} "\ny.z = 1.5') == {"x": text + " ", "y": {"z": 1.5}}


def test_a_limit_holds_for_its_block_and_is_put_back():
    before = allowed()
    with at_most(1000):
        assert allowed() == 1000
        require(1000, "a: it")
        with at_most(10), pytest.raises(EnvironmentProblem, match=r"a: it would take 11 B of memory, and 10 B may be"):
            require(11, "a: it")
        assert allowed() == 1000
    assert allowed() > 1000
    assert before > 1000


def test_a_file_larger_than_what_is_allowed(tmp_path):
    (tmp_path / "a.json").write_text("[" + "1," * 5000 + "1]")
    with at_most(10_000), pytest.raises(EnvironmentProblem, match=r"a.json: reading it would take .* kB") as caught:
        read_json(tmp_path / "a.json")
    assert "--max-memory" in caught.value.hint
    assert len(read_json(tmp_path / "a.json")) == 5001


def test_what_is_free_is_less_than_anything():
    assert 0 < free_memory() < 2**62
    with pytest.raises(EnvironmentProblem):
        require(2.0**70, "a: it")


@pytest.mark.parametrize(
    ("text", "n"), [("10", 10), ("8GB", 8 * 10**9), ("1.5 GiB", 3 << 29), ("500mb", 5 * 10**8), ("2k", 2000)]
)
def test_sizes(text, n):
    assert read_size(text) == n


def test_what_is_no_size():
    with pytest.raises(UsageError, match=r"'much' is not a size"):
        read_size("much")
