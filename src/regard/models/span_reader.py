"""A head on a backbone that says where in a text an answer stands (Devlin et al., 2019).

    rows (B, T) → dropout → output at every token        start and end scores, (B, T) each

Weights are called `backbone.…` and `output.weight|bias`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.attention import Rows
from regard.config.settings import Settings, setting
from regard.layers import Dropout
from regard.models.entry import Entry
from regard.models.interfaces.backbone import build_backbone, encode_with, output_layer, packed_length


@dataclass(frozen=True, kw_only=True)
class SpanReaderConfig(Settings):
    """A backbone, and what points at the two ends of an answer."""

    backbone: dict[str, Any] = setting({}, "the model below: its name, its size, its options")
    dropout: float = setting(0.1, "share dropped before the output", ge=0, lt=1)


class SpanLogits(NamedTuple):
    """How well an answer could start, and end, at each token: (B, T) each."""

    start: Tensor
    end: Tensor


class SpanReader(nn.Module):
    """Where in a text an answer stands (Devlin et al., 2019): rows 0 and 1 of `output`, as in Hugging Face's models."""

    def __init__(self, config: SpanReaderConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = build_backbone(config.backbone)
        self.dropout = Dropout(config.dropout)
        self.output = output_layer(self.backbone.config.d_model, 2)

    @property
    def packed_length(self) -> int:
        """How long texts may be that stand in a packed row, each read as it would be alone; 0: none may."""
        return packed_length(self.backbone)

    def forward(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> SpanLogits:
        """Scores of starts and of ends at every token (B, T); what they say about padding is for nobody."""
        encoded = encode_with(self.backbone, ids, segments)
        return SpanLogits(*self.output(self.dropout(encoded)).unbind(-1))


ENTRY = Entry(SpanReaderConfig, SpanReader)
