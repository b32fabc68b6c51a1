"""What a transcriber has to beat: the commonest training text, said of every recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from regard.errors import UsageError
from regard.metrics.verdict import Baseline, Judge
from regard.tasks.speech.metrics import plain_words


def speech_baselines(train: Sequence[str], judge: Judge, *, n: int) -> list[Baseline]:
    """The commonest of the training texts, said of `n` recordings and judged as the task judges."""
    text = commonest_text(train)
    return [Baseline(f"always saying {text!r:.60}", judge([text] * n))]


def commonest_text(texts: Sequence[str]) -> str:
    """The text that most are the same as, once they are compared as transcripts are; of equals the first."""
    if not texts:
        raise UsageError("there is no training text; at least one is needed")
    plain = [plain_words(text) for text in texts]
    commonest = Counter(plain).most_common(1)[0][0]
    return texts[plain.index(commonest)]
