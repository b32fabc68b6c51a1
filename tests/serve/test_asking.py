"""Files that were sent lie where a model can read them, under a name that harms nobody; streams end when they do."""

import asyncio
import time
from pathlib import Path

import pytest

from regard.serve.asking import TokenQueue, kept_files
from regard.serve.errors import ApiError


@pytest.mark.parametrize(
    ("sent", "kept", "told"),
    [
        ("dog.png", "dog.png", "dog.png"),
        ("Ein Hund (2).PNG", "Ein Hund (2).png", "Ein Hund (2).PNG"),
        ("../../etc/passwd.png", "passwd.png", "passwd.png"),
        ("C:\\photos\\犬.png", "犬.png", "犬.png"),
        ("a\0b<i>.png", "a_b_i_.png", "a\0b<i>.png"),
        (".png", "file.png", ".png"),
        ("...png", "__.png", "...png"),
        ("x" * 400 + ".png", "x" * 50 + ".png", "x" * 400 + ".png"),
        ("🐈" * 400 + ".png", "_" * 50 + ".png", "🐈" * 400 + ".png"),
        ("table.csv.gz", "table.csv.gz", "table.csv.gz"),
    ],
)
def test_names_are_harmless(sent, kept, told):
    with kept_files([(sent, b"one"), ("b.png", b"two")], (".png", ".csv", ".csv.gz")) as files:
        (path, name), (other, _) = files
        assert (Path(path).name, name) == (kept, told)
        assert (Path(path).read_bytes(), Path(other).read_bytes()) == (b"one", b"two")
        assert Path(path).parents[1] == Path(other).parents[1]
    assert not Path(path).exists()


def test_two_of_a_name_are_two_files():
    with kept_files([("a.png", b"one"), ("a.png", b"two")], (".png",)) as files:
        assert [Path(path).read_bytes() for path, _ in files] == [b"one", b"two"]


def test_other_files_are_refused():
    with pytest.raises(ApiError, match=r"'a.exe' is no file for this model; it reads .png"):  # noqa: SIM117
        with kept_files([("a.exe", b"x")], (".png",)):
            raise AssertionError


async def paused(item, seconds):
    """For how long a stream pauses, where an item comes meanwhile."""
    queue, began = TokenQueue(), time.monotonic()
    asyncio.get_running_loop().call_later(0.01, queue.put_nowait, item)
    await queue.pause(seconds)
    return time.monotonic() - began


def test_tokens_gather_for_a_while_and_the_end_of_a_stream_does_not_wait():
    assert asyncio.run(paused([3, 4], 0.1)) >= 0.09
    assert asyncio.run(paused(None, 30.0)) < 15.0
