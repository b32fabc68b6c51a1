"""Whether a model is as large as the file that holds its weights, found out before any of it is built or read.

    check_depth(options, stored, origin=…)               a model has no more layers than its file has tensors
    check_weights("gpt", options, stored, origin=…)      names and shapes, from headers alone
    check_memory(outline("gpt", options), origin=…)      weights and tables together, and what may be used

A config is a few bytes that anybody can write; what it asks for is worked out on torch's meta device, which takes no
memory, and only once the number of layers is plausible, since each of them is built one by one even there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from torch import nn

from regard.checkpoints.headers import Stored, outline
from regard.checkpoints.weights import weights_of
from regard.config.memory import require
from regard.errors import CheckpointError, UsageError

_REPEATED = ("layers", "blocks", "halvings")  # how the options end that say how often something is built


def check_depth(options: Mapping[str, Any], stored: Sized, *, origin: str) -> None:
    """Refuse a model with more layers than the file has tensors."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            check_depth(value, stored, origin=origin)
        elif name.endswith(_REPEATED) and isinstance(value, int) and value > max(len(stored), 1):
            raise CheckpointError(
                f"{origin}: {name} is {value:,}, and the weights are {len(stored):,} tensors: it cannot be their model",
                hint="the config and the weights do not belong together",
            )


def check_weights(model: str, options: Mapping[str, Any], stored: Mapping[str, Stored], *, origin: str) -> nn.Module:
    """The outline of the model, if the weights stored under our own names fit it, and there is memory for it."""
    check_depth(options, stored, origin=origin)
    try:
        drawn = outline(model, options)
    except UsageError as problem:  # the options make no model
        raise CheckpointError(f"{origin}: {problem}", hint=problem.hint) from problem
    shapes = {name: tuple(tensor.shape) for name, tensor in weights_of(drawn).items()}
    problems = [f"{name}: missing" for name in shapes if name not in stored]
    problems += [f"{name}: unknown" for name in stored if name not in shapes]
    both = ((name, stored[name].shape, shape) for name, shape in shapes.items() if name in stored)
    problems += [f"{name}: {list(held)}, the model has {list(shape)}" for name, held, shape in both if held != shape]
    if problems:
        raise CheckpointError(
            f"{origin}: {len(problems)} weights do not fit the model:\n  " + "\n  ".join(problems),
            hint="the weights were made by another architecture or another version",
        )
    check_memory(drawn, origin=origin)
    return drawn


def check_memory(drawn: nn.Module, *, origin: str) -> None:
    """Refuse a model that would take more memory than may be used, tables that are computed included."""
    held = {id(tensor): tensor for tensor in (*drawn.parameters(), *drawn.buffers())}
    require(float(sum(tensor.numel() * tensor.element_size() for tensor in held.values())), f"{origin}: the model")
