"""The learning rate as a function of the step, and of nothing else: a resumed run needs no state for it.

    inverse_sqrt   lr · √(warmup / step)                        Vaswani et al. (2017), with lr = (d_model · warmup)^−½
    cosine         half a cosine from lr down to final · lr     Loshchilov & Hutter (2017)
    linear         a straight line from lr down to final · lr
    constant       lr

All begin with a straight rise over the first `warmup` steps; after it, none falls below final · lr.
The first update of a run is step 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.config.training import ScheduleName
from regard.errors import ConfigError, UsageError


def rate_at(
    step: int, *, schedule: ScheduleName, lr: float, warmup: int = 0, steps: int = 1, final: float = 0.0
) -> float:
    """The learning rate of update number `step` = 1, 2, … of `steps`; after the last one it stays where it is."""
    names = sorted((*_SHAPES, "inverse_sqrt"))
    if schedule not in names:
        raise ConfigError(f"no schedule is called {schedule!r}; there are {names}")
    if not 0 <= final <= 1:
        raise ConfigError(f"the final share of the rate is {final}; it goes from 0 to 1")
    if step < 1:
        raise UsageError(f"there is no update number {step}; the first is 1")
    if step <= warmup:
        return lr * step / warmup
    if schedule == "inverse_sqrt":
        return lr * max(final, math.sqrt(max(1, warmup) / step))
    done = min(1.0, (step - warmup) / max(1, steps - warmup))  # from 0 after the warm-up to 1 at the last step
    return lr * max(final, _SHAPES[schedule](done, final))


# The share of lr at a step, by how much of the way from the warm-up to the last step is done, and where it ends.
_SHAPES: dict[str, Callable[[float, float], float]] = {
    "cosine": lambda done, final: final + (1 - final) * (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done, final: final + (1 - final) * (1 - done),
    "constant": lambda done, final: 1.0,
}
