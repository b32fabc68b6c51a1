"""What each task is good for, as it says itself; of one that says nothing the first figure counts."""

from __future__ import annotations

from collections.abc import Iterable

from regard.tasks.registry import task_names, task_spec
from regard.tasks.use import Use


def use_of(task: str) -> Use:
    """The task in words; also of one that is not known here, such as of a package that is not installed."""
    said = task_spec(task).use if task in task_names() else None
    return said or Use(f"is a model for {task}")


def main_figure(task: str, names: Iterable[str], *, objective: str | None = None) -> str | None:
    """Which of these figures counts: the one that the recipe names, else the task's, else the first."""
    given = list(names)
    bare = {name.lower().removeprefix("valid_"): name for name in reversed(given)}
    wanted = [objective, *use_of(task).figures] if objective else use_of(task).figures
    return next((bare[name] for name in wanted if name in bare), given[0] if given else None)
