"""The files of pairs as units of work, and which of their pairs are used: a bit each, found in one pass of checks.

    units = PairUnits.of(source, check, most=2**27)     reads all pairs through `check`, which lets some pass
    units.pairs(3)                                      those that passed, of the files of the fourth unit

What decides on a pair may need all that came before it (has it been there already?); the bits need nothing, so that
several processes can read different units at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.io.lines import Say
from regard.data.io.shards import group_files
from regard.data.text.moses import moses_tokenize
from regard.data.text.pairs import Pair, Pairs, PairSet, PairSource, is_chosen, rows_of
from regard.data.text.text_units import file_bytes
from regard.errors import DataError

Check = Callable[[Iterable[Pair]], Iterable[Pair]]


@dataclass(frozen=True, eq=False)
class PairUnits:
    """Sources in groups, and the bits of their rows; `moses` are two languages whose rules cut the texts first."""

    sources: tuple[PairSource, ...]
    groups: tuple[tuple[int, int], ...]
    used: tuple[npt.NDArray[np.uint8], ...]  # of each source, eight rows a byte
    moses: tuple[str, str] | None = None

    @classmethod
    def of(
        cls, source: Pairs, check: Check, *, most: int, moses: tuple[str, str] | None = None, say: Say = lambda _: None
    ) -> PairUnits:
        """The units of a source, of at most so many bytes as its files lie on the disk, and what passes the check."""
        sources = source.sources if isinstance(source, PairSet) else (source,)
        sizes = [sum(map(file_bytes, one.files())) for one in sources]
        bits = _used(source, sources, check, say)
        return cls(sources, tuple(group_files(sizes, most)), bits, moses)

    def __len__(self) -> int:
        return len(self.groups)

    def key(self) -> list[object]:
        """What tells these units from others of the same pairs."""
        return [list(group) for group in self.groups]

    def pairs(self, unit: int) -> Iterator[Pair]:
        """The pairs of a unit that are used."""
        for number in range(*self.groups[unit]):
            yield from self._pairs(number)

    def all_pairs(self) -> Iterator[Pair]:
        """Those of all units."""
        for number in range(len(self.sources)):
            yield from self._pairs(number)

    def _pairs(self, number: int) -> Iterator[Pair]:
        bits = self.used[number]
        rows = rows_of(self.sources[number])
        for index, pair in enumerate(rows):
            if bits[index >> 3] >> (7 - (index & 7)) & 1:
                yield pair if self.moses is None else _in_moses(pair, self.moses)


def _in_moses(pair: Pair, languages: tuple[str, str]) -> Pair:
    source, target = moses_tokenize(pair.source, languages[0]), moses_tokenize(pair.target, languages[1])
    return pair._replace(source=source, target=target)


def _used(source: Pairs, sources: tuple[PairSource, ...], check: Check, say: Say) -> tuple[npt.NDArray[np.uint8], ...]:
    """Read everything through the check; the bits of each source."""
    packed: list[npt.NDArray[np.uint8]] = []
    bits = bytearray()

    def chosen() -> Iterator[Pair]:
        total = 0
        for one in sources:
            for row in rows_of(one, say) if len(sources) > 1 else one.rows(say):
                total += 1
                bits.append(0)
                if is_chosen(source, total):
                    yield row
            packed.append(np.packbits(np.frombuffer(bytes(bits), np.uint8)))
            bits.clear()
        if not total:
            raise DataError(f"{source.name}: all of them are empty", hint="at least one line is needed")

    for _ in check(chosen()):  # which passes a pair on before it asks for the next
        bits[-1] = 1
    return tuple(packed)
