"""What `regard info` says of a run, a model of others or a model by name, in lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from regard.cli.text.layout import Column, section, table, whole

if TYPE_CHECKING:
    from regard.checkpoints.foreign.header import Header
    from regard.tasks.facts.model_facts import NamedModel
    from regard.tasks.facts.summary import RunSummary, Scored


def lines(found: RunSummary | Header | NamedModel, width: int) -> Iterator[str]:
    """All that is said, for people, in lines of at most so many characters where they can be cut."""
    from regard.checkpoints.foreign.header import Header
    from regard.tasks.facts.model_facts import NamedModel

    if isinstance(found, NamedModel):
        yield from _model_lines(found, width)
        return
    parts = _foreign_parts(found) if isinstance(found, Header) else _run_parts(found)
    for name, lines in parts:
        yield from section(name, lines, width=width)


def _run_parts(run: RunSummary) -> Iterator[tuple[str, list[str]]]:
    from regard.tasks.facts.uses import use_of

    yield "run", [f"{run.path}: {use_of(run.task).does}"]
    yield "task", [run.task]
    yield "model", list(_run_model(run))
    if run.data or run.counts:
        yield "data", list(_run_data(run))
    if run.state.name != "imported":
        yield "training", list(_run_training(run))
    yield "figures", list(_run_figures(run)) or ["none yet"]
    yield "decode", [_decode(run.task, run.decode)]
    yield "files", list(_files(run.files))
    yield "state", list(_run_state(run))


def _run_model(run: RunSummary) -> Iterator[str]:
    from regard.config.wording import settings
    from regard.tasks.facts.model_facts import chosen_options

    model = run.model
    count = "parameters unknown" if model.parameters is None else f"{model.parameters:,} parameters"
    yield f"{model.name}{f'/{model.size}' if model.size else ''}, {count}"
    if chosen := chosen_options(model.name, model.options):
        yield settings(chosen)
    if run.pieces:
        kind = run.tokenizer.get("kind")
        yield f"tokenizer{f' ({kind})' if kind else ''}: {' and '.join(f'{n:,}' for n in run.pieces)} pieces"
    if model.labels:
        yield f"{len(model.labels):,} classes: {', '.join(model.labels[:12])}{', …' if len(model.labels) > 12 else ''}"


def _run_data(run: RunSummary) -> Iterator[str]:
    if run.counts:
        yield ", ".join(f"{n:,} {name}" for name, n in run.counts.items())
    if run.languages:
        yield f"languages: {' to '.join(run.languages)}"
    names = [one.name if one.name in ("train", "valid", "test") else f"{one.name} (test)" for one in run.data]
    width = max(map(len, names), default=0)
    for name, one in zip(names, run.data, strict=True):
        yield f"{name:<{width}}  {one.source}{f'  [{one.fingerprint}]' if one.fingerprint else ''}"


def _run_training(run: RunSummary) -> Iterator[str]:
    from regard.config.wording import duration

    it = run.training
    yield run.progress
    done = [f"{it.tokens:,} tokens" if it.tokens else "", duration(it.seconds) if it.seconds else ""]
    done += [f"weights of step {it.best:,}, the best evaluation" if it.best else ""]
    made = [it.hardware or (f"device {it.device}" if it.device else ""), f"precision {it.precision or 'unknown'}"]
    made += [f"seed {it.seed}" if it.seed is not None else ""]
    versions = [f"{name} {version}" for name, version in it.versions.items()]
    for parts in (done, made, [*versions, f"commit {it.commit}" if it.commit else ""]):
        if any(parts):
            yield "; ".join(part for part in parts if part)


def _run_figures(run: RunSummary) -> Iterator[str]:
    """Set by set; how figures were computed stands once below those that were computed alike."""
    from regard.config.wording import score
    from regard.metrics.figure_names import figure

    if not run.figures and run.best is not None:
        on_the_way = f"{figure(run.best.name).label} {score(run.best.value)}"
        yield f"validation data, step {run.best.step:,}: {on_the_way}"
    for data, of_set in groupby(run.figures, key=lambda one: one.data):
        yield data
        for how, alike in groupby(of_set, key=lambda one: one.signature):
            yield from (f"  {_figure(one)}" for one in alike)
            if how:
                yield whole(f"    by {how}")


def _figure(one: Scored) -> str:
    from regard.config.wording import score

    interval = "" if one.low is None or one.high is None else f"   95 % [{score(one.low)}, {score(one.high)}]"
    return f"{one.name:<18} {score(one.value):>8}{interval}"


def _decode(task: str, decode: Mapping[str, Any]) -> str:
    from regard.config.defaults import changed
    from regard.config.wording import settings
    from regard.tasks.registry import task_names, task_spec

    if not decode:
        return "nothing to set"
    chosen = changed(task_spec(task).decode, decode) if task in task_names() else dict(decode)
    strategy = {"strategy": decode["strategy"]} if "strategy" in decode else {}
    said = settings(strategy | chosen)
    return f"{said}; the rest as by default" if said else "as by default"


def _files(files: Mapping[str, int]) -> Iterator[str]:
    from regard.config.wording import file_size

    for name, size in files.items():
        yield f"{file_size(size):>9}  {name}"
    yield f"{file_size(sum(files.values())):>9}  in all"


def _run_state(run: RunSummary) -> Iterator[str]:
    state = run.state
    words = {
        "finished": "finished",
        "imported": f"imported from {run.origin}" if run.origin else "imported",
        "begun": "begun; there is no checkpoint yet",
        "stopped": f"stopped after step {state.step:,}" if state.step is not None else "stopped",
    }
    if run.date and state.name in ("finished", "imported"):
        words[state.name] += f" on {run.date.replace('T', ' ').replace('Z', ' UTC')}"
    yield f"{words[state.name]}; last written {run.when}"
    if state.may_be_running:
        yield "that is so short ago that it may still be running"
    if not run.usable:
        yield "it cannot be used yet: its weights (model.safetensors) come when it is first evaluated, or stopped"
    if state.go_on:
        yield whole(f"go on with: {state.go_on}")


def _foreign_parts(found: Header) -> Iterator[tuple[str, list[str]]]:
    from regard.config.wording import settings
    from regard.tasks.facts.model_facts import chosen_options
    from regard.tasks.facts.summary import folder_sizes
    from regard.tasks.facts.uses import use_of

    spec, quoted = found.spec, shlex.quote(str(found.path))
    model = [f"{spec.model}, {found.parameters:,} parameters"]
    if found.stored:
        model.append("kept as " + ", ".join(f"{kind} ({n} tensors)" for kind, n in found.stored.items()))
    model.append(settings(chosen_options(spec.model, spec.options)))
    yield "model", [f"{found.path}: {found.format}; {use_of(spec.task).does}"]
    yield "task", [spec.task]
    yield "in regard", [line for line in model if line]
    pieces = " and ".join(f"{n:,}" for n in found.pieces)
    yield "tokenizer", [f"{pieces} pieces" if pieces else f"none: {found.missing}" if found.missing else "none needed"]
    yield "files", list(_files(folder_sizes(found.path)))
    asked = f"regard predict {quoted} {' '.join(use_of(spec.task).asked)}"
    made = f"regard import {quoted} --out runs/NAME"
    yield "use", [whole(made)] if use_of(spec.task).imported else [whole(asked), whole(made)]


def _model_lines(found: NamedModel, width: int) -> Iterator[str]:
    from regard.config.wording import setting, settings
    from regard.tasks.facts.model_facts import VOCABULARY

    about = f"{found.name}{f'/{found.chosen.name}' if found.chosen else ''}: {found.about}"
    yield from section("model", [about], width=width)
    tasks = ", ".join(found.tasks) or "none by itself: a head stands on it"
    yield from section("tasks", [tasks], width=width)
    if found.chosen:
        size = found.chosen
        count = f"{size.parameters:,} with a vocabulary of {VOCABULARY:,}" if size.a_token else f"{size.fixed:,}"
        parts = f": {size.fixed:,}, and {size.a_token:,} for each token" if size.a_token else ""
        yield from section("parameters", [count + parts], width=width)
    elif found.sizes:
        yield ""
        a_token = any(size.a_token for size in found.sizes)
        columns = [
            Column("size", [size.name for size in found.sizes]),
            Column("parameters", [f"{size.parameters:,}" for size in found.sizes], right=True),
            Column("a token adds", [f"{size.a_token:,}" for size in found.sizes], rank=0 if a_token else 1, right=True),
            Column("sets", [settings(size.options) for size in found.sizes], least=20, tail=True),
        ]
        yield from table(columns if a_token else [columns[0], columns[1], columns[3]], width=width)
        if a_token:
            yield f"parameters are those with a vocabulary of {VOCABULARY:,} tokens"
    yield ""
    yield from table(
        [
            Column("option", [option.name for option in found.options]),
            Column("by default", [setting(option.default) for option in found.options], least=12),
            Column("may be", [option.kind for option in found.options], least=12, tail=True),
        ],
        width=width,
    )
