"""What is put around the inputs of `predict`: examples of how it is done, or the passage that a question is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from regard.errors import UsageError


def few_shot_prompts(lines: Iterable[str], table: str | None, *, task: str) -> Iterator[str]:
    """Each line as the question after the examples of a table of two columns; without one, after the task alone."""
    from regard.data.text.pairs import PairSource
    from regard.tasks.language.few_shot import few_shot_prompt

    examples = [] if table is None else [(pair.source, pair.target) for pair in PairSource(table).pairs()]
    for line in lines:
        yield few_shot_prompt(line, examples=examples, task=task)


def with_passage(lines: Iterable[str], path: str) -> Iterator[str]:
    """Each line as a question on the text of a file."""
    from regard.data.io.lines import read_lines

    passage = "\n".join(read_lines(path))
    for line in lines:
        if "\t" in line:
            raise UsageError(f"{line[:40]!r} has a tab, and with --context inputs are questions alone")
        yield f"{line}\t{passage}"
