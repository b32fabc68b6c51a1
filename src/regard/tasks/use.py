"""What a task is good for, in words: what its models do, how they are asked, and which of their figures counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Use:
    """A task in words.

    does            what a model of it does, after "It …"
    figures         the figures that count, by the names of run.json and metrics.jsonl, the first there is
    loss            what its loss is measured in
    asked           what `regard predict` is given; `looked` what `regard look` is given, None: nothing to look at
    sampled         whether an input that the run kept as a sample can be asked instead
    data            a file to evaluate on
    limits          what a user should know
    imported        whether models of others have to be imported before they are asked
    """

    does: str
    figures: tuple[str, ...] = ()
    loss: str = ""
    asked: tuple[str, ...] = ('"a text"',)
    looked: str | None = '"a text"'
    data: str = "test.tsv"
    limits: tuple[str, ...] = ()
    sampled: bool = False
    imported: bool = False
