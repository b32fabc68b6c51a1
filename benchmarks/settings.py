"""Write docs/settings.md: every setting of every task and model, from the records that check them.

    python benchmarks/settings.py

A test holds the page to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.config.settings import Setting, old_names, settings_of
from regard.config.toml import toml_value
from regard.config.training import TrainConfig
from regard.decoding.options import DecodeOptions
from regard.models import registry as models
from regard.tasks.registry import OURS as TASKS
from regard.tasks.registry import TaskSpec, task_spec

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
COMMON = {"train": TrainConfig, "decode": DecodeOptions}
HEAD = """# Settings

Every setting of every task and model: `section.key=value` on the command line, `key = value` below `[section]` in a
recipe; the command line wins. `regard train TASK --help` lists those of one task, and `regard recipes show
TASK` prints them as a recipe to begin with. This page is written by `make tables`, from what checks the settings.

Where two settings exclude each other, `train.steps` and `train.epochs`, `train.ema` and `train.average`,
`train.batch_examples` and `train.layout=packed`, the command line's counts, and both in one place are an error.
"""


def page() -> str:
    """All of it."""
    parts = [HEAD, "## Old names\n\nThey are understood for good, and no longer written.\n", _table(
        ("old", "today", "where"), ((f"`{old}`", f"`{new}`", where) for old, new, where in sorted(_renamed()))
    )]  # fmt: skip
    for section, record in COMMON.items():
        where = "every task" if section == "train" else "every task that writes text"
        parts += [f"## {section}\n\nOf {where}; below, a task's own defaults.\n", _settings(section, _of(record))]
    for name in TASKS:
        parts += list(_task(task_spec(name)))
    parts.append("## Models\n\nOptions of `[model]`, beside `name` and `size`. What the data decides is left out.\n")
    for name in models.OURS:
        entry = models.entry(name)
        sizes = f"Sizes: {', '.join(f'`{size}`' for size in entry.sizes)}.\n" if entry.sizes else ""
        own = [one for one in settings_of(entry.config).values() if not one.derived]
        parts += [f"### {name}\n\n{sizes}".rstrip() + "\n", _settings("model", own)]
    return "\n".join(parts).rstrip() + "\n"


def _task(spec: TaskSpec) -> Iterator[str]:
    chosen = f"`{spec.models[0]}`" + (f", size `{spec.size}`" if spec.size else "")
    others = f" or {', '.join(f'`{name}`' for name in spec.models[1:])}" if spec.models[1:] else ""
    yield f"## {spec.name}\n\n{spec.help[0].upper()}{spec.help[1:]}. Model: {chosen}{others}.\n"
    for section, record in spec.sections.items():
        common = settings_of(COMMON[section]) if section in COMMON and issubclass(record, COMMON[section]) else {}
        own = [one for one in _of(record) if not _same(one, common)]
        if own:
            yield _settings(section, own)
        if unused := [f"`{one.name}`" for one in settings_of(record).values() if one.unused]:
            yield f"Of [train](#train), {', '.join(unused)} mean nothing here.\n"


def _same(one: Setting, common: Mapping[str, Setting]) -> bool:
    return one.name in common and (one.default, one.what) == (common[one.name].default, common[one.name].what)


def _of(record: type[Any]) -> list[Setting]:
    return [one for one in settings_of(record).values() if not one.unused]


def _renamed() -> set[tuple[str, str, str]]:
    found = set()
    for name in TASKS:
        for section, record in task_spec(name).sections.items():
            shared = COMMON.get(section)
            for old, new in old_names(record).items():
                where = "every task" if shared and old in old_names(shared) else name
                found.add((f"{section}.{old}", f"{section}.{new}", where))
    for name in models.OURS:
        found |= {
            (f"model.{a}", f"model.{b}", f"model {name}") for a, b in old_names(models.entry(name).config).items()
        }
    return found


def _settings(section: str, several: Iterable[Setting]) -> str:
    rows = (
        (
            f"`{section}.{one.name}`",
            "" if one.default is None else f"`{toml_value(one.default)}`",
            one.allowed,
            one.what.replace("|", "\\|"),
        )
        for one in several
    )
    return _table(("setting", "default", "allowed", "what it is"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
