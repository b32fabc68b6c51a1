"""What every trained model can do once it is loaded, whatever its task.

model("…")              one output            model(["…", "…"])     one each; nothing depends on the neighbours
model.evaluate()        figures on the recipe's test sets, each with how it was computed; or on files of one's own
model.compare(other)    whether another model is better, or whether that is chance
model.verify()          whether batching, caching, fused kernels, saving and padding leave its results alone
model.look("…")         what it looked at
model.attempt(["…"])    one output each, or what is wrong with an input: the others are predicted all the same

A task says how its inputs become outputs (`predict`), what its test sets hold (`given_examples`, `recipe_tests`), how
they are scored (`score`), on what its promises are measured (`sample`, `random_sample`, `promises`), and what there is
to look at (`case`).
"""

from __future__ import annotations

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)

import torch
from torch import Tensor, nn

from regard.checkpoints.spec import ModelSpec, Pretrained
from regard.config.recipe import Recipe
from regard.config.schema import typed
from regard.config.wording import several
from regard.data.text.tokenizers import Tokenizer
from regard.decoding.options import ONLY_FOR, DecodeOptions
from regard.errors import CheckpointError, RegardError, UsageError
from regard.metrics.comparing import Compared
from regard.metrics.scores import LengthBucket, Metric
from regard.tasks.measuring import Scores, compared
from regard.tasks.predictions import attempt

if TYPE_CHECKING:  # loaded when a model is looked at, verified or exported
    from regard.checkpoints.usage import Usage
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check
    from regard.inspection.record import Look


class Result(Protocol):
    """What a model says about one input."""

    def plain(self) -> str:
        """As one line of text."""

    def record(self) -> dict[str, Any]:
        """As a JSON object."""


Input = TypeVar("Input")
Output = TypeVar("Output", bound=Result)
Given = TypeVar("Given", contravariant=True)
P = ParamSpec("P")


@dataclass(frozen=True)
class ScoreData:
    """Where test sets are: files given, else those of the recipe, found under the root.

    What has to be made of them on the way lies in `made`: the run's folder, or one that goes away with the process.
    """

    files: Sequence[str] = ()
    root: Path | None = None
    made: Path = field(default_factory=lambda: _passing_folder())


_IN_A_CELL = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})
TestData = ScoreData | str | Path | Sequence[str | Path] | None
_passing: list[TemporaryDirectory[str]] = []  # removed when the process ends


def _passing_folder() -> Path:
    _passing.append(TemporaryDirectory(prefix="regard-"))
    return Path(_passing[-1].name)


@dataclass(frozen=True, repr=False)
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

    def __str__(self) -> str:
        lines = [f"{self.data}: {self.n:,} {self.unit}", *(f"  {metric}" for metric in self.metrics.values())]
        if self.by_length:
            lines.append("  words in the source    pairs     BLEU")
        for bucket in self.by_length:
            score = "–" if bucket.metric is None else f"{bucket.metric.value:.2f}"
            lines.append(f"  {bucket.label:<19}{bucket.n:>9,}{score:>9}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        figures = ", ".join(f"{metric.name} {metric.value:.{metric.digits}f}" for metric in self.metrics.values())
        return f"<Evaluation on {self.data}, {self.n:,} {self.unit}: {figures}>"


class Call(Protocol[Given, Output, P]):
    """A bound `__call__`: one input gives one output, several give a list."""

    @overload
    def __call__(self, inputs: Given, /, *args: P.args, **options: P.kwargs) -> Output: ...

    @overload
    def __call__(self, inputs: Sequence[Given], /, *args: P.args, **options: P.kwargs) -> list[Output]: ...


class CallOf(Protocol[Given, Output, P]):
    """A `__call__` in the body of a class."""

    def __get__(self, model: Any, owner: type[Any] | None = None, /) -> Call[Given, Output, P]:
        """Bound to a model."""


def one_or_many(predict: Callable[Concatenate[Any, Sequence[Input], P], list[Output]]) -> CallOf[Input, Output, P]:
    """The `__call__` that belongs to a `predict`, so that its options are known by name and type to who calls."""
    return cast(CallOf[Input, Output, P], Predictor.__call__)


class Predictor(ABC, Generic[Input, Output]):
    """A model with the recipe it was made by, ready for its task. Made by `load`.

    `say` is told what a user should know about inputs, such as that one was cut; by default nobody listens. `folder` is
    the run, if it is one. `suffixes` are those of the files that inputs are, none where inputs are texts; `parts` names
    what such a text consists of, parted by tabs, and nothing where there is nothing to predict. `multiline` says that
    outputs may have several lines, `headed` that they are tables whose first line is a header. `undecoded` is why
    options of decoding mean nothing when the model is scored, where they do not. `verified_on` names what promises are
    measured on, and what stands in where there is no test set.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    parts: tuple[str, ...] = ("text",)
    multiline: ClassVar[bool] = False
    headed: ClassVar[bool] = False
    undecoded: ClassVar[str] = ""
    verified_on: ClassVar[tuple[str, str]] = ("texts", "texts of random pieces")

    def __init__(self, module: nn.Module, config: Recipe) -> None:
        self.module, self.config = module, config
        self.say: Callable[[str], None] = lambda _: None
        self.folder: Path | None = None

    def __repr__(self) -> str:
        kind = f"{self.config.task} with a {self.config.model['name']}"
        from regard.models.flops import count_parameters

        size = f"{count_parameters(self.module):,} parameters"
        return f"<{type(self).__name__}: {kind}, {size}, on {self.device}>"

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.module.parameters()).device

    # ---- how a model is opened, kept and given to others

    @classmethod
    @abstractmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model, with what lies beside its weights."""

    @classmethod
    def reading(cls, pretrained: Pretrained) -> dict[str, Any]:
        """What the `[data]` section says about how a model of others reads: as much as it can."""
        return {}

    @classmethod
    def keep(cls, pretrained: Pretrained, folder: Path) -> None:
        """Write what a run keeps beside the weights of a model that others trained."""

    @classmethod
    def for_others(cls, pretrained: Pretrained) -> tuple[ModelSpec, Mapping[str, Tensor], Mapping[str, Any]]:
        """What a model is in the terms of others, its weights, and JSON files that go beside them."""
        facts = (pretrained.task, pretrained.model, pretrained.options, pretrained.labels, pretrained.decode)
        return ModelSpec(*facts), pretrained.tensors, {}

    @classmethod
    def usage(cls, pretrained: Pretrained, recipe: Recipe) -> Usage:
        """How the model is asked, for those who ask it without regard."""
        from regard.checkpoints.usage import Usage

        decode = recipe.decode
        names = [field.name for field in fields(Usage) if hasattr(decode, field.name)]
        return Usage(**{name: getattr(decode, name) for name in names})

    # ---- inputs and outputs

    @overload
    def __call__(self, inputs: Input, /, *args: Any, **options: Any) -> Output: ...

    @overload
    def __call__(self, inputs: Sequence[Input], /, *args: Any, **options: Any) -> list[Output]: ...

    def __call__(self, inputs: Any, /, *args: Any, **options: Any) -> Output | list[Output]:
        """Predict for one input, or for each of several; what `options` can be is said by `predict`."""
        single = self.is_single(inputs) or not isinstance(inputs, Iterable)
        several = [inputs] if single else list(inputs)
        self.check_inputs(several)
        outputs = self.predict(several, *args, **options)
        return outputs[0] if single else outputs

    @abstractmethod
    def predict(self, inputs: Sequence[Input], *args: Any, **options: Any) -> list[Output]:
        """An output for each input, which depends on no other."""

    def attempt(self, inputs: Sequence[Input], **options: Any) -> list[Output | RegardError]:
        """An output for each input, or what is wrong with it; what is wrong with the options is an error as ever."""
        say = self.say

        def predict(some: Sequence[Input]) -> list[Output]:
            remarks: list[str] = []
            self.say = remarks.append  # of a try that fails nothing is told: another one follows
            try:
                outputs = self(list(some), **options)
            finally:
                self.say = say
            for remark in remarks:
                say(remark)
            return outputs

        return attempt(predict, inputs, check=lambda: self([], **options))

    def files_in(self, folder: Path) -> list[str]:
        """The inputs that a folder holds: files by their suffixes, also of folders within; what is hidden is none."""
        found = (Path(place, name).relative_to(folder) for place, _, names in os.walk(folder) for name in names)
        usable = (path for path in found if path.name.lower().endswith(self.suffixes))
        return [str(folder / path) for path in sorted(usable) if not any(part.startswith(".") for part in path.parts)]

    def under_name(self, name: str, output: Output) -> str:
        """An output as one of several, with the name of its input in a first column."""
        return f"{name.translate(_IN_A_CELL)}\t{output.plain()}"

    def is_single(self, inputs: Any) -> bool:
        """Whether this is one input, not several."""
        return isinstance(inputs, str)

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Refuse what is no input, by its number: unless a task says otherwise, inputs are texts."""
        check_texts(inputs)

    def can_stream(self, **options: Any) -> bool:
        """Whether an output with these options can be shown as it comes."""
        return False

    def with_models(self, wrap: Callable[[Any], Any]) -> Self | None:
        """The same predictor, decoding with what `wrap` makes of its models; None where it decodes nothing.

        What is wrapped is asked to `start`, and for what a model knows about itself.
        """
        return None

    def options(self, overrides: Mapping[str, Any]) -> Any:
        """The recipe's `[decode]` section, changed by the overrides, as what it is for the task.

        An override that only one strategy of decoding knows chooses that strategy: `beam=5` is a beam search. What
        the recipe says about a strategy that is not used is left aside.
        """
        section = self.config.decode
        given = tuple((name, type(value), value) for name, value in overrides.items())  # True is not 1 here
        try:
            return _known_options(section, given)
        except TypeError:  # a value that is no key, such as a list
            return _options(section, overrides)

    # ---- figures

    def evaluate(
        self, data: TestData = None, *, data_root: Path | str | None = None, **options: Any
    ) -> list[Evaluation]:
        """Figures on each test set: on the files given, else on those of the recipe, found under the data root."""
        chosen = self.scoring_options(options)
        return self.evaluations(self.score_data(data, data_root), lambda examples: self.score(examples, chosen))

    def compare(
        self,
        other: Self,
        data: TestData = None,
        *,
        data_root: Path | str | None = None,
        resamples: int = 1000,
        seed: int = 1,
        **options: Any,
    ) -> list[Compared]:
        """Another model for the same task (b) against this one (a) on each test set, by paired bootstrap."""
        if type(other) is not type(self):
            raise UsageError(
                f"a model for {self.config.task} and one for {other.config.task} cannot be compared",
                hint="give two runs of the same task",
            )
        chosen, theirs = self.scoring_options(options), other.scoring_options(options)
        self.check_comparable(other)
        where, comparisons = self.score_data(data, data_root), []
        for name, examples in self.test_sets(where).items():
            a, b = self.shared(other, name, examples, where)
            scores = self.score_compared(a, chosen), other.score_compared(b, theirs)
            comparisons.append(compared(name, *scores, resamples=resamples, seed=seed))
        return comparisons

    def score_data(self, data: TestData, data_root: Path | str | None) -> ScoreData:
        """What to score on, as the command line understands it: `REGARD_DATA` is where recipes find their data."""
        if isinstance(data, ScoreData):
            return data
        files = [] if data is None else [data] if isinstance(data, str | Path) else data
        root = data_root or os.environ.get("REGARD_DATA")
        made = _passing_folder() if self.folder is None else self.folder / "data"
        return ScoreData([str(file) for file in files], Path(root) if root else None, made)

    def evaluations(self, data: ScoreData, score: Callable[[Any], Scores]) -> list[Evaluation]:
        """What a way to score says about each test set."""
        scored = ((name, score(examples)) for name, examples in self.test_sets(data).items())
        return [Evaluation(name, each.n, each.unit, each.metrics(), each.outputs) for name, each in scored]

    def test_sets(self, data: ScoreData) -> Mapping[str, Any]:
        """The examples to score on, by name: those of the files given, else of every test set of the recipe."""
        sets = {data.files[0]: self.given_examples(data)} if data.files else self.recipe_tests(data)
        if not sets:
            raise UsageError("the recipe names no test set", hint="say what to score on: --data FILE")
        return sets

    @abstractmethod
    def given_examples(self, data: ScoreData) -> Any:
        """The examples of the files given, as one test set."""

    @abstractmethod
    def recipe_tests(self, data: ScoreData) -> Mapping[str, Any]:
        """The recipe's test sets by name; else what was held out, if anything was."""

    @abstractmethod
    def score(self, examples: Any, options: Any) -> Scores:
        """What this model makes of a test set."""

    def score_compared(self, examples: Any, options: Any) -> Scores:
        """The same where two models are compared, if that is by other figures."""
        return self.score(examples, options)

    def check_comparable(self, other: Self) -> None:
        """Refuse a model of the same task whose figures mean something else."""

    def shared(self, other: Self, name: str, examples: Any, data: ScoreData) -> tuple[Any, Any]:
        """What this model and the other are scored on: the same examples, each as it reads them."""
        return examples, examples

    def scoring_options(self, overrides: Mapping[str, Any]) -> Any:
        """The options that a test set is decoded by; refused where nothing is decoded."""
        if self.undecoded and overrides:
            raise UsageError(f"decode.{next(iter(overrides))} means nothing {self.undecoded}")
        return self.options(overrides)

    # ---- promises

    def verify(self, data: TestData = None, *, data_root: Path | str | None = None, n: int = 24) -> list[Check]:
        """What this model promises, measured on `n` examples: of a test set, or random ones where it is not here."""
        return list(self.checks(self.score_data(data, data_root), n=n))

    def checks(self, data: ScoreData, *, n: int) -> Iterator[Check]:
        """The same, one after the other."""
        unit, stand_in = self.verified_on
        try:
            name, examples = next(iter(self.test_sets(data).items()))
            sample, what = self.sample(examples, n), f"{unit} of {name}"
        except RegardError:
            sample = []
        if len(sample) < 2:
            sample, what = self.random_sample(n), stand_in
        self.say(f"on {len(sample)} {what}")
        yield from self.promises(sample)

    @abstractmethod
    def sample(self, examples: Any, n: int) -> list[Any]:
        """Up to `n` of a test set to measure promises on."""

    @abstractmethod
    def random_sample(self, n: int) -> list[Any]:
        """What stands in for a test set."""

    @abstractmethod
    def promises(self, sample: list[Any]) -> Iterator[Check]:
        """Every promise, measured on these."""

    # ---- attention

    def look(
        self,
        input: Input,
        target: str | None = None,
        *,
        layers: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
        queries: bool = False,
        **options: Any,
    ) -> Look:
        """What the model looks at when it reads an input and, where it writes, says the target.

        `layers` and `kinds` are what to look at, `queries` keeps queries and keys as well.
        """
        from regard.inspection.look import look_at
        from regard.inspection.record import About

        self.check_inputs([input])
        case = self.case(input, target, **options)
        seen = case.finish(look_at(case, layers=layers, kinds=kinds or case.kinds, queries=queries))
        return replace(seen, about=About(self.config.task, str(self.config.model.get("name", "")), _file_name(input)))

    def looks(self, input: Input, target: str | None = None, **options: Any) -> Iterator[Look]:
        """The same for an input that is read in several parts: one record each, in their order."""
        yield self.look(input, target, **options)

    def case(self, input: Input, target: str | None = None, **options: Any) -> ForwardCase:
        """The model and what it is given, ready to be looked at; a model without attention has nothing to show."""
        raise UsageError(f"a model for {self.config.task} has no attention to look at")


def _file_name(given: object) -> str:
    """The name of the file that an input is, if it is one."""
    return Path(given).name if isinstance(given, str | Path) and os.path.isfile(given) else ""


@lru_cache(maxsize=256)
def _known_options(section: Any, given: tuple[tuple[str, type, Any], ...]) -> Any:
    """What was asked for lately: the same few, as a rule, and checking them takes as long as a decoding step."""
    return _options(section, {name: value for name, _, value in given})


def _options(section: Any, overrides: Mapping[str, Any]) -> Any:
    kept, given = asdict(section), dict(overrides)
    if isinstance(section, DecodeOptions):
        kept, given = _of_one_strategy(kept, given)
    return typed(type(section), kept | given, where="decode")


def _of_one_strategy(base: dict[str, Any], given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    defaults = {f.name: f.default for f in fields(DecodeOptions)}
    implied = {ONLY_FOR[name] for name in given if name in ONLY_FOR and str(given[name]) != str(defaults[name])}
    if "strategy" not in given and len(implied) == 1:
        given["strategy"] = implied.pop()
    strategy = given.get("strategy", base["strategy"])
    return {name: value for name, value in base.items() if ONLY_FOR.get(name, strategy) == strategy}, given


def refuse_target(target: str | None) -> None:
    """A model that writes nothing cannot be made to say something."""
    if target is not None:
        raise UsageError("a target was given, and this model writes nothing", hint="leave --target out")


def random_texts(tokenizer: Tokenizer, n: int, *, seed: int = 1) -> list[str]:
    """Texts of 3 to 20 random pieces, no special ones."""
    chance = random.Random(seed)
    pieces = [index for index in range(len(tokenizer)) if index not in tokenizer.special_ids]
    return [tokenizer.decode(chance.choices(pieces, k=chance.randint(3, 20))) for _ in range(n)]


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


def tokenizer_of(pretrained: Pretrained) -> Tokenizer:
    """The tokenizer of a model, without which nothing can be asked of it."""
    if pretrained.tokenizer is None:
        raise CheckpointError(
            f"{pretrained.origin}: there is no tokenizer beside the weights", hint="put its files into the same folder"
        )
    return pretrained.tokenizer


def refuse_other_labels(n_labels: int, n_outputs: int, *, where: Path) -> None:
    """Refuse labels that are not those of a model's outputs."""
    if n_labels != n_outputs:
        raise CheckpointError(
            f"{where}: names {several(n_labels, 'class', 'classes')}, and the model has {n_outputs:,}",
            hint="they do not belong together: look for the labels that the model was trained with",
        )


def folder_of(pretrained: Pretrained) -> Path:
    """Where a model lies."""
    origin = Path(pretrained.origin)
    return origin if origin.is_dir() else origin.parent
