"""What heads stand on: any registered model that reads one text, and what heads have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from regard.attention import Rows
from regard.errors import ConfigError
from regard.models.registry import build, entry


class Backbone(Protocol):
    """What heads ask of the model they stand on."""

    @property
    def config(self) -> Any:
        """What it was built of; it says `d_model`."""

    def encode(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """The contextual vectors of all tokens (B, T, D)."""


def build_backbone(section: Mapping[str, Any]) -> Any:
    """The registered model that a `[model.backbone]` table describes: its name and its options."""
    if "name" not in section:
        raise ConfigError(
            f"the backbone has no name; given: {dict(section) or 'nothing'}",
            hint='write backbone = { name = "bert", size = "tiny" }, for example',
        )
    name = str(section["name"])
    if "n_tokens" not in entry(name).options:  # what all models of one text have, and heads and translators have not
        raise ConfigError(f"a head cannot stand on {name!r}: it takes a model that reads one text")
    return build(name, {option: value for option, value in section.items() if option != "name"})


def encode_with(backbone: Backbone, ids: Tensor | Rows, segments: Tensor | None) -> Tensor:
    """The vectors of all tokens (B, T, D); segments go to backbones that have embeddings for them."""
    if not getattr(backbone.config, "n_segments", 0):
        segments = None
    return backbone.encode(ids, segments=segments)


def packed_length(backbone: Backbone) -> int:
    """How long texts may be that a backbone encodes in a packed row, bit for bit as each would be alone; 0: none."""
    return int(getattr(backbone, "packed_length", 0))


def output_layer(d_model: int, n_outputs: int) -> nn.Linear:
    """Small at first, so that every class starts about as likely as the others."""
    output = nn.Linear(d_model, n_outputs)
    nn.init.normal_(output.weight, std=0.02)
    nn.init.zeros_(output.bias)
    return output
