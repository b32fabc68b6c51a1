"""Models in our terms, whoever trained them: what they are, and with their weights.

`ModelSpec` is what a model is: the task, its name in the registry, and its options; a run keeps it as `model.json`.
`Pretrained` is the same with weights and tokenizer: all that is needed to build the model, or to start from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from regard.checkpoints.weights import load_weights
from regard.data.text.tokenizers import Tokenizer
from regard.models.registry import build, configure


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
    """A model that others trained, in our terms: weights by our names, and its tokenizer (or one for each side)."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    target_tokenizer: Tokenizer | None = None
    origin: str = ""

    def module(self) -> nn.Module:
        """The model, built and filled."""
        model = build(self.model, self.options)
        load_weights(model, self.tensors, origin=self.origin)
        return model.eval()


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
