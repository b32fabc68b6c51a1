"""What every trained model can do once it is loaded, whatever its task.

model("…")              one prediction        model(["…", "…"])     one each; nothing depends on the neighbours
model.evaluate(…)       figures on test sets, each with how it was computed
model.compare(b, …)     whether another model is better, or whether that is chance
model.verify(…)         whether batching, caching, fused kernels, saving and padding leave its results alone
model.look("…")         what it looked at
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from torch import Tensor, nn

from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.config.recipe import Recipe
from regard.config.schema import typed
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.decoding.options import ONLY_FOR
from regard.errors import CheckpointError, DataError, UsageError
from regard.inspection.forward_case import ForwardCase
from regard.inspection.invariants import Check
from regard.inspection.look import look_at
from regard.inspection.record import Look
from regard.metrics.comparing import Compared
from regard.metrics.scores import LengthBucket, Metric


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
class ScoreData:
    """Where test sets are: files given, else those of the recipe, found under the root.

    What has to be made of them on the way lies in `made`: the run's folder, or one that goes away with the process.
    """

    files: Sequence[str] = ()
    root: Path | None = None
    made: Path = field(default_factory=lambda: _passing_folder())


_passing: list[TemporaryDirectory[str]] = []  # removed when the process ends


def _passing_folder() -> Path:
    _passing.append(TemporaryDirectory(prefix="regard-"))
    return Path(_passing[-1].name)


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
    """A model with the recipe it was made by, ready for its task. Made by `load`.

    `say` is told what a user should know about inputs, such as that one was cut; by default nobody listens.
    `multiline` says that predictions may have several lines.
    """

    multiline = False

    def __init__(self, module: nn.Module, config: Recipe) -> None:
        self.module, self.config = module, config
        self.say: Callable[[str], None] = lambda _: None

    @classmethod
    @abstractmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model, with what lies beside its weights."""

    @classmethod
    def reading(cls, found: Pretrained) -> dict[str, Any]:
        """What the `[data]` section says about how a model of others reads: as much as it can."""
        return {}

    @classmethod
    def keep(cls, found: Pretrained, folder: Path) -> None:
        """Write what a run keeps beside the weights of a model that others trained."""

    @classmethod
    def for_others(cls, found: Pretrained) -> tuple[ModelSpec, Mapping[str, Tensor], Mapping[str, Any]]:
        """What a model is in the terms of others, its weights, and JSON files that go beside them."""
        return ModelSpec(found.task, found.model, found.options, found.labels, found.decode), found.tensors, {}

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
    def evaluate(self, data: ScoreData, **options: Any) -> Iterator[Evaluation]:
        """Figures on each test set."""

    @abstractmethod
    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """Another model for the same task (b) against this one (a) on each test set, by paired bootstrap."""

    @abstractmethod
    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on `n` texts: of a test set, or random ones where it is not here."""

    def look(
        self,
        text: str,
        target: str | None = None,
        *,
        layers: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
        queries: bool = False,
        **options: Any,
    ) -> Look:
        """What the model looks at when it reads a text and, where it writes, says the target.

        `layers` and `kinds` are what to look at, `queries` keeps queries and keys as well.
        """
        return look_at(self.case(text, target, **options), layers=layers, kinds=kinds, queries=queries)

    def case(self, text: str, target: str | None = None, **options: Any) -> ForwardCase:
        """The model and what it is given, ready to be looked at; a model without attention has nothing to show."""
        raise UsageError(f"a model for {self.config.task} has no attention to look at")

    def can_stream(self, **options: Any) -> bool:
        """Whether a prediction with these options can be shown as it comes."""
        return False

    def options(self, overrides: Mapping[str, Any]) -> Any:
        """The recipe's `[decode]` section, changed by the overrides, as what it is for the task.

        An override that only one strategy of decoding knows chooses that strategy: `beam=5` is a beam search. What
        the recipe says about a strategy that is not used is left aside.
        """
        section, given = self.config.decode, dict(overrides)
        kept = asdict(section)
        if isinstance(section, DecodeOptions):
            kept, given = _of_one_strategy(kept, given)
        return typed(type(section), kept | given, where="decode")

    def _check_same_task(self, other: Any) -> None:
        if type(other) is not type(self):
            raise UsageError(
                f"a model for {self.config.task} and one for {other.config.task} cannot be compared",
                hint="give two runs of the same task",
            )


def _of_one_strategy(base: dict[str, Any], given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    defaults = {f.name: f.default for f in fields(DecodeOptions)}
    implied = {ONLY_FOR[name] for name in given if name in ONLY_FOR and str(given[name]) != str(defaults[name])}
    if "strategy" not in given and len(implied) == 1:
        given["strategy"] = implied.pop()
    strategy = given.get("strategy", base["strategy"])
    return {name: value for name, value in base.items() if ONLY_FOR.get(name, strategy) == strategy}, given


Set = TypeVar("Set")


def test_sets(found: Mapping[str, Set]) -> Mapping[str, Set]:
    """The test sets by name; none at all is the user's to change."""
    if not found:
        raise UsageError("the recipe names no test set", hint="say what to score on: --data FILE")
    return found


def refuse_options(options: Mapping[str, Any], what: str) -> None:
    """Refuse decoding options where nothing is decoded."""
    if options:
        raise UsageError(f"decode.{next(iter(options))} means nothing {what}")


def first_of(sets: Callable[[], Mapping[str, Iterable[Set]]], n: int) -> tuple[str, list[Set]]:
    """The name and the first `n` of the first test set; none where the data is not here."""
    try:
        name, examples = next(iter(sets().items()))
        return name, list(islice(examples, n))
    except (DataError, UsageError):
        return "", []


def random_texts(tokenizer: Tokenizer, n: int, *, seed: int = 1) -> list[str]:
    """Texts of 3 to 20 random pieces, no special ones."""
    chance = random.Random(seed)
    pieces = [index for index in range(len(tokenizer)) if index not in tokenizer.special_ids]
    return [tokenizer.decode(chance.choices(pieces, k=chance.randint(3, 20))) for _ in range(n)]


def refuse_target(target: str | None) -> None:
    """A model that writes nothing cannot be made to say something."""
    if target is not None:
        raise UsageError("a target was given, and this model writes nothing", hint="leave --target out")


def varied(texts: Sequence[str]) -> list[str]:
    """The same texts, every second one cut in half: rows that differ in length put padding to the test."""
    return [text if i % 2 == 0 else text[: -(-len(text) // 2)] for i, text in enumerate(texts)]


def check_texts(texts: Sequence[object]) -> None:
    """Refuse what is no text."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"input {number} is {type(text).__name__}; allowed are texts (str)")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError(f"input {number} is not valid Unicode: {text[:40]!a}") from None


def tokenizer_of(found: Pretrained) -> Tokenizer:
    """The tokenizer of a model, without which nothing can be asked of it."""
    if found.tokenizer is None:
        raise CheckpointError(
            f"{found.origin}: there is no tokenizer beside the weights",
            hint="put its files into the same folder",
        )
    return found.tokenizer


def folder_of(found: Pretrained) -> Path:
    """Where a model lies."""
    origin = Path(found.origin)
    return origin if origin.is_dir() else origin.parent
