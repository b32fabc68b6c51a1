"""Word vectors: what they are learnt from, and how they are measured.

questions    lines `a b c d`: a is to b as c is to d; `: name` begins a section (Mikolov et al., 2013). Accuracy.
pairs        lines `word, word, how alike people find them`, parted by tabs, commas or spaces. Spearman's ρ.

Which of the two a file is can be seen from its first line. What holds an unknown word is left out, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config.data import TextConfig
from regard.data.io.lines import display_name, stream_lines
from regard.data.io.paths import find_data
from regard.data.text.labelled import is_number
from regard.errors import DataError
from regard.metrics.scores import Metric, ranks
from regard.models.word_vectors import WordVectors
from regard.tasks.measuring import Scores
from regard.tasks.texts import TextFiles
from regard.tasks.words.config import WordData

_PARTS = re.compile(r"[\t,; ]+")


def text_files(data: WordData, root: Path | None, made: Path) -> TextFiles:
    """The texts of a recipe, found."""
    return TextFiles(TextConfig(train=data.train, split=data.split, column=data.column), root, made)


@dataclass(frozen=True)
class Questions:
    """Analogies: the section of each, and its four words."""

    sections: Sequence[str]
    words: Sequence[tuple[str, str, str, str]]


@dataclass(frozen=True)
class Likeness:
    """Pairs of words, and how alike people found them."""

    words: Sequence[tuple[str, str]]
    judged: Sequence[float]


WordTest = Questions | Likeness


@dataclass(frozen=True)
class Measured:
    """What a model made of a test set: `value` is 0 or 1 for each question, or a cosine for each pair.

    `judged` holds the people's figures of pairs; `n` counts what was asked, with unknown words too.
    """

    n: int
    values: NDArray[np.float64]
    sections: Sequence[str] = ()
    judged: NDArray[np.float64] | None = None

    @property
    def name(self) -> str:
        """The figure that counts."""
        return "accuracy" if self.judged is None else "spearman"

    def figure(self, drawn: NDArray[np.int64]) -> float:
        """That figure over some of the known questions or pairs."""
        if self.judged is None:
            return float(self.values[drawn].mean()) if len(drawn) else 0.0
        return spearman(self.values[drawn], self.judged[drawn])

    def metrics(self) -> dict[str, Metric]:
        """The figure in all, what share was known, and the accuracy of each section."""
        known, what = len(self.values), "questions" if self.judged is None else "pairs"
        covered = f"{known:,} of {self.n:,} {what}, the others hold unknown words"
        every = np.arange(known)
        metrics = {self.name: Metric(self.name, self.figure(every), covered, digits=4)}
        metrics["covered"] = Metric("covered", known / self.n, covered, digits=4)
        for section in dict.fromkeys(self.sections):
            members = np.array([i for i, its in enumerate(self.sections) if its == section], np.int64)
            metrics[section] = Metric(section, self.figure(members), f"accuracy, {len(members):,} questions", digits=4)
        return metrics


def read_test(path: Path | str) -> WordTest:
    """The questions or the judged pairs of a file."""
    lines = [(i, line.strip()) for i, line in enumerate(stream_lines(path), start=1)]
    lines = [(i, line) for i, line in lines if line and not line.startswith("#")]
    if not lines:
        raise DataError(f"{display_name(path)}: holds no questions and no pairs")
    first = lines[0][1]
    if first.startswith(":") or len(first.split()) == 4:
        return _questions(path, lines)
    if not is_number(_PARTS.split(first)[-1]):
        lines = lines[1:]  # a heading
    return _likeness(path, lines)


def _questions(path: Path | str, lines: Sequence[tuple[int, str]]) -> Questions:
    section, sections, words = "all", [], []
    for number, line in lines:
        if line.startswith(":"):
            section = line[1:].strip() or "unnamed"
            continue
        parts = line.split()
        if len(parts) != 4:
            raise DataError(f"{display_name(path)}:{number}: {len(parts)} words; a question has 4: {line[:60]!r}")
        sections.append(section)
        words.append((parts[0], parts[1], parts[2], parts[3]))
    if not words:
        raise DataError(f"{display_name(path)}: holds sections and no questions")
    return Questions(sections, words)


def _likeness(path: Path | str, lines: Sequence[tuple[int, str]]) -> Likeness:
    words, likeness = [], []
    for number, line in lines:
        parts = _PARTS.split(line)
        if len(parts) != 3 or not is_number(parts[2]):
            raise DataError(
                f"{display_name(path)}:{number}: not two words and a number: {line[:60]!r}",
                hint="allowed are lines `a b c d` of analogies, or `word word 7.5` of judged pairs",
            )
        words.append((parts[0], parts[1]))
        likeness.append(float(parts[2]))
    if not words:
        raise DataError(f"{display_name(path)}: holds no pairs")
    return Likeness(words, likeness)


def word_tests(data: WordData, root: Path | None) -> dict[str, WordTest]:
    """The test sets of a recipe, by name; where a name stands for several files, by name and file."""
    return {
        name if len(files) == 1 else f"{name}: {file}": read_test(find_data(file, root))
        for name, files in data.test.items()
        for file in files
    }


def score_words(model: WordVectors, ids: Mapping[str, int], test: WordTest, *, lowercase: bool) -> Scores:
    """What the vectors say to questions or pairs: accuracy or rank correlation of those that are known."""
    measured = measure(model, ids, test, lowercase=lowercase)

    def figures(drawn: NDArray[np.int64]) -> dict[str, float]:
        return {measured.name: measured.figure(drawn)}

    unit = "questions" if measured.judged is None else "pairs"
    return Scores(measured.n, unit, measured.metrics, figures, n_drawn=len(measured.values))


def known(test: WordTest, ids: Mapping[str, int], *, lowercase: bool) -> list[int]:
    """The numbers of the questions or pairs whose words all have a vector."""
    return [
        i for i, words in enumerate(test.words) if all((word.lower() if lowercase else word) in ids for word in words)
    ]


def measure(model: WordVectors, ids: Mapping[str, int], test: WordTest, *, lowercase: bool) -> Measured:
    """What the vectors say to questions or pairs whose words all have one."""
    places = known(test, ids, lowercase=lowercase)
    rows = [[ids[word.lower() if lowercase else word] for word in test.words[i]] for i in places]
    asked = torch.tensor(rows, dtype=torch.int64).view(len(places), len(test.words[0]))
    asked = asked.to(model.input.device)
    if isinstance(test, Questions):
        right = model.answer(asked[:, :3]).to(asked) == asked[:, 3]
        return Measured(len(test.words), right.double().cpu().numpy(), [test.sections[i] for i in places])
    unit = model.unit()
    cosines = (unit[asked[:, 0]] * unit[asked[:, 1]]).sum(1)
    judged = np.array([test.judged[i] for i in places])
    return Measured(len(test.words), cosines.double().cpu().numpy(), judged=judged)


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Rank correlation; equal values share their mean rank. 0 where one side is all equal."""
    if len(a) < 2:
        return 0.0
    first, second = ranks(a), ranks(b)
    spread = first.std() * second.std()
    return float(((first - first.mean()) * (second - second.mean())).mean() / spread) if spread else 0.0
