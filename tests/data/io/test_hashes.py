"""Hashes of files: a changed bit is noticed, whatever the size of the file, and a kill leaves none that is wrong."""

import hashlib
import os
import signal
from pathlib import Path

import pytest

from regard.data.io import hashes
from regard.data.io.hashes import (
    Damaged,
    check_hashes,
    forget_hashes,
    hash_of,
    hash_synced,
    read_hashes,
    record_hashes,
    replacing,
)


def flip(path: Path, place: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def test_a_small_file_has_the_hash_that_sha256sum_gives(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"attention")
    assert hash_of(tmp_path / "a") == (9, hashlib.sha256(b"attention").hexdigest())
    assert hash_of(tmp_path / "a", size=3) == (3, hashlib.sha256(b"att").hexdigest())


def test_a_large_file_has_the_hash_of_its_parts_hashes(tmp_path: Path) -> None:
    content = os.urandom(2 * 2**22 + 5)
    (tmp_path / "a").write_bytes(content)
    parts = b"".join(hashlib.sha256(content[i : i + 2**22]).digest() for i in range(0, len(content), 2**22))
    assert hash_of(tmp_path / "a") == (len(content), hashlib.sha256(parts).hexdigest())
    assert hash_synced(tmp_path / "a") == hash_of(tmp_path / "a")


@pytest.mark.parametrize("size", [1, 1000, 2**22, 2**22 + 1, 3 * 2**22])
def test_any_flipped_bit_is_noticed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(size))
    record_hashes(tmp_path, ["weights"])
    assert check_hashes(tmp_path)
    for place in (0, size // 2, size - 1):
        flip(path, place, bit=place % 8)
        with pytest.raises(Damaged, match="weights: damaged: not as it was written") as problem:
            check_hashes(tmp_path)
        assert problem.value.hint
        flip(path, place, bit=place % 8)
    path.write_bytes(bytes(size + 1))
    with pytest.raises(Damaged):
        check_hashes(tmp_path)
    path.unlink()
    with pytest.raises(Damaged, match="there is no such file, and there was one"):
        check_hashes(tmp_path)


def test_no_bit_of_the_hashes_themselves_can_be_flipped(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"attention")
    record_hashes(tmp_path, ["a"])
    whole = (tmp_path / hashes.NAME).read_bytes()
    for place in range(len(whole)):
        flip(tmp_path / hashes.NAME, place)
        try:
            assert check_hashes(tmp_path)  # a space that became another is no harm
            assert read_hashes(tmp_path) == {"a": [hash_of(tmp_path / "a")]}
        except Damaged:
            pass
        (tmp_path / hashes.NAME).write_bytes(whole)


def test_a_folder_without_hashes_is_of_an_older_version(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"attention")
    assert read_hashes(tmp_path) is None
    assert check_hashes(tmp_path) is False


def test_reports_may_grow_and_nothing_else(tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "other.jsonl"):
        (tmp_path / name).write_text('{"step": 1}\n')
    record_hashes(tmp_path, ["metrics.jsonl", "other.jsonl"])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2}\n')
    assert check_hashes(tmp_path)
    flip(tmp_path / "metrics.jsonl", 10)
    with pytest.raises(Damaged, match=r"metrics\.jsonl"):
        check_hashes(tmp_path)
    forget_hashes(tmp_path, ["metrics.jsonl"])
    assert check_hashes(tmp_path)
    with (tmp_path / "other.jsonl").open("a") as file:
        file.write("more")
    with pytest.raises(Damaged, match=r"other\.jsonl"):
        check_hashes(tmp_path)


@pytest.mark.parametrize("before", [True, False])
def test_a_kill_while_a_file_is_replaced_leaves_a_right_hash(tmp_path: Path, before: bool) -> None:
    path, draft = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"old")
    record_hashes(tmp_path, ["a"])
    draft.write_bytes(b"new one")
    for _ in range(3):  # however often
        if not (pid := os.fork()):
            with replacing(path, hash_of(draft)):
                if not before:
                    draft.replace(path)
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        assert check_hashes(tmp_path)
        assert path.read_bytes() == (b"old" if before else b"new one")
        if not before:
            break


def test_a_model_that_is_one_file_has_no_hashes(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert read_hashes(tmp_path / "model.gguf") is None


@pytest.mark.parametrize("old", [None, b"of an older version"])
def test_a_kill_before_a_file_first_has_a_hash_leaves_what_is_right(tmp_path: Path, old: bytes | None) -> None:
    path, draft = tmp_path / "a", tmp_path / ".draft-a"
    draft.write_bytes(b"new one")
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(KeyboardInterrupt), replacing(path, hash_of(draft)):
        raise KeyboardInterrupt
    assert check_hashes(tmp_path)
    with replacing(path, hash_of(draft)):
        draft.replace(path)
    assert check_hashes(tmp_path)
    path.unlink()
    with pytest.raises(hashes.Damaged, match="there is no such file, and there was one"):
        check_hashes(tmp_path)
