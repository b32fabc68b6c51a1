"""Ways to spoil a file, the same ones every time: mutant `n` of a file is decided by its name and `n` alone.

    for mutant in mutants(path.read_bytes(), name="config.json", n=40): mutant.place(path)

The first ones replace the file by what is no file of its kind (nothing, a folder, a pipe, a device, a bottomless pit);
the rest change bits, lengths, counts, types and nesting. Files that hold others (zip, gzip, safetensors, PNG) are also
taken apart, changed inside, and put together again with checksums that are right.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

Change = Callable[[bytes, Random], bytes]
COUNTS = (0, 1, 2, 127, 255, 65535, 2**24, 2**31 - 1, 2**32 - 1, 2**36, 2**50, 2**60, 2**63 - 1)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 10**7, 2**31, 2**50, 2**60, 10**40, 0.5, -0.1, 1e-300, 1e300,
    float("nan"), float("inf"), "", "x", "1", "\x00", "\ud800", "名" * 40, "a" * 100_000, [], [[]], [1, "a", None],
    [1e300] * 3, {}, {"a": 1}, {"": {"": []}},
)  # fmt: skip
WORDS = (
    b"-1", b"0", b"1", b"7", b"10000000", b"1152921504606846976", b"1e400", b"nan", b"-inf", b"0.5", b"true", b'""',
    b'"x"', b"[]", b"{}", b"null", b"9" * 5000, b"0x10", b"\xff", b"\x00", b"1_0", b"2020-01-01",
)  # fmt: skip
DEEP = 100_000


@dataclass(frozen=True)
class Mutant:
    """What was done to a file, and what stands in its place."""

    what: str
    place: Callable[[Path], None]


def mutants(data: bytes, *, name: str, n: int) -> Iterator[Mutant]:
    """The first `n` mutants of a file with this content; its name says what it can be taken apart as."""
    whole = list(_replaced(data, name))
    changes = _changes(name, data)
    for number in range(n):
        if number < len(whole):
            yield whole[number]
            continue
        chance = Random(f"{name} {number}")
        what, change = chance.choice(changes)
        yield Mutant(f"{number}: {what}", _writer(lambda change=change, chance=chance: change(data, chance)))  # type: ignore[misc]


def _writer(content: Callable[[], bytes]) -> Callable[[Path], None]:
    return lambda path: _write(path, content())


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _sparse(path: Path, data: bytes) -> None:
    _write(path, data)
    os.truncate(path, 6 << 30)


def _replaced(data: bytes, name: str) -> Iterator[Mutant]:
    """What stands in the place of the file: each of these once."""
    yield Mutant("missing", lambda path: None)
    yield Mutant("a folder", lambda path: path.mkdir())
    yield Mutant("a pipe", lambda path: os.mkfifo(path))
    yield Mutant("a device", lambda path: path.symlink_to("/dev/zero"))
    yield Mutant("a link to itself", lambda path: path.symlink_to(path))
    yield Mutant("6 GB with a hole", lambda path: _sparse(path, data))
    contents: dict[str, bytes] = {
        "empty": b"",
        "a zero byte": b"\0",
        "half": data[: len(data) // 2],
        "one byte less": data[:-1],
        "twice": data + data,
        "nested lists": b"[" * DEEP,
        "nested lists that end": b"[" * DEEP + b"]" * DEEP,
        "nested objects": b'{"a":' * DEEP,
    }
    if name.endswith((".toml",)):
        contents["a nested array"] = data + b"\nx = " + b"[" * DEEP + b"]" * DEEP + b"\n"
        contents["a long key"] = b".".join([b"a"] * DEEP) + b" = 1\n" + data
        contents["nested tables"] = data + b"\nx = " + b"{a = " * 5000 + b"1" + b"}" * 5000 + b"\n"
    if name.endswith((".json", ".jsonl")):
        contents["a nested field"] = b'{"a": ' * 5000 + b"1" + b"}" * 5000
        contents["a nested field in it"] = (
            data.rstrip().removesuffix(b"}") + b', "x": ' + b"[" * 900 + b"]" * 900 + b"}"
        )
    for what, content in contents.items():
        yield Mutant(what, _writer(lambda content=content: content))  # type: ignore[misc]
    if name.endswith((".txt", ".csv", ".tsv", ".jsonl", ".gz", "squad.json", "vectors.txt", "glove.txt")):
        yield Mutant("a line of 3 GB, packed", lambda path: _write(path, _bomb()))
    if name.endswith(".zip"):
        yield Mutant("a member of 5 GB, packed", lambda path: _write(path, _zip_bomb(data)))


@cache
def _bomb() -> bytes:
    """3 GB of the letter a, as gzip packs it in parts."""
    return gzip.compress(b"a" * (64 << 20), 1, mtime=0) * 48


def _zip_bomb(data: bytes) -> bytes:
    """The archive with its first file grown to 5 GB of zeros."""
    size, packer = 80 * (64 << 20), zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = (packer.compress(bytes(64 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)) * 80 + b"\x03\x00"
    with zipfile.ZipFile(io.BytesIO(data)) as held:
        name = held.namelist()[0].encode()
    extra = struct.pack("<HHQQ", 1, 16, size, len(packed))
    common = struct.pack("<HHHHHIII", 45, 0, 8, 0, 0x21, 0, 2**32 - 1, 2**32 - 1)
    local = b"PK\3\4" + common + struct.pack("<HH", len(name), len(extra)) + name + extra + packed
    listed = b"PK\1\2\x2d\0" + common + struct.pack("<HHHHHII", len(name), len(extra), 0, 0, 0, 0, 0) + name + extra
    return local + listed + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listed), len(local), 0)


def _changes(name: str, data: bytes) -> Sequence[tuple[str, Change]]:
    """The changes that fit a file, the telling ones more often."""
    plain: list[tuple[str, Change]] = [
        ("a bit", flip), ("bits", flip_many), ("cut", cut), ("a byte", put_byte), ("a count", put_count),
        ("a stretch out", take_out), ("a stretch twice", repeat), ("noise", noise),
    ]  # fmt: skip
    if name.endswith(".json"):
        return [*plain[:3], *[("a value", change_json)] * 5, ("a token", change_token)]
    if name.endswith(".jsonl"):
        return [*plain[:3], *[("a value", change_json_line)] * 4, ("a token", change_token), ("lines", change_lines)]
    if name.endswith((".toml", ".csv", ".tsv", ".txt", ".tiktoken")):
        return [*plain[:3], *[("a token", change_token)] * 4, *[("lines", change_lines)] * 2, ("noise", noise)]
    inside: dict[str, Change] = {
        ".safetensors": change_safetensors, ".npz": change_zip, ".zip": change_zip, ".pt": change_pickle,
        ".tar": change_tar, ".png": change_png,
    }  # fmt: skip
    for suffix, change in inside.items():
        if name.endswith(suffix):
            return [*plain, *[("inside", change)] * 8]
    if name.endswith("pytorch_model.bin"):
        return [*plain, *[("inside", change_pickle)] * 8]
    if name.endswith(".gz"):
        return [*plain, *[("inside", change_gzip)] * 4]
    return plain


# ---- bytes


def _place(data: bytes, chance: Random) -> int:
    """A place in it: as often near the beginning, where headers are, as anywhere."""
    end = max(1, len(data))
    return chance.randrange(min(end, 400)) if chance.random() < 0.6 else chance.randrange(end)


def flip(data: bytes, chance: Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :] if data else data


def flip_many(data: bytes, chance: Random) -> bytes:
    for _ in range(chance.randint(2, 24)):
        data = flip(data, chance)
    return data


def cut(data: bytes, chance: Random) -> bytes:
    return data[: _place(data, chance)]


def put_byte(data: bytes, chance: Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + bytes([chance.choice((0, 1, 9, 32, 127, 128, 255))]) + data[at + 1 :]


def put_count(data: bytes, chance: Random) -> bytes:
    """A whole number of two, four or eight bytes, blown up, at a place where one may stand."""
    size, order = chance.choice((2, 4, 4, 8, 8)), chance.choice(("little", "little", "big"))
    at = _place(data, chance) // chance.choice((1, 4)) * 1
    count = min(chance.choice(COUNTS), 2 ** (8 * size) - 1)
    return data[:at] + count.to_bytes(size, order) + data[at + size :]  # type: ignore[arg-type]


def take_out(data: bytes, chance: Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + data[at + chance.randint(1, 64) :]


def repeat(data: bytes, chance: Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + data[at : at + chance.randint(1, 64)] * chance.choice((2, 3, 100)) + data[at:]


def noise(data: bytes, chance: Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + chance.randbytes(chance.randint(1, 64)) + data[at:]


# ---- text


_TOKEN = re.compile(rb'"[^"\n]{0,200}"|[\w.+-]+')


def change_token(data: bytes, chance: Random) -> bytes:
    """A word, a number or a quoted text becomes another thing."""
    found = list(_TOKEN.finditer(data[:20_000]))
    if not found:
        return noise(data, chance)
    one = chance.choice(found)
    return data[: one.start()] + chance.choice((*WORDS, chance.choice(found)[0])) + data[one.end() :]


def change_lines(data: bytes, chance: Random) -> bytes:
    """A line goes, comes twice, changes places, or loses its end."""
    lines = data.split(b"\n")
    i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
    how = chance.randrange(5)
    if how == 0:
        del lines[i]
    elif how == 1:
        lines.insert(j, lines[i])
    elif how == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif how == 3:
        lines[i] = lines[i][: chance.randint(0, len(lines[i]))]
    else:
        lines[i] = lines[i] * chance.choice((2, 500))
    return b"\n".join(lines)


# ---- JSON


def change_json(data: bytes, chance: Random) -> bytes:
    """A value somewhere in it becomes another thing, goes, or gets another name."""
    return json.dumps(_changed(json.loads(data), chance)).encode()


def change_json_line(data: bytes, chance: Random) -> bytes:
    lines = data.split(b"\n")
    at = chance.choice([i for i, line in enumerate(lines) if line.strip()])
    lines[at] = change_json(lines[at], chance)
    return b"\n".join(lines)


def _changed(value: Any, chance: Random) -> Any:
    entries: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    if not entries or chance.random() < 0.12:
        return _other(value, chance)
    key = chance.choice(entries)
    held: Any = dict(value) if isinstance(value, dict) else list(value)
    how = chance.random()
    if how < 0.1:
        del held[key]
    elif how < 0.2 and isinstance(held, dict):
        held[chance.choice(("", "x", f"{key}s", chance.choice(entries)))] = held.pop(key)
    elif how < 0.25 and isinstance(held, list):
        held += [held[key]] * chance.choice((1, 3, 1000))
    else:
        held[key] = _changed(held[key], chance)
    return held


def _other(value: Any, chance: Random) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.5:
        return value + chance.choice((-1, 1, value, 2**20, 2**40))
    if chance.random() < 0.1:
        for _ in range(chance.choice((10, 500))):
            value = [value]
        return value
    return chance.choice(VALUES)


# ---- files that hold others


def change_safetensors(data: bytes, chance: Random) -> bytes:
    """The header, which is JSON, with a length that fits it."""
    size = struct.unpack("<Q", data[:8])[0]
    header = change_json(data[8 : 8 + size], chance)
    return struct.pack("<Q", len(header)) + header + data[8 + size :]


def _any(data: bytes, chance: Random) -> bytes:
    return chance.choice((flip, flip_many, cut, put_count, put_count, take_out, change_token, change_token))(
        data, chance
    )


def change_zip(data: bytes, chance: Random) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as held, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as out:
        entries = held.infolist()
        chosen = chance.choice(entries).filename
        for entry in entries:
            content = held.read(entry)
            out.writestr(entry.filename, _any(content, chance) if entry.filename == chosen else content)
    return made.getvalue()


def change_pickle(data: bytes, chance: Random) -> bytes:
    """What `torch.save` wrote: more often in its pickle than in its numbers, stored as they were."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as held, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        entries = held.infolist()
        pickled = [entry.filename for entry in entries if entry.filename.endswith("data.pkl")]
        chosen = chance.choice(pickled * 2 * len(entries) + [entry.filename for entry in entries])
        for entry in entries:
            content = held.read(entry)
            out.writestr(entry.filename, _any(content, chance) if entry.filename == chosen else content)
    return made.getvalue()


def change_tar(data: bytes, chance: Random) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as held, tarfile.open(fileobj=made, mode="w") as out:
        members = held.getmembers()
        chosen = chance.choice(members).name
        for member in members:
            file = held.extractfile(member)
            content = b"" if file is None else file.read()
            if member.name == chosen:
                content = _any(content, chance)
                member.type = chance.choice(
                    (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
                )
                member.linkname = chance.choice(("/etc/passwd", "../../x", member.name, ""))
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return made.getvalue()


def change_gzip(data: bytes, chance: Random) -> bytes:
    return gzip.compress(_any(gzip.decompress(data), chance), mtime=0)


def change_png(data: bytes, chance: Random) -> bytes:
    """A chunk, its sum made right again."""
    chunks, at = [], 8
    while at < len(data):
        size = struct.unpack(">I", data[at : at + 4])[0]
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    chosen = chance.randrange(len(chunks))
    chunks[chosen] = (chunks[chosen][0], _any(chunks[chosen][1], chance))
    parts = [
        struct.pack(">I", len(held)) + kind + held + struct.pack(">I", zlib.crc32(kind + held)) for kind, held in chunks
    ]
    return data[:8] + b"".join(parts)
