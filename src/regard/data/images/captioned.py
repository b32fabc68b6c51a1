"""The images that captions are about, from a folder or straight out of an archive, decoded once into a store.

    held = hold_pictures(source, place, size=80, folder=…)        examples, and their pixels uint8 (n, 3, 80, 80)

An image that is missing or cannot be read is named with the row that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from regard.config.data import BadRows
from regard.data.images.arrays import Array
from regard.data.images.sources import ImageExample
from regard.data.images.store import ImageStore
from regard.data.io.archives import is_archive, members_of
from regard.data.text.pairs import hash_file
from regard.errors import DataError
from regard.tasks.captions.table import Captioned, CaptionSource, Say


@dataclass(frozen=True, eq=False)
class Held:
    """Images with captions: `examples` and, in their order, `pixels` (n, 3, H, W)."""

    examples: list[Captioned]
    pixels: Array

    def __len__(self) -> int:
        return len(self.examples)


def hold_pictures(
    source: CaptionSource,
    place: Path,
    *,
    size: int,
    folder: Path,
    bad: BadRows = "refuse",
    say: Say = lambda _: None,
) -> Held:
    """Read captions and decode their images under `folder`, or find there what was decoded before.

    Names are looked for in `place`, a folder or an archive; in an archive, folders around a file need not be named.
    """
    examples = source.examples(bad=bad, say=say)
    key = sha256(repr((source.fingerprint(), _stamp(place, examples), size, bad)).encode()).hexdigest()

    def build(made: Path) -> ImageStore:
        asked = (
            _from_archive(examples, place, source.name) if is_archive(place) else _loose(examples, place, source.name)
        )
        return ImageStore.build(asked, made, size=(size, size), bad=bad, fingerprint=key)

    store = ImageStore.cached(key, folder, build=build)
    if store.header.dropped:
        say(f"{source.name}: {store.header.dropped:,} of {len(examples):,} images left out: they cannot be read")
    by_name = {example.image: example for example in examples}
    return Held([by_name[store.header.names[label]] for label in store.labels.tolist()], store.pixels)


def _loose(examples: Sequence[Captioned], folder: Path, table: str) -> Iterator[ImageExample]:
    if not folder.is_dir():
        raise DataError(
            f"{folder}: images are looked for there, and it is neither a folder nor an archive",
            hint="say where they are: data.images=FOLDER, or an archive (.tar.gz, .zip)",
        )
    for example in examples:
        path = folder / example.image
        yield ImageExample(path, example.image, f"{table}:{example.line}: {path}")


def _from_archive(examples: Sequence[Captioned], archive: Path, table: str) -> Iterator[ImageExample]:
    """The archive is read once from front to back; what is not in it comes last."""
    waiting: dict[str, list[Captioned]] = {}
    for example in examples:
        waiting.setdefault(PurePosixPath(example.image).name, []).append(example)
    for member, content in members_of(archive):
        for example in list(waiting.get(member.name, ())) if content is not None else ():
            asked = PurePosixPath(example.image).parts
            shared = min(len(asked), len(member.parts))
            if content is not None and member.parts[-shared:] == asked[-shared:]:
                waiting[member.name].remove(example)
                yield ImageExample(content, example.image, f"{table}:{example.line}: {archive}: {member}")
    for example in (example for left in waiting.values() for example in left):
        path = archive / example.image
        yield ImageExample(path, example.image, f"{table}:{example.line}: {path}")


def _stamp(place: Path, examples: Sequence[Captioned]) -> object:
    """What changes when the images do: an archive's hash; of loose files, their sizes and times."""
    if is_archive(place):
        return hash_file(place)
    stamps = []
    for example in examples:
        try:
            facts = (place / example.image).stat()
            stamps.append((facts.st_size, facts.st_mtime_ns))
        except OSError:
            stamps.append((-1, -1))
    return stamps
