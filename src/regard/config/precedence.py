"""Which of two settings counts, where only one can: the command line's, else the recipe's, else an error.

    [train] epochs = 3          with train.steps=400 on the command line: 400 steps, and no epochs
    [train] steps, epochs       both in one place: an error that names both

Runs that versions before 0.2 wrote have every setting in their config.toml, those that did not count as well: of these,
epochs count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.config.settings import settings_of

RIVALS = (("steps", "epochs"), ("ema", "average"), ("batch_examples", "layout"))
_NEW = {"cuda_graphs", "final_lr_ratio"}  # names that no run of such a version has
_ALWAYS_WRITTEN = {"steps", "epochs", "seed", "betas", "epsilon", "device", "log_every", "keep_best", "n_samples"}


def settle(record: type[Any], file: Mapping[str, Any], line: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The `[train]` section of a recipe without what the command line's excludes; and what is wrong with it."""
    known = {name for name, one in settings_of(record).items() if not one.unused}
    kept, wrong = dict(file), []
    if kept.keys() >= _ALWAYS_WRITTEN and not kept.keys() & _NEW:
        idle = {"steps", "eval_every", "save_every"} if _counts("epochs", kept) else {"epochs"}
        idle |= settings_of(record).keys() - known
        kept = {name: value for name, value in kept.items() if name not in idle}
    for pair in (pair for pair in RIVALS if known >= set(pair)):
        for one, other in (pair, pair[::-1]):
            if _counts(one, line) and other not in line and _counts(other, kept):
                del kept[other]
    if known >= {"steps", "epochs"}:
        for level in (kept, line):
            if _counts("steps", level) and _counts("epochs", level):
                wrong.append(
                    f"train.steps = {level['steps']} and train.epochs = {level['epochs']} are both given; leave out "
                    "train.epochs for so many steps, or train.steps for so many passes over the data"
                )
        if "steps" in {*kept, *line} and "epochs" not in {*kept, *line}:
            kept["epochs"] = 0.0
    return kept, wrong


def _counts(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a setting is given, and not as what switches it off."""
    return given.get(name, 0) == "packed" if name == "layout" else given.get(name, 0) not in (0, "0")
