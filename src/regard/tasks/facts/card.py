"""The card of a run: a README in plain English that says what the model is, how to use it, and how far to trust it.

    keep_card("runs/de", write_card("runs/de"))         README.md, unless a person wrote or changed the one there

Everything in it comes from the run folder. What the folder does not say, the card says that it is not known. Its last
line says what was written, so that a change by a person is seen.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from regard.checkpoints.run import RunFolder
from regard.config.bounded import read_text
from regard.config.wording import duration, score, settings
from regard.metrics.figure_names import figure
from regard.tasks.facts.model_facts import chosen_options, has_attention
from regard.tasks.facts.summary import RunSummary, Scored, summarise
from regard.tasks.facts.uses import use_of

NAME = "README.md"
_LONGEST = 80  # characters of an example
_MARK = "<!-- written by regard ({}); once changed, it is left alone -->\n"
_MARKED = re.compile(re.escape(_MARK).replace(r"\{\}", r"(\w+)") + r"\Z")


def write_card(run: Path | str | RunSummary, *, exported: Path | None = None) -> str:
    """The text of a run's README.md; or of the folder in Hugging Face's layout that it was exported to."""
    found = run if isinstance(run, RunSummary) else summarise(run)
    place = found.path if exported is None else exported
    parts = {
        f"# {place.resolve().name}": [*_what(found, exported)],
        "## Use": [*_commands(found, exported)],
        "## Figures": [*_figures(found)],
        "## Training data": [*_data(found)],
        "## Training": [*_training(found, exported)],
        "## Limits": [f"- {limit}" for limit in _limits(found)],
    }
    return "\n\n".join("\n".join([head, "", *lines]) for head, lines in parts.items() if lines) + "\n"


def keep_card(folder: Path | str, text: str) -> bool:
    """Write a card into a folder, if there is no README.md, or one as regard wrote it; whether it was written."""
    path = Path(folder) / NAME
    if path.exists() and not _is_ours(path):
        return False
    RunFolder(folder).write_text(NAME, text + "\n" + _MARK.format(_digest(text)))
    return True


def _is_ours(path: Path) -> bool:
    try:
        text = read_text(path)
    except (OSError, ValueError):
        return False
    mark = _MARKED.search(text)
    return mark is not None and mark[1] == _digest(text[: mark.start() - 1])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _what(run: RunSummary, exported: Path | None) -> Iterator[str]:
    model = run.model
    size = f" with {model.parameters:,} parameters" if model.parameters is not None else ""
    form = "regard's format" if exported is None else "the layout that `transformers` opens"
    yield f"This model {use_of(run.task).does}."
    yield f"It is a `{model.name}`{size}, in {form}, for the task `{run.task}`."
    if chosen := settings(chosen_options(model.name, model.options)):
        yield f"What differs from the model's defaults: {chosen}."
    if exported is not None:
        yield f"It was exported from the run `{run.path}`."
    if run.state.name in ("stopped", "begun"):
        yield ""
        yield f"**Its training is not over** ({run.progress}); go on with `{run.state.go_on}`."


def _commands(run: RunSummary, exported: Path | None) -> Iterator[str]:
    """Three that can be typed: ask it, measure it, look into it or check it."""
    place = run.path if exported is None else exported
    use, path = use_of(run.task), shlex.quote(str(place))
    tested = exported is None and any(one.name not in ("train", "valid") for one in run.data)
    sample = _sample(run) if use.sampled else None
    looks = use.looked and has_attention(run.model.name, run.model.options)
    third = f"look {path} {sample or use.looked} --out seen.html" if looks else f"verify {path}"
    yield "```"
    yield f"regard predict {path} {sample or ' '.join(use.asked)}"
    yield f"regard evaluate {path}" if tested else f"regard evaluate {path} --data {use.data}"
    yield f"regard {third}"
    yield "```"
    yield f'From Python: `regard.load("{place}")`.'


def _sample(run: RunSummary) -> str | None:
    """The first input that the run kept as a sample, quoted, if it is short."""
    kept = sorted((run.path / "samples").glob("step-*.txt"))
    first = read_text(kept[-1]).partition("\n")[0] if kept else ""
    given = first.removeprefix("source").strip() if first.startswith("source ") else ""
    return shlex.quote(given) if given and len(given) <= _LONGEST and given.isprintable() else None


def _figures(run: RunSummary) -> Iterator[str]:
    if run.figures:
        yield "| data | figure | value | 95 % interval | how it was computed |"
        yield "|---|---|---|---|---|"
        yield from (_row(one) for one in run.figures)
        less = sorted({one.name for one in run.figures if figure(one.name).less_is_better})
        if less:
            yield ""
            yield f"Of {_listed(less)} less is better, of the others more."
    elif run.best is not None:
        value = f"{figure(run.best.name).label} {score(run.best.value)}"
        yield f"On its validation data, after step {run.best.step:,}: {value}. It was measured on no test set."
    else:
        yield "None were measured."


def _row(one: Scored) -> str:
    interval = "–" if one.low is None or one.high is None else f"{score(one.low)} to {score(one.high)}"
    how = f"`{_cell(one.signature)}`" if one.signature else "–"
    return f"| {_cell(one.data)} | {_cell(one.name)} | {score(one.value)} | {interval} | {how} |"


def _data(run: RunSummary) -> Iterator[str]:
    if run.origin:
        yield f"Others trained it; it was imported from `{run.origin}`. What it was trained on is not known here."
        return
    if run.counts:
        yield f"In all: {', '.join(f'{n:,} {name}' for name, n in run.counts.items())}."
    if run.languages:
        yield f"Languages: {' to '.join(run.languages)}."
    for one in run.data:
        files = ", ".join(f"`{name}`" for name in one.files) or one.source
        mark = f" (fingerprint {one.fingerprint}…)" if one.fingerprint else ""
        yield f"- {one.name}: {files}{mark}"
    yield "" if run.data else "What it was trained on is not known here."
    yield "Under which terms the data may be used is not known to regard."


def _training(run: RunSummary, exported: Path | None) -> Iterator[str]:
    it = run.training
    if run.state.name == "imported":
        return
    time = f" in {duration(it.seconds)}" if it.seconds else ""
    where = f" on {it.hardware}" if it.hardware else ""
    yield f"{run.progress[0].upper()}{run.progress[1:]}{time}{where}; seed {it.seed}, precision {it.precision}."
    if it.best:
        yield f"The weights are those of step {it.best:,}, the best evaluation."
    versions = ", ".join(f"{name} {version}" for name, version in it.versions.items())
    commit = f"; commit {it.commit}" if it.commit else ""
    if versions:
        yield f"Made with {versions}{commit}."
    recipe = shlex.quote(str(run.path / "config.toml"))
    if run.date:
        yield f"It was finished on {run.date[:10]}."
    where = "config.toml" if exported is None else f"{run.path / 'config.toml'}"
    yield f"Its whole recipe is in `{where}`; `regard train {recipe} --out runs/again` repeats the run."


def _limits(run: RunSummary) -> Iterator[str]:
    yield "It does what its training data showed; what is unlike that data, it may do badly without saying so."
    yield from use_of(run.task).limits
    if not run.usable:
        yield "It has no weights yet, so it cannot be used."
    if run.figures and not any(one.low is not None for one in run.figures):
        yield "The figures have no intervals: small differences to other models may be chance."
    if run.figures and run.state.name != "imported":
        yield "The figures are those of one run with one seed; another seed gives somewhat other ones."
    if not run.figures:
        yield "How good it is was not measured on a test set."


def _listed(names: list[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
