"""What was made once from files and options: a folder that is whole or absent, with a header, found again by its key.

    header.json     what the folder holds: counts, types, and the `fingerprint` of what it was made from

A store is a subclass that names its files and its header; what was cut short later is noticed when it is opened,
and what changed in any bit when it is found again. A large one is made and kept in shards (`shards.py`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.config.bounded import read_json
from regard.data.io.atomic import whole_or_absent, write_synced
from regard.data.io.hashes import NAME as HASHES
from regard.data.io.hashes import Damaged, check_hashes, hash_of, record_hashes, write_hashes
from regard.data.io.shards import Facts, ShardJob, file_name, make_shards, put_together
from regard.errors import DataError

FORMAT = 1
REBUILD = "delete the folder and build it again"


@dataclass(frozen=True, kw_only=True)
class Header:
    """What the header of every store says."""

    fingerprint: str
    format: int = FORMAT

    def sound(self) -> bool:
        """Whether the numbers can be those of a store."""
        return True


class Store:
    """Something that is built into a folder, and opened from there the next time."""

    what: ClassVar[str]  # in messages
    header_file: ClassVar[str]
    header_type: ClassVar[type[Any]]
    files: ClassVar[tuple[str, ...]]  # beside the header

    def __init__(self, folder: Path, header: Any) -> None:
        self.folder, self.header = folder, header

    @property
    def fingerprint(self) -> str:
        """Of what it was made from, as given when it was built."""
        return str(self.header.fingerprint)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open what was built; anything else, or anything cut short, is a DataError."""
        folder, name = Path(folder), cls.what.removeprefix("a ")
        path = folder / cls.header_file
        try:
            header = cls.header_type(**read_json(path))
            sound = header.format == FORMAT and header.sound()
        except FileNotFoundError:
            raise DataError(f"{folder}: holds no {name} (no {cls.header_file})", hint="build it first") from None
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path}: cannot be read ({error})", hint=REBUILD) from error
        if not sound:
            raise DataError(f"{path}: not {cls.what} of format {FORMAT}", hint=REBUILD)
        return cls(folder, header)

    @classmethod
    def open_checked(cls, folder: Path | str) -> Self:
        """The same, and every byte as it was written; else it is Damaged, or a DataError."""
        check_hashes(Path(folder), hint=REBUILD)
        return cls.open(folder)

    @classmethod
    @contextmanager
    def writing(cls, folder: Path) -> Iterator[Path]:
        """A draft to write files and header into; it takes the place of `folder` once the block ends."""
        with whole_or_absent(folder, files=(cls.header_file, HASHES, *cls.files), what=cls.what) as draft:
            yield draft
            record_hashes(draft, (cls.header_file, *cls.files))

    @classmethod
    def build_shards(
        cls,
        job: ShardJob,
        folder: Path,
        *,
        n_units: int,
        workers: int,
        plan: Mapping[str, Any],
        header: Callable[[list[Facts]], Any],
        say: Callable[[str], None] = lambda _: None,
        name: str = "",
    ) -> Self:
        """Let several processes make the shards, then put them and `header(facts)` into `folder`, whole or absent."""
        shards = make_shards(job, n_units, plan=plan, workers=workers, name=name, say=say)
        kept = [facts for facts in shards if facts["sentences"]] or shards[:1]
        names = [file_name(name, i) for i, facts in enumerate(kept) for name in facts["hashes"]]
        older = [path.name for path in folder.glob("*-[0-9][0-9][0-9][0-9][0-9].*")] if folder.is_dir() else []
        allowed = (cls.header_file, HASHES, *cls.files, *names, *older)
        made = header(kept)
        with whole_or_absent(folder, files=allowed, what=cls.what) as draft:
            known = put_together(job.work, kept, draft)
            cls.write_header(draft, made)
            write_hashes(draft, {cls.header_file: [hash_of(draft / cls.header_file)], **known})
        shutil.rmtree(job.work, ignore_errors=True)
        return cls.open(folder)

    @classmethod
    def write_header(cls, draft: Path, header: Any) -> None:
        """Write the header, the last of all files."""
        write_synced(draft / cls.header_file, json.dumps(asdict(header), indent=2, ensure_ascii=False).encode())

    @classmethod
    def cached(
        cls, key: str, root: Path | str, *, build: Callable[[Path], Self], say: Callable[[str], None] = lambda _: None
    ) -> Self:
        """What was made from `key` under `root`; `build(folder)` makes it if it is absent, damaged or another's.

        `build` is to pass `fingerprint=key` on; `store_key` makes keys. That something is damaged is said.
        """
        folder = Path(root) / key[:24]
        stored = None
        if (folder / cls.header_file).exists():
            try:
                stored = cls.open_checked(folder)
            except (DataError, Damaged) as problem:
                say(f"{problem}; it is made anew")
        if stored is not None and stored.fingerprint == key:
            return stored
        made = build(folder)
        assert made.fingerprint == key, "build must pass fingerprint=key on"
        return made


def store_key(*parts: str | int | float | None) -> str:
    """A key for `cached` from all that decides the contents: fingerprints of sources and tokenizers, and options."""
    return hashlib.sha256(json.dumps([FORMAT, *parts]).encode()).hexdigest()


def whole_numbers(*counts: object, least: int = 0) -> bool:
    """Whether all of these are whole numbers, and at least so large."""
    return all(type(count) is int and count >= least for count in counts)
