"""What every trained model can do once it is loaded, whatever its task.

model("…")              one prediction        model(["…", "…"])     one each; nothing depends on the neighbours
model.evaluate(…)       figures on test sets, each with how it was computed
model.look("…")         what it looked at
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, overload

from torch import nn

from regard.decoding import DecodeOptions
from regard.decoding.options import ONLY_FOR
from regard.errors import UsageError
from regard.options import typed
from regard.tasks.metrics import LengthBucket, Metric
from regard.training.recipe import Recipe


class Answer(Protocol):
    """What a model says about one input."""

    def plain(self) -> str:
        """As one line of text."""
        ...

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        ...


Said = TypeVar("Said", bound=Answer)


@dataclass(frozen=True)
class TestData:
    """Where test sets are: files given, else those of the recipe, found under the root or made in the run's folder."""

    files: Sequence[str] = ()
    root: Path | None = None
    made: Path = Path("data")


@dataclass(frozen=True)
class Evaluation:
    """All that is said about one test set: `n` of what `unit` names, figures, and what the model said."""

    data: str
    n: int
    unit: str
    metrics: dict[str, Metric]
    outputs: list[str]
    by_length: list[LengthBucket] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        metrics = {name: metric.record() for name, metric in self.metrics.items()}
        record: dict[str, Any] = {"data": self.data, "n": self.n, "metrics": metrics}
        if self.by_length:
            record["by_length"] = [asdict(bucket) | {"label": bucket.label} for bucket in self.by_length]
        return record


class Predictor(ABC, Generic[Said]):
    """A model with the recipe it was made by, ready for its task. Made by `load`."""

    def __init__(self, module: nn.Module, config: Recipe) -> None:
        self.module, self.config = module, config

    @overload
    def __call__(self, inputs: str, /, **options: Any) -> Said: ...

    @overload
    def __call__(self, inputs: Sequence[str], /, **options: Any) -> list[Said]: ...

    def __call__(self, inputs: str | Sequence[str], /, **options: Any) -> Said | list[Said]:
        """Predict for one text, or for each of several; what `options` can be is said by `predict`."""
        texts = [inputs] if isinstance(inputs, str) else list(inputs)
        check_texts(texts)
        said = self.predict(texts, **options)
        return said[0] if isinstance(inputs, str) else said

    @abstractmethod
    def predict(self, texts: Sequence[str], *, keys: Sequence[int] | None = None, **options: Any) -> list[Said]:
        """A prediction for each text. `keys` name the texts in random streams; by default they are their places."""

    @abstractmethod
    def evaluate(self, data: TestData, **options: Any) -> Iterator[Evaluation]:
        """Figures on each test set."""

    @abstractmethod
    def look(self, text: str, **options: Any) -> Any:
        """What the model looks at when it reads a text."""

    def options(self, overrides: Mapping[str, Any]) -> DecodeOptions:
        """The recipe's decoding options, changed by the overrides.

        An override that only one strategy knows chooses that strategy: `beam=5` is a beam search. What the recipe
        says about a strategy that is not used is left aside.
        """
        given = dict(overrides)
        defaults = {f.name: f.default for f in fields(DecodeOptions)}
        implied = {ONLY_FOR[name] for name in given if name in ONLY_FOR and str(given[name]) != str(defaults[name])}
        if "strategy" not in given and len(implied) == 1:
            given["strategy"] = implied.pop()
        base = asdict(self.config.decode)
        strategy = given.get("strategy", base["strategy"])
        kept = {name: value for name, value in base.items() if ONLY_FOR.get(name, strategy) == strategy}
        return typed(DecodeOptions, kept | given, where="decode")


Set = TypeVar("Set")


def test_sets(found: Mapping[str, Set]) -> Mapping[str, Set]:
    """The test sets by name; none at all is the user's to change."""
    if not found:
        raise UsageError("the recipe names no test set", hint="say what to score on: --data FILE")
    return found


def check_texts(texts: Sequence[object]) -> None:
    """Refuse what is no text."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"input {number} is {type(text).__name__}; allowed are texts (str)")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"input {number} is not valid Unicode: {text[:40]!a}") from None
