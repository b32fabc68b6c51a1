"""What models that write say: a text, how sure they are of it, its pieces, and what else it might have been.

And `attempt`, which predicts for many inputs of which some may be of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

from regard.data.text.tokenizers import Tokenizer
from regard.decoding import Hypothesis
from regard.errors import RegardError

Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Prediction:
    """What a model says: the text, how sure it is, the pieces, and what else it might have said, best first.

    `score` is what hypotheses are ranked by, `log_prob` the model's own log-probability of the pieces. `finished` says
    that the text ended by itself.
    """

    text: str
    score: float = 0.0
    tokens: list[str] = field(default_factory=list)
    alternatives: list[Self] = field(default_factory=list)
    log_prob: float = 0.0
    ids: list[int] = field(default_factory=list)
    finished: bool = True

    shown: ClassVar[tuple[str, ...]] = ("text", "score", "log_prob", "tokens")

    @classmethod
    def of(cls, best_first: Sequence[Self], **facts: Any) -> Self:
        """The best of several, with the others as its alternatives; `facts` are fields to set, such as the input."""
        return replace(best_first[0], alternatives=list(best_first[1:]), **facts)

    @classmethod
    def decoded(cls, hypothesis: Hypothesis, tokenizer: Tokenizer, text: str) -> Self:
        """What decoding found, whose pieces spell the text."""
        ids, score = list(hypothesis.tokens), hypothesis.score
        tokens, finished = tokenizer.tokens(ids), hypothesis.finished
        return cls(text, score, tokens, log_prob=hypothesis.log_prob, ids=ids, finished=finished)

    def plain(self) -> str:
        """The text in one line, whatever the model wrote."""
        return " ".join(self.text.splitlines())

    def record(self) -> dict[str, Any]:
        """Text, score and pieces, and those of the alternatives."""
        return self._facts() | {"alternatives": [other._facts() for other in self.alternatives]}

    def _facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.shown}


def attempt(
    predict: Callable[[Sequence[Given]], Sequence[Made]],
    inputs: Sequence[Given],
    *,
    check: Callable[[], object] = lambda: None,
) -> list[Made | RegardError]:
    """What `predict` makes of each input, or what is wrong with it: one that cannot be used takes no other with it.

    All are predicted at once. Only where that fails are the two halves, each by itself, and so on: good ones stay
    together, and a bad one is found in a few tries. `check` refuses what no input can be blamed for.
    """
    if not inputs:
        return []
    try:
        return list(predict(inputs))
    except RegardError as problem:
        if len(inputs) == 1:
            return [problem]
    check()
    half = len(inputs) // 2
    return [one for some in (inputs[:half], inputs[half:]) for one in attempt(predict, some)]
