"""What a model that answers questions has to beat: the sentence that shares most words with the question.

    the sentence        whole: right words, and many more
    a stretch of it     the longest one without a word of the question, common words and punctuation at its ends aside
    nothing             where some questions have no answer

A shared word counts the more the fewer sentences of the passage have it (Rajpurkar et al., 2016, give a like one).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from regard.data.text.grams import words
from regard.metrics.verdict import Baseline, Judge
from regard.tasks.answers.squad import Question

_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])|(?<=[。！？])|\n+")
_WORD = re.compile(r"\w+(?:[.,'’-]\w+)*|[^\w\s]")
_LONGEST = 10  # words of a stretch
_COMMON = frozenset(
    words(
        "a an and are as at be been but by did do does for from had has have he her his how in into is it its of on "
        "or she that the their them there these they this those to was were what when where which while who whom "
        "whose why will with would"
    )
)


def answer_baselines(questions: Sequence[Question], judge: Judge, *, unanswerable: bool = False) -> list[Baseline]:
    """Every baseline's answers, judged as the task judges; `unanswerable` says that some questions have no answer."""
    sentences = [best_sentence(question.question, question.context) for question in questions]
    stretches = [best_stretch(q.question, sentence) for q, sentence in zip(questions, sentences, strict=True)]
    said = {
        "the sentence with most words of the question": sentences,
        "a stretch of the sentence with most words of the question": stretches,
    }
    if unanswerable:
        said["answering nothing"] = [""] * len(questions)
    return [Baseline(name, judge(answers)) for name, answers in said.items()]


def sentences_of(context: str) -> list[str]:
    """The sentences of a passage, without the spaces between them."""
    return [sentence.strip() for sentence in _END.split(context) if sentence.strip()]


def best_sentence(question: str, context: str) -> str:
    """The sentence that shares most with the question, of equals the first; nothing of an empty passage."""
    sentences = sentences_of(context)
    if not sentences:
        return ""
    cut = [set(words(sentence)) for sentence in sentences]
    held = Counter(word for several in cut for word in several)
    asked = sorted(set(words(question)))

    def shared(i: int) -> float:
        return sum(math.log(1 + len(cut) / held[word]) for word in asked if word in cut[i])

    return sentences[max(range(len(sentences)), key=shared)]


def best_stretch(question: str, sentence: str) -> str:
    """The longest stretch of a sentence without words of the question; without one, the sentence."""
    asked = set(words(question))
    best = (0, 0, 0)  # how many words, and where they begin and end
    run: list[re.Match[str]] = []
    for match in [*_WORD.finditer(sentence), None]:
        if match is not None and match[0].lower() not in asked and match[0][0].isalnum():
            run.append(match)
            continue
        kept = _trimmed(run)[:_LONGEST]
        if len(kept) > best[0]:
            best = (len(kept), kept[0].start(), kept[-1].end())
        run = []
    return sentence[best[1] : best[2]] if best[0] else sentence


def _trimmed(run: list[re.Match[str]]) -> list[re.Match[str]]:
    """Without the common words at either end."""
    while run and run[0][0].lower() in _COMMON:
        run = run[1:]
    while run and run[-1][0].lower() in _COMMON:
        run = run[:-1]
    return run
