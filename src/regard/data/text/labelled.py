"""Texts with a label each, from tables: one text or a pair, and a class or a number.

    LabelSource("reviews.csv", text="review", label="stars")          columns named (or counted from 0 in TSV and CSV)
    LabelSource("glue/CoLA/train.tsv.gz")                             a layout that is known by its header or its shape

Known layouts are those of GLUE (Wang et al., 2019: CoLA has no header), TREC's questions (`CLASS:detail text`, Latin-1,
as it is given away), and tables with columns `text`, `label` and, for pairs, `pair`, or other names that people give
them (`columns.py`); of two columns without names, the texts are the longer one. A label is kept as it was found.
What cannot be used is named with its file and line, all of it together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.data import BadRows
from regard.data.io.columns import match_columns
from regard.data.io.lines import STDIN, Say, display_name, empty_file, hash_file, listed, open_bytes
from regard.data.io.tables import FORMATS, Column, as_texts, has_header, read_cells, read_header, table_format
from regard.errors import DataError, UsageError

_SEEN = 200  # rows
_TREC = re.compile(rb"[A-Z]{2,}:[a-z]+ \S")


class Example(NamedTuple):
    """A text, the one it is paired with if it is, its label as it was found, and the line they came from (from 1)."""

    text: str
    pair: str | None
    label: str
    line: int


class Layout(NamedTuple):
    """Which columns hold what; `numbers` says that labels are numbers rather than classes."""

    text: Column
    label: Column
    pair: Column | None = None
    numbers: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns to read: text, label and, for pairs, the second text."""
        return (self.text, self.label) if self.pair is None else (self.text, self.label, self.pair)


LAYOUTS = (  # the first whose columns are all there
    Layout("sentence1", "score", "sentence2", numbers=True),  # STS-B
    Layout("sentence1", "gold_label", "sentence2"),  # MNLI
    Layout("sentence1", "label", "sentence2"),  # RTE, WNLI
    Layout("#1 String", "Quality", "#2 String"),  # MRPC
    Layout("question1", "is_duplicate", "question2"),  # QQP
    Layout("question", "label", "sentence"),  # QNLI
    Layout("sentence", "label"),  # SST-2
    Layout("text", "label", "pair"),
    Layout("text", "label"),
)
COLA = Layout(3, 1)  # source, label, "*" where the source had one, sentence


@dataclass(frozen=True)
class LabelSource:
    """Where labelled texts are; reads nothing until asked.

    `format` is taken from the file's suffix unless it is given (a last `.gz` aside); a file whose first line looks like
    TREC's is read as that, anything else unknown as TSV. `text` and `label` are given together or not at all.
    `trec-fine` keeps TREC's detailed labels.
    """

    path: Path | str
    text: Column | None = None
    label: Column | None = None
    pair: Column | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        allowed = (*FORMATS, "trec", "trec-fine")
        if self.format is not None and self.format not in allowed:
            raise UsageError(f"format '{self.format}' is not known; allowed: {', '.join(allowed)}")
        if (self.text is None) != (self.label is None) or (self.pair is not None and self.text is None):
            given = {name: value for name in ("text", "label", "pair") if (value := getattr(self, name)) is not None}
            raise UsageError(f"columns given are {given}; text and label are needed together, pair only with them")

    @property
    def name(self) -> str:
        """What messages call this source."""
        return display_name(self.path)

    @cached_property
    def resolved_format(self) -> str:
        """The format that will be read."""
        if self.format is not None:
            return self.format
        usual = table_format(self.path)
        if usual != "tsv" or self.text is not None or str(self.path) == STDIN:
            return usual
        with open_bytes(self.path) as stream:
            return "trec" if _TREC.match(stream.readline()) else usual

    @cached_property
    def layout(self) -> Layout:
        """Which columns hold what: as given, or recognised."""
        if self.text is not None and self.label is not None:
            return Layout(self.text, self.label, self.pair)
        if self.resolved_format.startswith("trec"):
            return Layout(1, 0)
        if str(self.path) == STDIN:
            raise UsageError("columns of standard input are not guessed", hint='say which: text="…", label="…"')
        header = read_header(self.path, format=self.resolved_format)
        layout = _recognise(header)
        if layout is None and not has_header(self.path, format=self.resolved_format) and len(header) == 2:
            layout = self._longer()
        if layout is None:
            found = match_columns(header, ("text", "label"), where=f"{self.name}:1")
            layout = Layout(found["text"], found["label"])
        return layout

    def examples(self, say: Say = lambda _: None) -> Iterator[Example]:
        """Stream what is there, good or bad; an input without any row is an error."""
        example = None
        for example in self._trec() if self.resolved_format.startswith("trec") else self._table(say):
            yield example
        if example is None:
            raise empty_file(self.path)

    def fingerprint(self) -> str:
        """A SHA-256 over the bytes of the file and the way it is read."""
        parts = (hash_file(self.path), self.resolved_format, tuple(self.layout))
        return sha256(repr(parts).encode()).hexdigest()

    def _longer(self) -> Layout:
        """Two columns without names: the texts are those that are longer."""
        first, second = 0, 0
        for (one, other), _ in islice(read_cells(self.path, (0, 1), format=self.resolved_format), _SEEN):
            first, second = first + len(one), second + len(other)
        return Layout(0, 1) if first >= second else Layout(1, 0)

    def _table(self, say: Say) -> Iterator[Example]:
        layout = self.layout
        texts = [column for column in (layout.text, layout.pair) if column is not None]
        for values, line in read_cells(self.path, layout.columns, format=self.resolved_format, say=say):
            where = f"{self.name}:{line}"
            cells = as_texts([value for i, value in enumerate(values) if i != 1], texts, where=where)
            yield Example(cells[0], cells[1] if len(cells) > 1 else None, _label(values[1], where=where), line)

    def _trec(self) -> Iterator[Example]:
        with open_bytes(self.path) as stream:
            for number, raw in enumerate(stream, start=1):
                label, _, text = raw.decode("latin-1").rstrip("\r\n").partition(" ")
                label = label if self.format == "trec-fine" else label.partition(":")[0]
                yield Example(text, None, label, number)


def read_examples(
    source: LabelSource,
    *,
    numbers: bool = False,
    known: Sequence[str] | None = None,
    bad: BadRows = "refuse",
    say: Say = lambda _: None,
) -> list[Example]:
    """The examples of a source that can be used; `known` is the closed list of labels, where there is one already.

    Bad rows (no text, no label, not a number, a label that is not known) are refused all together, or dropped and said.
    """
    good, wrong = [], []
    for example in source.examples(say):
        problem = _problem(example, numbers=numbers, known=known)
        if problem is None:
            good.append(example)
        else:
            wrong.append(f"{source.name}:{example.line}: {problem}")
    if wrong and bad == "refuse":
        raise DataError(listed(wrong), hint='correct them, or drop them: data.bad="drop"')
    if wrong:
        say(f"{source.name}: {len(wrong):,} of {len(wrong) + len(good):,} rows dropped: {listed(wrong)}")
    if not good:
        raise DataError(f"{source.name}: no row can be used; the first: {wrong[0]}")
    return good


def _problem(example: Example, *, numbers: bool, known: Sequence[str] | None) -> str | None:
    if not example.text.strip() or (example.pair is not None and not example.pair.strip()):
        return "a text is empty"
    if not example.label:
        return "the label is empty"
    if numbers:
        return None if is_number(example.label) else f"the label {example.label!r:.40} is not a number"
    if known is not None and example.label not in known:
        shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
        return f"the label {example.label!r:.40} is not among those of the training data: {shown}"
    return None


def is_number(text: str) -> bool:
    """Whether a label is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _label(value: Any, *, where: str) -> str:
    """A label as text: 1 and "1" are the same class, whatever the format keeps them as."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, str | int | float):
        raise DataError(f"{where}: a label is text or a number, not {value!r:.40} ({type(value).__name__})")
    return str(value).strip()


def _recognise(header: Sequence[str]) -> Layout | None:
    """The layout that is known by its header or its shape."""
    present = set(header)
    for layout in LAYOUTS:
        if present.issuperset(str(column) for column in layout.columns):
            return layout
    if len(header) == 4 and header[1] in ("0", "1") and header[2] in ("", "*"):
        return COLA
    if not header:
        return LAYOUTS[-1]  # an empty file: reading it says so
    return None
