"""Inputs put into other words before a model sees them: after examples or a task, or as questions on a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from regard.errors import UsageError
from regard.tasks.predicting.inputs import Given

Change = Callable[[Iterable[Given]], Iterator[Given]]


def few_shot_prompts(table: str | None, *, task: str) -> Change:
    """Each text as the question after the examples of a table of two columns; without one, after the task alone."""
    from regard.data.text.pairs import PairSource
    from regard.tasks.language.few_shot import few_shot_prompt

    examples = [] if table is None else [(pair.source, pair.target) for pair in PairSource(table).pairs()]

    def change(each: Iterable[Given]) -> Iterator[Given]:
        for one in each:
            yield replace(one, value=few_shot_prompt(one.value, examples=examples, task=task))

    return change


def with_passage(path: str) -> Change:
    """Each text as a question on the text of a file."""
    from regard.data.io.lines import read_lines

    passage = "\n".join(read_lines(path))

    def change(each: Iterable[Given]) -> Iterator[Given]:
        for one in each:
            if "\t" in one.value:
                message = f"{one.value[:40]!r} has a tab, and with --context inputs are questions alone"
                yield one.because(UsageError(message))
            else:
                yield replace(one, value=f"{one.value}\t{passage}")

    return change


def unchanged(each: Iterable[Given]) -> Iterator[Given]:
    """Each text as it is."""
    yield from each
