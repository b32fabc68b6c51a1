"""All settings of a task for people: the help, a recipe with every default, and the page of the documentation."""

import importlib
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.config.settings import settings_of
from regard.models import registry as models
from regard.tasks import registry
from regard.tasks.recipes import make_recipe
from regard.tasks.registry import TaskSpec, register_task, task_names, task_spec
from regard.tasks.settings import help_of, recipe_of

ROOT = Path(__file__).parents[2]
EACH = [(task, model) for task in task_names() for model in task_spec(task).models]


@pytest.mark.parametrize(("task", "model"), EACH)
def test_a_recipe_with_every_default_is_the_default_recipe(task: str, model: str) -> None:
    text = recipe_of(task_spec(task), model)
    assert make_recipe(tomllib.loads(text)) == make_recipe({"task": task, "model": {"name": model}})


@pytest.mark.parametrize(("task", "model"), EACH)
def test_uncommented_options_of_the_model_are_valid_too(task: str, model: str) -> None:
    before, head, rest = recipe_of(task_spec(task), model).partition("[model]\n")
    section, gap, after = rest.partition("\n\n")
    lines = [line.removeprefix("# ") for line in section.splitlines() if "= …" not in line]
    recipe = make_recipe(tomllib.loads(before + head + "\n".join(lines) + gap + after))
    options = {key: value for key, value in recipe.model.items() if key not in ("name", "size")}
    size = task_spec(task).model({"name": model}).get("size")
    assert models.configure(model, size) == models.configure(model, size, **options)


@pytest.mark.parametrize("task", task_names())
def test_help_names_every_setting_that_counts_with_what_it_means(task: str) -> None:
    spec = task_spec(task)
    lines = help_of(spec).splitlines()
    headings = [line for line in lines if line.startswith("[")]
    assert [f"[{section}]" for section in (*spec.sections, "model") if f"[{section}]" in headings]
    for place, heading in enumerate(headings):
        keys = lines[lines.index(heading) + 1 : lines.index(headings[place + 1]) if place + 1 < len(headings) else None]
        assert all(key.strip().startswith(f"{heading[1:-1]}.") for key in keys if key)
    for section, record in {**spec.sections, "model": models.entry(spec.models[0]).config}.items():
        for one in settings_of(record).values():
            key = f"{section}.{one.name}"
            shown = [line for line in lines if line.strip().startswith((f"{key}=", f"{key} "))]
            assert len(shown) == (not one.unused and not one.derived), (section, one.name)
            assert all(one.what in line for line in shown)


def test_the_page_of_the_documentation_is_what_the_code_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    settings = importlib.import_module("settings")
    assert settings.PAGE.read_text() == settings.page(), "docs/settings.md: run `make tables`"


def test_a_task_from_outside_has_its_help_and_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Theirs:
        train: tuple[str, ...] = ()
        depth: int = 3

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    register_task(TaskSpec(name="theirs", models=("vit",), data=Theirs, predictor="nowhere:Nothing"))
    assert "  data.depth=3" in help_of(task_spec("theirs"))
    assert make_recipe(tomllib.loads(recipe_of(task_spec("theirs")))) == make_recipe({"task": "theirs"})


def test_settings_are_light() -> None:
    """All tasks' settings load nothing that trains, and nothing of a task but its config."""
    script = """
import sys
from regard.tasks.registry import task_names, task_spec
for name in task_names():
    task_spec(name)
ours = [name.split(".") for name in sys.modules if name.startswith("regard.")]
tasks = [name for name in ours if name[1] == "tasks" and name[3:] not in ([], ["config"])]
print([".".join(name) for name in (*tasks, *(name for name in ours if name[1] == "training"))])
print(len(ours))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy, n = done.stdout.splitlines()
    assert heavy == "[]"
    assert int(n) <= 100
