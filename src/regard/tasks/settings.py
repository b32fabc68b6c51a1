"""All settings of a task for people to read: as lines of help, or as a recipe with every default.

    print(help_of(task_spec("series")))                     what `regard train series --help` shows
    make_recipe(tomllib.loads(recipe_of(spec)))             the recipe of the task's defaults again

Both come from the records of the task's sections and of its models, so a task from outside has them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from regard.config.settings import Setting, Settings, settings_of
from regard.config.toml import toml_value
from regard.models import registry as models
from regard.tasks.registry import TaskSpec

_BEGINNINGS = {
    "start": "a run, or a model of others, whose weights to begin with",
    "vectors": "word vectors to begin the embeddings with",
}


class Line(NamedTuple):
    """A setting of a task: what it is, its value unless given, and whether that has to be left out of a recipe."""

    setting: Setting
    value: Any
    idle: bool = False

    def told(self) -> str:
        """What it means, and what it may be."""
        one = self.setting
        bounds = ", ".join(map(str, one.choices)) or str(one.bounds)
        return one.what + (f" ({bounds})" if bounds else "")


def lines_of(spec: TaskSpec, model: str | None = None) -> Mapping[str, list[Line]]:
    """The settings of a task by section, with those of one of its models; the first, unless one is named."""
    found = {"model": list(_of_model(spec, model or spec.models[0]))}
    for section, record in spec.sections.items():
        made = record()
        idle = made.idle() if isinstance(made, Settings) else frozenset()
        known = [one for one in settings_of(record).values() if not one.unused]
        found[section] = [Line(one, one.default, one.name in idle or one.default is None) for one in known]
    return {section: lines for section, lines in found.items() if lines}


def help_of(spec: TaskSpec, model: str | None = None) -> str:
    """Every setting with its default, its bounds and its help, section by section."""
    text = [f"Settings of the task {spec.name}" + (f": {spec.help}." if spec.help else ".")]
    for section, lines in lines_of(spec, model).items():
        text += ["", f"[{section}]"]
        for line in lines:
            given = "" if line.value is None else f"={toml_value(line.value)}"
            text.append(f"  {f'{section}.{line.setting.name}{given}':<36}  {line.told()}".rstrip())
    return "\n".join(text)


def recipe_of(spec: TaskSpec, model: str | None = None) -> str:
    """A recipe with every default and what it means; what is not set, or counts for nothing, is commented out."""
    text = [f"# Every setting of the task {spec.name}, as it is unless given.", f"task = {toml_value(spec.name)}"]
    for section, lines in lines_of(spec, model).items():
        text += ["", f"[{section}]"]
        for line in lines:
            value = "…" if line.value is None else toml_value(line.value)
            entry = f"{'# ' if line.idle else ''}{line.setting.name} = {value}"
            text.append(f"{entry:<36}  # {line.told()}".rstrip(" #"))
    return "\n".join(text) + "\n"


def _of_model(spec: TaskSpec, name: str) -> Iterator[Line]:
    """Its name and size, and what it is by these; options that the data decides are not the user's."""
    entry, default = models.entry(name), spec.model({"name": name})
    size = default.get("size")
    yield Line(Setting("name", str, name, f"the architecture ({', '.join(spec.models)})"), name)
    if entry.sizes:
        what = f"a named starting point for the options ({', '.join(entry.sizes)})"
        yield Line(Setting("size", str, size, what), size, idle=size is None)
    for beginning in spec.beginnings:
        yield Line(Setting(beginning, str, None, _BEGINNINGS.get(beginning, "")), None, idle=True)
    made = models.configure(name, size)
    for one in settings_of(entry.config).values():
        if not one.derived:
            yield Line(one, getattr(made, one.name), idle=True)
