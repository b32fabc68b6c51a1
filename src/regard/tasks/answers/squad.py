"""Questions about passages: SQuAD's JSON, v1.1 (Rajpurkar et al., 2016) and v2.0 with questions that have no answer.

    {"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers": [{"text", "answer_start"}],
                                                            "is_impossible", "plausible_answers"}]}]}]}

Answers are pieces of the context, by characters. One that does not stand where it is said to is looked for nearby; one
that stands nowhere keeps its text, to be compared with, and has no place to learn from. An answer marked `ambiguous`
stands in several places, and nobody knows which was meant. Plain or gzip; also a table with a question a row (JSONL,
Parquet, or a folder that the `datasets` package saved): `context`, `question`, `answers`, and `title` and `id` if any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.config.bounded import parse_json
from regard.data.io.lines import display_name, open_bytes, read_all
from regard.data.io.tables import read_cells, read_header, table_format
from regard.errors import DataError

_TABLES = ("jsonl", "parquet", "arrow")


class Answer(NamedTuple):
    """A piece of a context: its text and the character it starts at, None if it stands nowhere."""

    text: str
    start: int | None
    ambiguous: bool = False


class Question(NamedTuple):
    """A question, the passage to answer it from, and what people answered; no answers: it has none."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    article: str = ""

    def learnable(self, *, ambiguous: bool = True) -> Answer | None:
        """The answer to learn: the most frequent that has one place, else, where that is allowed, the most frequent."""
        placed = [answer for answer in self.answers if answer.start is not None and answer.text.strip()]
        certain = [answer for answer in placed if not answer.ambiguous]
        chosen = certain or (placed if ambiguous else [])
        return Counter(chosen).most_common(1)[0][0] if chosen else None


def read_squad(path: Path | str, *, say: Callable[[str], None] = lambda _: None) -> list[Question]:
    """The questions of a SQuAD file; answers that had to be moved, or that stand nowhere, are counted and said."""
    reader = _Reader(display_name(path))
    tree = str(path).lower().removesuffix(".gz").endswith(".json") or table_format(path) not in _TABLES
    questions = list(reader.articles(path) if tree else reader.rows(path, table_format(path)))
    if not questions:
        raise DataError(f"{reader.name}: holds no question")
    for line in reader.report():
        say(line)
    return questions


def split_by_article(
    questions: Sequence[Question], shares: Sequence[float], *, seed: int = 0
) -> tuple[list[Question], ...]:
    """Parts with about these shares of the questions; an article, with all its passages, is in one part only."""
    sizes = Counter(question.article for question in questions)
    if len(sizes) < len(shares):
        raise DataError(f"{len(sizes)} articles cannot be divided into {len(shares)} parts")
    titles = sorted(sizes)
    order = [titles[i] for i in np.random.default_rng(seed).permutation(len(titles))]
    wanted = np.array(shares) / sum(shares) * len(questions)
    held = np.zeros(len(shares))
    part_of: dict[str, int] = {}
    for index, title in enumerate(order):
        left = len(order) - index
        empty = [part for part in range(len(shares)) if held[part] == 0]
        lacking = empty if left <= len(empty) else range(len(shares))
        part = max(lacking, key=lambda part: (wanted[part] - held[part]) / wanted[part])
        part_of[title], held[part] = part, held[part] + sizes[title]
    return tuple([q for q in questions if part_of[q.article] == part] for part in range(len(shares)))


def split_by_question(
    questions: Sequence[Question], shares: Sequence[float], *, seed: int = 0
) -> tuple[list[Question], ...]:
    """Parts with about these shares of the questions, drawn one by one; too few for all parts leave the last out."""
    if len(questions) < 2:
        raise DataError("one question cannot be divided", hint="name questions to choose by: --valid FILE")
    held = [max(1, round(share / sum(shares) * len(questions))) for share in shares[1:]]
    held = held[: len(questions) - 1]
    while sum(held) >= len(questions):  # one at least is left to learn from
        held[held.index(max(held))] -= 1
    order = np.random.default_rng(seed).permutation(len(questions)).tolist()
    edges = np.cumsum([0, *reversed(held)]).tolist()
    parts = [order[edges[-1] :], *reversed([order[a:b] for a, b in pairwise(edges)])]
    return tuple([questions[i] for i in sorted(part)] for part in parts)


class _Reader:
    """Reads a file's tree, and names the place of what is wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.moved: list[str] = []
        self.lost: list[str] = []

    def get(self, table: Any, key: str, kind: type, *, where: str) -> Any:
        """The value of a key, of the kind it has to be."""
        origin = f"{self.name}: {where}" if where else self.name
        if not isinstance(table, dict):
            raise DataError(f"{origin}: an object with {key!r} was expected, not {type(table).__name__}")
        if key not in table:
            raise DataError(f"{origin}: has no {key!r}; it has: {', '.join(map(str, table)) or 'nothing'}")
        if not isinstance(table[key], kind) or isinstance(table[key], bool):
            raise DataError(f"{origin}: {key!r} is {table[key]!r:.40}; allowed is {kind.__name__}")
        return table[key]

    def articles(self, path: Path | str) -> Iterable[Question]:
        """The questions of SQuAD's own layout."""
        with open_bytes(path) as stream:
            content = read_all(stream, path, grows=24.0)
        if not content.strip():
            raise DataError(f"{self.name}: is empty", hint="a SQuAD file was expected")
        try:
            table = parse_json(content)
        except ValueError as error:
            raise DataError(f"{self.name}: not JSON ({error})", hint="a SQuAD file was expected") from None
        for i, article in enumerate(self.get(table, "data", list, where="")):
            yield from self.article(article, where=f"data[{i}]")

    def rows(self, path: Path | str, format: str) -> Iterable[Question]:
        """The questions of a table; answers are objects, or an object of lists as the `datasets` package has them."""
        header = read_header(path, format=format)
        given = ("answers.text", "answers.answer_start") if "answers.text" in header else ("answers",)
        more = [name for name in ("title", "id") if name in header]
        for values, line in read_cells(path, ("context", "question", *more, *given), format=format):
            row = dict(zip(("context", "question", *more, *given), values, strict=True))
            if "answers" not in row:
                texts, starts = (list(row.pop(name) or ()) for name in given)
                row["answers"] = [{"text": text, "answer_start": at} for text, at in zip(texts, starts, strict=False)]
            where = f"row {line}"
            context = self.get(row, "context", str, where=where)
            yield self.question(row, context, str(row.get("title") or context), where=where)

    def article(self, article: Any, *, where: str) -> Iterable[Question]:
        """The questions of an article."""
        title = str(article.get("title", where)) if isinstance(article, dict) else where
        for j, paragraph in enumerate(self.get(article, "paragraphs", list, where=where)):
            inside = f"{where}.paragraphs[{j}]"
            context = self.get(paragraph, "context", str, where=inside)
            for k, asked in enumerate(self.get(paragraph, "qas", list, where=inside)):
                yield self.question(asked, context, title, where=f"{inside}.qas[{k}]")

    def question(self, asked: Any, context: str, title: str, *, where: str) -> Question:
        """One question; one marked impossible has no answers, only plausible ones, which are left aside."""
        text = self.get(asked, "question", str, where=where)
        given = [] if asked.get("is_impossible") else self.get(asked, "answers", list, where=where)
        answers = [self.answer(one, context, where=f"{where}.answers[{n}]") for n, one in enumerate(given)]
        return Question(str(asked.get("id", where)), text, context, tuple(answers), title)

    def answer(self, given: Any, context: str, *, where: str) -> Answer:
        """One answer, at its place."""
        text = self.get(given, "text", str, where=where)
        start = self.get(given, "answer_start", int, where=where)
        position = _nearest(text, context, start)
        if position is None:
            self.lost.append(where)
        elif position != start:
            self.moved.append(where)
        return Answer(text, position, bool(given.get("ambiguous")))

    def report(self) -> list[str]:
        """What had to be done about answers that were not where they should be."""
        counts = {"were moved to where they stand": self.moved, "stand nowhere in their context": self.lost}
        return [
            f"{self.name}: {len(places):,} answers {what}, the first at {places[0]}"
            for what, places in counts.items()
            if places
        ]


def _nearest(text: str, context: str, start: int) -> int | None:
    """Where a text stands, as near to `start` as it can be."""
    if start >= 0 and context.startswith(text, start):
        return start
    before, after = context.rfind(text, 0, max(0, start) + len(text)), context.find(text, max(0, start))
    places = [index for index in (before, after) if index >= 0]
    return min(places, key=lambda index: abs(index - start)) if places else None
