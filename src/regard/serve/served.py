"""The models of a server, by name: each with its predictor, its engine, and what clients are told about it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import regard
from regard.config.schema import nearest
from regard.data.io.languages import language_of, languages_of
from regard.errors import UsageError
from regard.models.flops import count_parameters
from regard.serve.chat import ChatTemplate
from regard.serve.engine import Engine
from regard.serve.errors import ApiError
from regard.serve.limits import Limits
from regard.serve.looking import Looking
from regard.serve.metrics import Metrics
from regard.serve.remote.engine import EngineProcess, RemoteEngine
from regard.serve.remote.protocol import How
from regard.serve.tickets import Deliveries
from regard.tasks.registry import Ability, task_spec
from regard.tasks.use import Use


@dataclass(frozen=True)
class ServedModel:
    """One model, opened from a `place`; `languages` are the codes of a translator's two."""

    name: str
    predictor: Any
    engine: Engine | RemoteEngine
    created: int
    place: Path
    precision: str = "auto"
    chat: ChatTemplate | None = None
    languages: tuple[str, str] | None = None
    deliveries: Deliveries = field(default_factory=Deliveries)

    @property
    def task(self) -> str:
        """What it does."""
        return str(self.predictor.config.task)

    def does(self, ability: Ability) -> bool:
        """Whether programs of others may ask this of it."""
        return ability in task_spec(self.task).serves

    def card(self) -> dict[str, Any]:
        """What `/v1/models` says about it."""
        facts = {"id": self.name, "object": "model", "created": self.created, "owned_by": "regard"}
        told = {
            "task": self.task,
            "architecture": str(self.predictor.config.model.get("name", "")),
            "parameters": count_parameters(self.predictor.module),
            "abilities": list(task_spec(self.task).serves),
            "chat": self.chat is not None,
            "parts": list(self.predictor.parts),
            "suffixes": list(self.predictor.suffixes),
            "bounds": {name: getattr(self.engine.limits, name) for name in ("body", "text", "inputs")},
            "decode": _plain_settings(self.predictor.config.decode),
        }
        spoken = {} if self.languages is None else {"languages": list(self.languages)}
        return facts | told | self._in_words() | spoken

    def _in_words(self) -> dict[str, Any]:
        """What it is good for, and whether there is something to look at: also at a text that is given, a `target`."""
        spec = task_spec(self.task)
        use = spec.use or Use("")
        asked = "" if self.predictor.suffixes else use.looked or use.asked[-1]
        return {
            "does": use.does,
            "limits": list(use.limits),
            "example": asked.removeprefix("$").strip("\"'").replace("\\t", "\t"),
            "looks": use.looked is not None,
            "target": "target" in spec.flags or "continue" in spec.serves,
        }


class Served:
    """All models of a server, and what they have in common."""

    def __init__(self, models: Sequence[ServedModel], limits: Limits, metrics: Metrics) -> None:
        self.models: Mapping[str, ServedModel] = {model.name: model for model in models}
        self.limits, self.metrics = limits, metrics
        self.looking = Looking()
        self.stopping = False

    def model(self, name: object, *, able: Sequence[Ability] = ()) -> ServedModel:
        """The model of a name, if it is able to do one of these; without a name, the only one that is."""
        fit = [one for one in self.models.values() if not able or any(map(one.does, able))]
        if name is None or name == "":
            if len(fit) == 1:
                return fit[0]
            told = ", ".join(one.name for one in fit) or "none"
            raise ApiError(400, f"which model is not said; for this there are: {told}", param="model")
        if not isinstance(name, str):
            raise ApiError(400, "model has to be a name, which is a text", param="model")
        found = self.models.get(name)
        if found is None:
            raise ApiError(
                404, f"there is no model {name!r}; {_hint(name, self.models)}", param="model", code="model_not_found"
            )
        if found not in fit:
            asked = " or ".join(able)
            raise ApiError(400, f"the model {name!r} is for {found.task}; it cannot {asked}", param="model")
        return found

    def stop(self, grace: float) -> None:
        """Take nothing new, finish within so many seconds, and end the rest."""
        self.stopping, until = True, time.monotonic() + grace
        with ThreadPoolExecutor(max(1, len(self.models))) as pool:
            for model in self.models.values():
                pool.submit(model.engine.stop, grace)
        self.looking.stop(max(0.0, until - time.monotonic()))

    def on_loss(self, tell: Callable[[], None]) -> None:
        """Whom to tell where models are lost with the process that they are in."""
        for model in self.models.values():
            if isinstance(model.engine, RemoteEngine):
                model.engine.process.on_end = tell

    def exposition(self) -> bytes:
        """All figures as Prometheus reads them."""
        for name, model in self.models.items():
            self.metrics.running.labels(name).set(model.engine.n_running)
            self.metrics.waiting.labels(name).set(model.engine.n_waiting)
        return self.metrics.text()


def open_served(
    places: Mapping[str, Path],
    *,
    limits: Limits,
    device: str = "auto",
    precision: str = "auto",
    check: bool = True,
    exact: bool | None = None,
    languages: Mapping[str, tuple[str, str]] | None = None,
    apart: bool | None = None,
) -> Served:
    """Open models, each under its name.

    With `apart` they are in a process of their own, so that whoever speaks HTTP takes no time from them: left open,
    where they are on a GPU. A processor has no cores to spare for that.
    """
    if strange := set(languages or {}) - set(places):
        raise UsageError(
            f"--languages names {sorted(strange)[0]!r}, which is no model; {_hint(sorted(strange)[0], places)}"
        )
    metrics, how = Metrics(), How(limits, device, precision, check, exact)
    opened = _opened_apart if (apart if apart is not None else _on_gpu(device)) else _opened_here
    models = []
    for name, (predictor, engine) in opened(places, how, metrics).items():
        spoken = (languages or {}).get(name) or _languages(predictor)
        chat = (
            ChatTemplate.beside(places[name], predictor.tokenizer)
            if "continue" in task_spec(predictor.config.task).serves
            else None
        )
        models.append(ServedModel(name, predictor, engine, int(time.time()), places[name], precision, chat, spoken))
    return Served(models, limits, metrics)


Opened = dict[str, tuple[Any, Engine | RemoteEngine]]


def _opened_here(places: Mapping[str, Path], how: How, metrics: Metrics) -> Opened:
    """Predictors and engines in this process."""
    models: Opened = {}
    for name, place in places.items():
        predictor = regard.load(place, how.device, precision=how.precision, check=how.check)
        models[name] = predictor, Engine(predictor, how.limits, watcher=metrics.of(name), exact=how.exact)
    return models


def _opened_apart(places: Mapping[str, Path], how: How, metrics: Metrics) -> Opened:
    """Engines in another process, which opens the models while this one reads how they are asked."""
    process = EngineProcess()
    try:
        for name, place in places.items():
            process.begin(name, place, how)
        models: Opened = {}
        for name, place in places.items():
            predictor = regard.load(place, "meta", check=False)
            models[name] = predictor, process.opened(name, predictor, watcher=metrics.of(name))
    except BaseException:
        process.stop(0.0)
        raise
    return models


def _on_gpu(device: str) -> bool:
    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def named_places(words: Sequence[str]) -> dict[str, Path]:
    """Models as a command line gives them, NAME=PLACE or a place whose last part is the name."""
    places: dict[str, Path] = {}
    for word in words:
        name, equals, place = word.partition("=")
        if not equals or Path(word).exists():
            place, name = word, Path(word).resolve().name
        if name in places:
            raise UsageError(f"two models are called {name!r}", hint=f"give one another name: other={place}")
        places[name] = Path(place)
    return places


def language_pairs(words: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Languages of translators as a command line gives them: NAME=en-de."""
    pairs: dict[str, tuple[str, str]] = {}
    for word in words:
        name, _, both = word.rpartition("=")
        first, _, second = both.partition("-")
        codes = language_of(first), language_of(second)
        if not name or codes[0] is None or codes[1] is None:
            raise UsageError(f"--languages {word}: allowed is NAME=en-de", hint="the codes are those of ISO 639")
        pairs[name] = codes[0], codes[1]
    return pairs


def _languages(predictor: Any) -> tuple[str, str] | None:
    """The languages that a translator's recipe tells."""
    if "translate" not in task_spec(predictor.config.task).serves:
        return None
    data = predictor.config.data
    told = data.languages or data.moses
    if told:
        return str(told[0]), str(told[1])
    names = list(data.columns or ()) or list(data.train or ())
    return languages_of(*names[:2]) if len(names) >= 2 else None


def _plain_settings(section: Any) -> dict[str, Any]:
    """A section's settings that can be said in JSON."""
    return {
        name: value
        for name, value in asdict(section).items()
        if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    }


def _hint(name: str, known: Mapping[str, Any]) -> str:
    close = nearest(name, known)
    return f"did you mean {close!r}?" if close else f"there are: {', '.join(known)}"
