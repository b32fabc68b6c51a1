"""What is to be done with inputs: the model and all settings that decide about the bytes of an output.

request = Request(Path("runs/de"), options={"beam": 5}, as_json=True)
predictor = request.open(say)
request.predicting(predictor)(["A dog runs."])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.config.bounded import at_most, read_size
from regard.tasks.predicting.inputs import Given, Say
from regard.tasks.predicting.prompts import Change, few_shot_prompts, unchanged, with_passage

Predict = Callable[[Sequence[str]], Sequence[Any]]


@dataclass(frozen=True)
class Request:
    """A model, how it is opened, and what it is asked for: `options` are those of decoding."""

    run: Path
    device: str = "auto"
    precision: str = "auto"
    check: bool = True
    max_memory: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    as_json: bool = False
    align: bool = False
    embed: bool = False
    ensemble: tuple[Path, ...] = ()
    few_shot: str | None = None
    task: str | None = None
    context: str | None = None

    @property
    def asked(self) -> bool:
        """Whether inputs are questions to a language model, which has a line for each answer."""
        return self.few_shot is not None or self.task is not None

    @property
    def files(self) -> list[str]:
        """The files besides the model that decide about outputs."""
        return [name for name in (self.few_shot, self.context) if name is not None]

    def open(self, say: Say, *, device: str | None = None) -> Any:
        """The model, or several that vote, ready for its task; that files cannot be checked is said."""
        return self.with_ensemble(self.open_one(say, device=device), say, device=device)

    def open_one(self, say: Say, *, device: str | None = None) -> Any:
        """The model by itself."""
        predictor = self._open(self.run, say, device)
        predictor.say = say
        return predictor

    def with_ensemble(self, predictor: Any, say: Say, *, device: str | None = None) -> Any:
        """The model with the others that vote."""
        if not self.ensemble:
            return predictor
        together = predictor.ensemble(*(self._open(run, say, device) for run in self.ensemble))
        together.say = say
        return together

    def _open(self, run: Path, say: Say, device: str | None) -> Any:
        from regard.data.io.hashes import read_hashes
        from regard.tasks.opening import load

        with at_most(None if self.max_memory is None else read_size(self.max_memory)):
            predictor = load(run, device or self.device, precision=self.precision, check=self.check)
        if self.check and predictor.folder is not None and read_hashes(predictor.folder) is None:
            say(f"{run}: an older version wrote it, without hashes: its files cannot be checked")
        return predictor

    def prompts(self) -> Change:
        """What inputs are made into before they are predicted for."""
        if self.asked:
            return few_shot_prompts(self.few_shot, task=self.task or "")
        return unchanged if self.context is None else with_passage(self.context)

    def predicting(self, predictor: Any) -> Predict:
        """What makes an output of each input, or says what is wrong with it."""
        if self.embed:
            return _embedding(predictor)
        options = ({"stop": ["\n"]} if self.asked else {}) | dict(self.options)
        return lambda inputs: predictor.attempt(inputs, **options)


def predicted(predict: Predict, chunks: Iterable[list[Given]]) -> Iterator[tuple[list[Given], list[Any]]]:
    """Inputs with their outputs, or with what is wrong, in their order and some at a time: memory stays flat."""
    for some in chunks:
        good = [place for place, one in enumerate(some) if one.problem is None]
        outputs: list[Any] = [one.problem for one in some]
        for place, output in zip(good, predict([some[place].value for place in good]), strict=True):
            outputs[place] = output
        yield some, outputs


def _embedding(predictor: Any) -> Predict:
    from regard.tasks.predictions import attempt

    def vectors(texts: Sequence[str]) -> list[Vector]:
        return [Vector(vector) for vector in predictor.embed(list(texts)).tolist()]

    return lambda inputs: attempt(vectors, inputs)


@dataclass(frozen=True)
class Vector:
    """The vector of a text."""

    values: list[float]

    def plain(self) -> str:
        """Its numbers, as JSON."""
        return "[" + ", ".join(f"{value:.7g}" for value in self.values) + "]"

    def record(self) -> dict[str, Any]:
        """Its numbers by name."""
        return {"vector": self.values}
