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
from functools import partial

from regard.config.training import ScheduleName
from regard.errors import ConfigError, UsageError


def rate_at(
    step: int, *, schedule: ScheduleName, lr: float, warmup: int = 0, steps: int = 1, final: float = 0.0
) -> float:
    """The learning rate of update number `step` = 1, 2, … of `steps`; after the last one it stays where it is."""
    _check(schedule, final=final)
    if step < 1:
        raise UsageError(f"there is no update number {step}; the first is 1")
    if step <= warmup:
        return lr * step / warmup
    return lr * max(final, _SHAPES[schedule](step, warmup=warmup, steps=steps, final=final))


def schedule_of(
    name: ScheduleName, *, lr: float, warmup: int = 0, steps: int = 1, final: float = 0.0
) -> Callable[[int], float]:
    """The schedule a config names, as a function of the step."""
    _check(name, final=final)
    return partial(rate_at, schedule=name, lr=lr, warmup=warmup, steps=steps, final=final)


def _inverse_sqrt(step: int, *, warmup: int, steps: int, final: float) -> float:
    return math.sqrt(max(1, warmup) / step)


def _cosine(step: int, *, warmup: int, steps: int, final: float) -> float:
    return final + (1 - final) * (1 + math.cos(math.pi * _progress(step, warmup, steps))) / 2


def _linear(step: int, *, warmup: int, steps: int, final: float) -> float:
    return final + (1 - final) * (1 - _progress(step, warmup, steps))


def _constant(step: int, *, warmup: int, steps: int, final: float) -> float:
    return 1.0


_SHAPES: dict[str, Callable[..., float]] = {
    "inverse_sqrt": _inverse_sqrt,
    "cosine": _cosine,
    "linear": _linear,
    "constant": _constant,
}


def _progress(step: int, warmup: int, steps: int) -> float:
    """From 0 at the end of the warm-up to 1 at the last step."""
    return min(1.0, (step - warmup) / max(1, steps - warmup))


def _check(name: str, *, final: float) -> None:
    if name not in _SHAPES:
        raise ConfigError(f"no schedule is called {name!r}; there are {sorted(_SHAPES)}")
    if not 0 <= final <= 1:
        raise ConfigError(f"the final share of the rate is {final}; it goes from 0 to 1")
