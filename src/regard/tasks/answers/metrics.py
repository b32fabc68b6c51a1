"""How good answers are, as SQuAD counts it: exact match and F1 over words, the best over the given answers.

Texts are compared in lower case, without punctuation, articles and extra spaces. A question without an answer is right
if nothing is answered, and only then. From 0 to 100, with 95 % intervals over questions.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError
from regard.metrics.bootstrap import Drawn, with_intervals
from regard.metrics.scores import Metric
from regard.tasks.answers.answerer import Answerer
from regard.tasks.answers.config import AnswerOptions
from regard.tasks.answers.squad import Question
from regard.tasks.measuring import Scores

Table = npt.NDArray[np.float64]
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normal_words(text: str) -> list[str]:
    """The words that count: lower case, without ASCII punctuation and English articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def exact(said: str, answer: str) -> float:
    """1 if both have the same words in the same order, else 0."""
    return float(normal_words(said) == normal_words(answer))


def f1(said: str, answer: str) -> float:
    """The harmonic mean of how much of what was said is right, and how much of what is right was said."""
    ours, theirs = normal_words(said), normal_words(answer)
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs))


def scores(said: str, question: Question) -> tuple[float, float]:
    """Exact match and F1 of one answer, each the best over what people answered."""
    answers = [answer.text for answer in question.answers if normal_words(answer.text)] or [""]
    return max(exact(said, answer) for answer in answers), max(f1(said, answer) for answer in answers)


def answer_figures(said: Sequence[str], questions: Sequence[Question]) -> dict[str, float]:
    """Exact match and F1 over all questions, 0 to 100."""
    table = _table(said, questions)
    return {"exact": float(table[:, 0].mean()), "f1": float(table[:, 1].mean())}


def answer_metrics(said: Sequence[str], questions: Sequence[Question]) -> dict[str, Metric]:
    """Exact match and F1 with their intervals; where some questions have no answer, also of either kind alone."""
    table = _table(said, questions)
    answerable = np.array([bool(question.answers) for question in questions])
    parts = {"": np.ones(len(table), bool)}
    if not answerable.all():
        parts |= {"answerable_": answerable, "unanswerable_": ~answerable}
    found: dict[str, Metric] = {}
    for prefix, chosen in parts.items():
        if n := int(chosen.sum()):
            found |= with_intervals(partial(_drawn_figures, table[chosen], prefix), n, f"squad|n:{n}")
    return found


def score_answers(answerer: Answerer, questions: Sequence[Question], options: AnswerOptions) -> Scores:
    """What a reader answers to questions, against what people answered."""
    answers = [answer.text for answer in answerer.answer(questions, options)]
    figures = partial(_drawn_figures, _table(answers, questions), "")
    return Scores(len(questions), "questions", partial(answer_metrics, answers, questions), figures, answers, digits=2)


def _drawn_figures(table: Table, prefix: str, drawn: Drawn) -> dict[str, float]:
    return dict(zip((f"{prefix}exact", f"{prefix}f1"), table[drawn].mean(0).tolist(), strict=True))


def _table(said: Sequence[str], questions: Sequence[Question]) -> Table:
    """Exact match and F1 of each answer, in percent: (n, 2)."""
    if len(said) != len(questions) or not said:
        raise UsageError(f"{len(said)} answers to {len(questions)} questions; one each is needed, and at least one")
    return 100 * np.array([scores(text, question) for text, question in zip(said, questions, strict=True)])
