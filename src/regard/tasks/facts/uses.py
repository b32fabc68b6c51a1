"""What each task is good for, in words: what its models do, how they are asked, and which of their figures counts.

A task from outside the package says nothing here: its models are for it, and its first figure counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


_PHOTO = ("photo.jpg",)
USES: Mapping[str, Use] = {
    "translation": Use(
        "translates text, a line at a time",
        ("bleu",),
        "nats a token",
        ('"A dog runs along the beach."',),
        '"A dog runs along the beach."',
        limits=(
            "It may leave out or make up words, most of all in lines that are longer than those it was trained on.",
        ),
        sampled=True,
    ),
    "language": Use(
        "goes on with a text",
        ("perplexity",),
        "nats a token",
        ('"Once upon a time"',),
        '"Once upon a time"',
        "test.txt",
        ("What it writes is likely text, not knowledge: nothing in it is checked.",),
    ),
    "masked": Use(
        "guesses the words that are left out of a text, and gives texts vectors",
        ("mlm_accuracy",),
        "nats a masked token",
        ('"The cat [MASK] on the mat."',),
        '"The cat [MASK] on the mat."',
        "test.txt",
    ),
    "labels": Use(
        "gives a text a label, or a number, with its probability",
        ("accuracy", "spearman"),
        "an example",
        ('"A fine film."',),
        '"A fine film."',
        "test.csv",
        ("It knows the labels of its training data and no others: something else gets one of them, too.",),
    ),
    "answers": Use(
        "finds the piece of a passage that answers a question",
        ("f1",),
        "nats an example",
        ("--context passage.txt", '"Who wrote it?"'),
        "$'Who wrote it?\\tAda wrote it.'",
        "test.json",
        ("It answers with words of the passage only.",),
    ),
    "words": Use(
        "gives words vectors, finds their neighbours, and completes analogies",
        ("spearman", "accuracy"),
        "nats a pair",
        ('"king - man + woman"',),
        None,
        "pairs.tsv",
        ("It knows the words of its training text; others have no vector.",),
        imported=True,
    ),
    "series": Use(
        "forecasts the next rows of a table of numbers",
        ("mse", "pinball", "mae"),
        "scaled",
        ("table.csv",),
        "table.csv",
        "table.csv",
        ("It takes for granted that what comes behaves as what was.",),
    ),
    "images": Use(
        "says what an image shows",
        ("accuracy",),
        "nats an image",
        _PHOTO,
        "photo.jpg",
        "photos/",
        ("It knows the classes of its training data and no others: something else gets one of them, too.",),
    ),
    "captions": Use(
        "describes an image in a sentence",
        ("cider-d", "cider"),
        "nats a token",
        _PHOTO,
        "photo.jpg",
        "captions.csv",
        ("It may name things that are not in the image.",),
    ),
    "speech": Use(
        "writes down what is said in a recording",
        ("wer",),
        "nats a token",
        ("talk.wav",),
        "talk.wav",
        "recordings.csv",
        ("It may write words where nobody speaks; it hears voices like those of its training data best.",),
    ),
}


def use_of(task: str) -> Use:
    """The task in words."""
    return USES.get(task) or Use(f"is a model for {task}")


def main_figure(task: str, names: Iterable[str], *, objective: str | None = None) -> str | None:
    """Which of these figures counts: the one that the recipe names, else the task's, else the first."""
    given = list(names)
    bare = {name.lower().removeprefix("valid_"): name for name in reversed(given)}
    wanted = [objective, *use_of(task).figures] if objective else use_of(task).figures
    return next((bare[name] for name in wanted if name in bare), given[0] if given else None)
