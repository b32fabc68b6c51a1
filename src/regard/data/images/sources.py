"""Where labelled images come from: folders, archives, tables and arrays, each a stream of examples.

    photos/cat/1.jpg, photos/dog/…      a folder of class folders; above them `train/`, `valid/` and `test/` are parts
    photos.tar.gz, photos.zip           the same inside an archive, which is read where it is
    photos.csv                          columns `image` (a path from the table's own folder) and `label`
    photos.npz                          arrays, see `arrays`

Nothing is decoded here: an example holds a path, a file's bytes, or an array, and says where it was found.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from regard.data.images.arrays import Array, array_names, read_arrays
from regard.data.images.files import SUFFIXES
from regard.data.io.archives import is_archive, members_of, names_in
from regard.data.io.lines import Say, hash_file
from regard.data.io.tables import find_columns, read_cells, table_format
from regard.errors import DataError

Part = Literal["train", "valid", "test"]
PARTS: dict[Part, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "dev", "validation"),
    "test": ("test", "testing"),
}


class ImageExample(NamedTuple):
    """An image that was not looked at yet, its label, and where it was found."""

    held: Path | bytes | Array
    label: str
    where: str


@dataclass(frozen=True)
class ImageSource:
    """A place that holds labelled images; reads nothing until asked. `image` and `label` are columns of a table."""

    path: Path
    image: str = "image"
    label: str = "label"

    @property
    def kind(self) -> Literal["folder", "archive", "table", "npz"]:
        """What sort of place it is, by what is there and how it is called."""
        if self.path.is_dir():
            return "folder"
        if self.path.suffix.lower() == ".npz":
            return "npz"
        return "archive" if is_archive(self.path) else "table"

    def parts(self) -> list[Part]:
        """The parts that the place is divided into; none if it is one set. Looked for once."""
        return list(self._found_parts)

    @cached_property
    def _found_parts(self) -> list[Part]:
        if self.kind == "table":
            return []
        if self.kind == "npz":
            return _parts(name.removesuffix("_images") for name in array_names(self.path))
        if self.kind == "folder":
            return _parts(entry.name for entry in self.path.iterdir() if entry.is_dir())
        return _parts(name.parts[0] for name in names_in(self.path))

    def examples(self, part: Part | None = None, say: Say = lambda _: None) -> Iterator[ImageExample]:
        """Every example of a part, or of the whole place where it is not divided, in a fixed order.

        Class folders without images are passed over, and said.
        """
        if self.kind == "npz":
            return _from_arrays(self.path, part)
        if self.kind == "table":
            return _from_table(self.path, self.image, self.label)
        return (_from_folder if self.kind == "folder" else _from_archive)(self.path, part, say)

    def fingerprint(self) -> str:
        """A SHA-256 of what is there: of a file its bytes, of loose images their names, sizes and times; made once."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        total = hashlib.sha256(repr((self.image, self.label)).encode())
        if self.kind == "folder":
            for path in _files_below(self.path):
                total.update(f"{path.relative_to(self.path)} {_stamp(path)}".encode())
        else:
            total.update(hash_file(self.path).encode())
        if self.kind == "table":
            for example in self.examples():
                total.update(_stamp(example.held).encode())
        return total.hexdigest()


def _parts(names: Iterable[str]) -> list[Part]:
    present = set(names)
    return [part for part, spellings in PARTS.items() if present & set(spellings)]


def _from_folder(folder: Path, part: Part | None, say: Say) -> Iterator[ImageExample]:
    root = folder
    if part is not None:
        root = next((folder / name for name in PARTS[part] if (folder / name).is_dir()), folder / part)
    classes = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise DataError(
            f"{root}: holds no folders; one for each class is needed, with its images in it",
            hint="or give a table of images and labels: a .csv file with the columns image and label",
        )
    empty = []
    for named in classes:
        images = [path for path in _files_below(named) if path.suffix.lower() in SUFFIXES]
        if not images:
            empty.append(named.name)
        for path in images:
            yield ImageExample(path, named.name, str(path))
    _say_empty(root, empty, len(classes), say)


def _from_archive(archive: Path, part: Part | None, say: Say) -> Iterator[ImageExample]:
    wanted, above = ((), 0) if part is None else (PARTS[part], 1)
    named, filled = set(), set()
    for name, content in members_of(archive):
        inside = name.parts[above:]
        if not inside or (above and name.parts[0] not in wanted):
            continue
        if content is None:
            named.add(inside[0])
        elif len(inside) > 1 and name.suffix.lower() in SUFFIXES:
            filled.add(inside[0])
            yield ImageExample(content, inside[0], f"{archive}: {name}")
    if not filled:
        raise DataError(f"{archive}: holds no images in class folders, such as cat/1.jpg")
    _say_empty(archive, sorted(named - filled), len(named | filled), say)


def _from_table(path: Path, image: str, label: str) -> Iterator[ImageExample]:
    format = table_format(path)
    columns = find_columns(path, {"image": image, "label": label}, format=format)
    for (name, labelled), line in read_cells(path, columns, format=format):
        if name in (None, "") or labelled in (None, ""):
            raise DataError(f"{path}:{line}: the {'image' if name in (None, '') else 'label'} is empty")
        file = path.parent / str(name)
        yield ImageExample(file, str(labelled), f"{path}:{line}: {file}")


def _from_arrays(path: Path, part: Part | None) -> Iterator[ImageExample]:
    prefixes = [""] if part is None else [f"{name}_" for name in PARTS[part]]
    images, labels, name = read_arrays(path, prefixes)
    for row, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        yield ImageExample(pixels, label, f"{path}: {name}[{row}]")


def _files_below(folder: Path) -> list[Path]:
    """Every file below a folder that is not hidden, in a fixed order."""
    paths = []
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(parent) / name for name in sorted(files) if not name.startswith(".")]
    return paths


def _stamp(held: Path | bytes | Array) -> str:
    """The size and the time of a file."""
    try:
        facts = held.stat() if isinstance(held, Path) else None
    except OSError:
        facts = None
    return "absent" if facts is None else f"{facts.st_size} {facts.st_mtime_ns}"


def _say_empty(where: Path, empty: Sequence[str], n: int, say: Say) -> None:
    """Say which class folders have no images; if none has any it is an error."""
    if len(empty) == n:
        raise DataError(
            f"{where}: none of its {n:,} class folders holds images",
            hint=f"put some there: {', '.join(SUFFIXES[:4])}, …",
        )
    if empty:
        shown = ", ".join(empty[:5]) + (", …" if len(empty) > 5 else "")
        say(f"{where}: passed over, since they hold no images: {shown}")
