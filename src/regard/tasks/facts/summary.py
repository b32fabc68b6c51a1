"""What a run folder says about its run, whatever its task and however far it came: read, never guessed, never built.

    run = summarise("runs/de")
    run.model.parameters     run.state.name     run.figures     run.best     run.record()

It reads config.toml, model.json, run.json, metrics.jsonl and the newest checkpoint's state.json, as far as they are
there; no weights are loaded. What a run of another version does not say is absent. Only a folder that is no run, or a
file in it that cannot be read, is an error.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from regard.checkpoints.headers import count_of, stored_weights
from regard.checkpoints.history import History, read_history
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec
from regard.config.bounded import read_text
from regard.config.lenient import number, table, text, texts, whole
from regard.config.wording import several
from regard.errors import CheckpointError, RegardError
from regard.metrics.figure_names import figure
from regard.tasks.facts.uses import main_figure
from regard.tasks.run_state import State, goes_beyond, last_change, read_reached, read_state

_NO_COUNTS = ("format", "seed", "parameters")
_SHORT = 8  # characters of a fingerprint that are shown


@dataclass(frozen=True)
class Model:
    """What was trained; `size` is a named one."""

    name: str
    size: str | None
    parameters: int | None
    options: Mapping[str, Any]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class DataSet:
    """Data of a run: what it is for, its files as the recipe names them, and a fingerprint, shortened.

    `made` is what regard made it of, where there are no files.
    """

    name: str
    files: tuple[str, ...]
    fingerprint: str | None
    made: str | None = None

    @property
    def source(self) -> str:
        """Where it comes from, in words."""
        if self.files:
            return ", ".join(self.files)
        return f"made by regard: {self.made}" if self.made else "a part of the training data"


@dataclass(frozen=True)
class Training:
    """How it was trained, as far as that is known: steps, or passes over the data where these are what counts.

    `step` and `passes` are done; of `steps` or `epochs` there are so many in all. `best` is the step whose weights are
    kept, by `best_score`.
    """

    step: int | None
    steps: int | None
    passes: float | None
    epochs: float | None
    tokens: int | None
    seconds: float | None
    best: int | None
    best_score: float | None
    hardware: str | None
    device: str | None
    precision: str | None
    seed: int | None
    commit: str | None
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Scored:
    """A figure on a data set, its 95 % interval where there is one, and how it was computed."""

    data: str
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    signature: str = ""
    step: int | None = None  # of an evaluation on the way


@dataclass(frozen=True)
class RunSummary:
    """All of it. `best` is the figure that counts, `objective` the one that the recipe says decides, if it does.

    `changed` is when the folder was last written to, in seconds since 1970, and `date` when the run was finished, or
    imported, as it says itself: in UTC.
    """

    path: Path
    task: str
    model: Model
    counts: Mapping[str, int]
    data: tuple[DataSet, ...]
    training: Training
    figures: tuple[Scored, ...]
    best: Scored | None
    tokenizer: Mapping[str, Any]
    decode: Mapping[str, Any]
    state: State
    changed: float
    date: str | None = None
    origin: str | None = None
    objective: str | None = None
    languages: tuple[str, ...] = ()
    history: History = field(default_factory=History, repr=False)

    @property
    def name(self) -> str:
        """What the folder is called."""
        return self.path.name or str(self.path.resolve().name)

    @property
    def usable(self) -> bool:
        """Whether there are weights to use."""
        return RunFolder(self.path).weights.exists()

    @property
    def progress(self) -> str:
        """How far it came, in words."""
        it, said = self.training, []
        if it.step is not None:
            said.append(f"{it.step:,} of {it.steps:,} steps" if it.steps else several(it.step, "step", "steps"))
        if it.passes is not None:
            done = f"{it.passes:g} of {it.epochs:g} passes" if it.epochs else several(it.passes, "pass", "passes")
            said.append(f"{done} over the data")
        return ", ".join(said) or "no step was reported"

    @property
    def pieces(self) -> tuple[int, ...]:
        """How many pieces its tokenizer has, or that of each side."""
        names = ("tokenizer.json",) if (self.path / "tokenizer.json").exists() else ("source.json", "target.json")
        return tuple(tokenizer_size(self.path / name) for name in names if (self.path / name).exists())

    @property
    def files(self) -> dict[str, int]:
        """What lies in the folder, with bytes."""
        return folder_sizes(self.path)

    @property
    def moment(self) -> float:
        """When it came to what it is, in seconds since 1970: its date, which a copy keeps; else its last change."""
        try:
            done = self.date is not None and self.state.name in ("finished", "imported")
            return datetime.fromisoformat(str(self.date)).timestamp() if done else self.changed
        except ValueError:  # a date of somebody else
            return self.changed

    @property
    def when(self) -> str:
        """When it was last written to, by the clock here."""
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.changed))

    def record(self) -> dict[str, Any]:
        """As a JSON object; the history stays in its own file."""
        said = {key: _plain(value) for key, value in vars(self).items() if key != "history"}
        read = {"tokenizer_pieces": list(self.pieces), "files": self.files, "changed": self.when}
        return {"name": self.name} | said | read | {"usable": self.usable}


def summarise(path: Path | str) -> RunSummary:
    """Read what a run folder says."""
    run = RunFolder(path)
    if not run.path.exists():
        raise CheckpointError(f"{run.path}: there is no such folder", hint="`regard runs` lists the runs there are")
    config = run.read_config()
    task = config.get("task")
    if not isinstance(task, str):
        raise CheckpointError(
            f"{run.path / 'config.toml'}: not the recipe of a run (it names no task)",
            hint="give the folder that `regard train` made",
        )
    facts = run.read_facts() if (run.path / "run.json").exists() else {}
    reached = read_reached(run)
    history = read_history(run.metrics)
    figures = _figures(facts)
    training = _training(config, facts, reached, history)
    return RunSummary(
        path=run.path,
        task=task,
        model=_model(run, config, facts),
        counts={name: value for name, value in facts.items() if name not in _NO_COUNTS and type(value) is int},
        data=_data(config, facts),
        training=training,
        figures=figures,
        best=_best(task, config, figures, history, training.best),
        tokenizer=table(config, "tokenizer"),
        decode=table(config, "decode"),
        state=read_state(run, facts, reached),
        changed=last_change(run),
        date=text(facts, "date"),
        origin=text(facts, "origin"),
        objective=text(table(config, "data"), "objective"),
        languages=texts(facts, "languages"),
        history=history,
    )


def _model(run: RunFolder, config: Mapping[str, Any], facts: Mapping[str, Any]) -> Model:
    section = table(config, "model")
    described = run.read_model() if (run.path / "model.json").exists() else None
    rest = {name: value for name, value in section.items() if name not in ("name", "size")}
    count = facts.get("parameters")
    return Model(
        name=described.model if described else str(section.get("name", "a model that config.toml does not name")),
        size=text(section, "size"),
        parameters=count if isinstance(count, int) else _count(run, described),
        options=dict(described.options) if described else rest,
        labels=described.labels or () if described else (),
    )


def _count(run: RunFolder, described: ModelSpec | None) -> int | None:
    """Parameters where run.json does not say: of the model as described, else the numbers in its weights."""
    if described is not None:
        try:
            return count_of(described.model, described.options)
        except RegardError:  # a model, or an option, of another version
            pass
    return sum(one.size for one in stored_weights(run.weights).values()) if run.weights.exists() else None


def folder_sizes(folder: Path) -> dict[str, int]:
    """The bytes of what lies in a folder; a folder in it counts as one thing, and what goes meanwhile is left out.

    A file is all there is of itself.
    """
    sizes = {}
    inside = folder.iterdir() if folder.is_dir() else (folder,)
    for path in sorted(inside, key=lambda path: (path.is_dir(), path.name)):
        files = path.rglob("*") if path.is_dir() else (path,)
        sizes[f"{path.name}/" if path.is_dir() else path.name] = sum(map(_size, files))
    return sizes


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a run that is being trained clears up
        return 0


def tokenizer_size(path: Path) -> int:
    """How many pieces a tokenizer.json has."""
    from tokenizers import Tokenizer as Core

    try:
        return int(Core.from_str(read_text(path)).get_vocab_size())
    except Exception as problem:  # the library raises nothing more precise
        raise CheckpointError(f"{path}: not a tokenizer ({problem})") from problem


def _data(config: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[DataSet, ...]:
    """Training, validation and test data, by name."""
    section, prints = table(config, "data"), table(facts, "fingerprints")
    made, tests = text(section, "synthetic"), table(section, "test")
    files = {name: texts(section, name) for name in ("train", "valid")} | {name: texts(tests, name) for name in tests}
    named = [name for name, some in files.items() if some or name in prints]
    named += [str(name) for name in prints if name not in named]
    return tuple(DataSet(name, files.get(name, ()), _short(prints.get(name)), made) for name in named)


def _training(
    config: Mapping[str, Any], facts: Mapping[str, Any], reached: Mapping[str, Any], history: History
) -> Training:
    train, told = table(config, "train"), table(facts, "training")
    if facts and not told:
        train = {}  # others trained it, and the recipe was made for what comes after
    if not told or goes_beyond(reached, told):
        told = reached
    epochs = number(train, "epochs") or None
    return Training(
        step=whole(told, "step") or (history.last_step or None),
        steps=None if epochs else whole(train, "steps"),
        passes=_passes(told),
        epochs=epochs,
        tokens=whole(told, "tokens") or whole(told, "words"),
        seconds=number(told, "seconds"),
        best=_best_scored(told)[0],
        best_score=_best_scored(told)[1],
        hardware=text(facts, "hardware"),
        device=text(train, "device"),
        precision=text(train, "precision"),
        seed=whole(train, "seed"),
        commit=text(facts, "commit"),
        versions={str(name): str(value) for name, value in table(facts, "versions").items()},
    )


def _figures(facts: Mapping[str, Any]) -> tuple[Scored, ...]:
    found = []
    for data, metrics in table(facts, "metrics").items():
        for name in metrics if isinstance(metrics, Mapping) else ():
            said = table(metrics, name)
            if (value := number(said, "value")) is not None:
                low, high = number(said, "low"), number(said, "high")
                found.append(Scored(str(data), str(name), value, low, high, text(said, "signature") or ""))
    return tuple(found)


def _best(
    task: str, config: Mapping[str, Any], figures: tuple[Scored, ...], history: History, step: int | None
) -> Scored | None:
    """The figure that counts: on the first test set, else on the validation data, else the best on the way."""
    sets = dict.fromkeys(one.data for one in figures)
    chosen = next((name for name in sets if name != "valid"), next(iter(sets), None))
    on_it = {one.name: one for one in figures if one.data == chosen}
    objective = text(table(config, "data"), "objective")
    name = main_figure(task, on_it, objective=objective)
    if name is not None:
        return on_it[name]
    name = main_figure(task, history.validation, objective=objective)
    if name is None:
        return None
    course = history.validation[name]
    choose = min if figure(name).less_is_better else max
    at = step if step in course else choose(course, key=course.__getitem__)
    assert at is not None
    return Scored("valid", name, course[at], step=at)


def _passes(told: Mapping[str, Any]) -> float | None:
    """Passes over the training data so far."""
    given = (number(table(told, "position"), "epoch"), number(told, "epochs"), number(told, "epoch"))
    return next((passes for passes in given if passes is not None), None)


def _best_scored(told: Mapping[str, Any]) -> tuple[int, float] | tuple[None, None]:
    """The step whose weights were kept, and its score as the trainer saw it: more is better."""
    best = table(told, "best")
    scores = {int(step): score for step, score in best.items() if step.isdigit() and isinstance(score, int | float)}
    return max(scores.items(), key=lambda item: item[1]) if scores else (None, None)


def _short(fingerprint: Any) -> str | None:
    """The beginning of a fingerprint, or of each of several."""
    several = fingerprint if isinstance(fingerprint, list) else [fingerprint]
    return " ".join(str(one)[:_SHORT] for one in several if one) or None


def _plain(value: Any) -> Any:
    """As JSON knows it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value
