"""A trained Transformer in the sizes of a larger one, computing the same: what base costs, without training it.

    predictor = widened(regard.load("runs/tiny", "cpu"), size="base")

Hidden states are copied side by side, which leaves layer norms as they were. Every head and every inner feature is
there several times, with its share of the output each (Chen et al., 2016, Net2Net). Blocks that are added say nothing,
and the last norm moves to the last of them. Positions are the small model's, side by side, and become weights, since a
wide model has others, wherever it is exported to. Nothing of it is sparse to who multiplies: translations and their
lengths are those of the small model, time and memory those of the large one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Learned, Sinusoidal
from regard.models.transformer import SIZES, Transformer
from regard.tasks.translation.predictor import TranslationPredictor


def widened(predictor: Any, *, size: str, precision: str) -> TranslationPredictor:
    """The predictor with its model widened; one of that size already is left as it is."""
    small = predictor.module
    wanted = {name: value for name, value in SIZES[size].items() if name != "dropout"}
    wide = Transformer(replace(small.config, **wanted, positions="learned")).eval()
    Widening(small, wide).run()
    return TranslationPredictor([wide], predictor.languages, predictor.config, precision=precision)


class Widening:
    """Copies a small post-norm model into a wide one, number by number."""

    def __init__(self, small: Transformer, wide: Transformer) -> None:
        assert (small.config.order, small.config.tied, small.config.positions) == ("post", "all", "sinusoidal")
        self.small, self.wide = small, wide
        a, b = small.config, wide.config
        self.width = torch.arange(b.d_model) % a.d_model
        self.inner = torch.arange(b.d_feedforward) % a.d_feedforward
        heads, features = torch.arange(b.n_heads) % a.n_heads, torch.arange(b.d_model // b.n_heads)
        d_head = a.d_model // a.n_heads
        self.heads = (heads[:, None] * d_head + features % d_head).flatten()
        # A product of copies counts each feature as often as it is there; queries are made smaller by as much.
        self.query_scale = math.sqrt(d_head / len(features))

    @torch.no_grad()
    def run(self) -> None:
        """Everything."""
        small, wide, share = self.small, self.wide, len(self.width) / self.small.config.d_model
        wide.source_embedding.weight.copy_(small.source_embedding.weight[:, self.width] / math.sqrt(share))
        assert isinstance(small.positions, Sinusoidal)
        assert isinstance(wide.positions, Learned)
        small.positions.reserve(wide.config.n_positions)
        wide.positions.table.weight.copy_(small.positions.table[: wide.config.n_positions, self.width])
        for theirs, ours in ((small.encoder, wide.encoder), (small.decoder, wide.decoder)):
            self._stack(list(theirs.blocks), list(ours.blocks))
        last: Any = wide.decoder.blocks[-1].around_feedforward.norm  # type: ignore[union-attr]
        for numbers in (last.weight, last.bias):  # the output multiplies copies by copies
            numbers.div_(math.sqrt(share))

    def _stack(self, small: list[Any], wide: list[Any]) -> None:
        for old, new in zip(small, wide, strict=False):
            self._block(old, new)
        ends = [block.around_feedforward.norm for block in (wide[len(small) - 1], wide[-1])]
        kept = [part.clone() for part in (ends[0].weight, ends[0].bias)]
        for block in wide[len(small) - 1 :]:
            nn.init.ones_(block.around_feedforward.norm.weight)
            nn.init.zeros_(block.around_feedforward.norm.bias)
        for block in wide[len(small) :]:
            for name, parameter in block.named_parameters():
                if name.split(".")[-2] in ("out", "outer"):
                    nn.init.zeros_(parameter)
        ends[1].weight.copy_(kept[0])
        ends[1].bias.copy_(kept[1])

    def _block(self, old: Any, new: Any) -> None:
        n, heads = self.small.config.d_model, self.heads
        self._linear(old.attention.query_key_value, new.attention.query_key_value,
                     torch.cat([heads, n + heads, 2 * n + heads]), self.width)  # fmt: skip
        self._scale(new.attention.query_key_value, len(heads))
        self._linear(old.attention.out, new.attention.out, self.width, heads)
        if hasattr(old, "cross"):
            self._linear(old.cross.query, new.cross.query, heads, self.width)
            self._scale(new.cross.query, len(heads))
            self._linear(old.cross.key_value, new.cross.key_value, torch.cat([heads, n + heads]), self.width)
            self._linear(old.cross.out, new.cross.out, self.width, heads)
        self._linear(old.feedforward.inner, new.feedforward.inner, self.inner, self.width)
        self._linear(old.feedforward.outer, new.feedforward.outer, self.width, self.inner)
        for name in ("around_attention", "around_cross", "around_feedforward"):
            if hasattr(old, name):
                for part in ("weight", "bias"):
                    getattr(getattr(new, name).norm, part).copy_(getattr(getattr(old, name).norm, part)[self.width])

    def _linear(self, old: nn.Linear, new: nn.Linear, rows: Tensor, columns: Tensor) -> None:
        """Outputs are copied, and inputs, of which each copy has its share."""
        new.weight.copy_(old.weight[rows][:, columns] * (old.in_features / len(columns)))
        new.bias.copy_(old.bias[rows])

    def _scale(self, layer: nn.Linear, n_queries: int) -> None:
        layer.weight[:n_queries] *= self.query_scale
        layer.bias[:n_queries] *= self.query_scale
