"""Models in our terms, whoever trained them: what they are, and with their weights.

`ModelSpec` is what a model is: the task, its name in the registry, and its options; a run keeps it as `model.json`.
`Pretrained` is the same with weights and tokenizer: all that is needed to build the model, or to start from it.

A description is a few bytes that anybody can write, so it is compared with the weights before anything is built:

    check_depth(options, stored, origin=…)               a model has no more layers than its file has tensors
    check_weights("gpt", options, stored, origin=…)      names and shapes, from headers alone
    check_memory(outline("gpt", options), origin=…)      weights and tables together, and what may be used

What it asks for is worked out without memory, and only once the number of layers is plausible, since each of them is
built one by one even so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from regard.checkpoints.headers import Stored, outline
from regard.checkpoints.weights import load_weights, weights_of
from regard.config.bounded import require
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, UsageError
from regard.layers.block_weights import BlockMatrix
from regard.models.registry import build, configure

_REPEATED = ("layers", "blocks", "halvings")  # how the options end that say how often something is built


@dataclass(frozen=True)
class ModelSpec:
    """A model of ours: what it is for, its name in the registry, its options, the names of its classes.

    `decode` holds options of decoding that the model was published with.
    """

    task: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] | None = None
    decode: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pretrained(ModelSpec):
    """A model that others trained, in our terms: weights by our names, and its tokenizer (or one for each side).

    `blocks` are weights that stay in the blocks they were published in; a model made of such is for inference only.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    blocks: Mapping[str, BlockMatrix] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    target_tokenizer: Tokenizer | None = None
    origin: str = ""

    def module(self) -> nn.Module:
        """The model, built and filled."""
        if self.blocks:
            from regard.checkpoints.block_models import block_model

            return block_model(outline(self.model, self.options), self.tensors, self.blocks, origin=self.origin).eval()
        model = build(self.model, self.options)
        load_weights(model, self.tensors, origin=self.origin)
        return model.eval()

    def outline(self) -> nn.Module:
        """The model without its weights: what it is, and nothing to compute with."""
        return outline(self.model, self.options).eval()


def with_defaults(model: ModelSpec) -> ModelSpec:
    """The same model with every option said, also those of a backbone that it stands on."""
    options = dict(model.options)
    size = options.pop("size", None)
    config = configure(model.model, size, **options)
    full = asdict(config)
    if "backbone" in full:
        rest = dict(full["backbone"])
        name = rest.pop("name")
        full["backbone"] = {"name": name, **asdict(configure(name, rest.pop("size", None), **rest))}
    return replace(model, options=full)


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
