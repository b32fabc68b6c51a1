"""What models that write say: a text, how sure they are of it, its pieces, and what else it might have been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from regard.data.text.tokenizers import Tokenizer
from regard.decoding import Hypothesis


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
