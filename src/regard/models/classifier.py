"""A head on a backbone that says what a text is: classes, or one number.

    rows (B, T) → pool → transform → dropout → output    (B, n_outputs): scores of classes, or a number

The backbone is any registered model with `encode`; the config's `backbone` names it and its options, as `[model]` does:

    [model]
    name = "classifier"
    n_outputs = 2
    backbone = { name = "bert", size = "tiny" }

    pooling     transform    what it is
    first       pooler       BertForSequenceClassification: [CLS] through the backbone's own tanh layer
    first       relu         DistilBertForSequenceClassification: `transform` is its pre_classifier
    last        none         GPT's head (Radford et al., 2018); `mean` and `attention` suit any encoder

With `grams`, a linear model of tokens and pairs of tokens adds its scores: it learns quickly what words alone tell, and
where examples are few it is the better half. In training each half sometimes has to do without the other.

Weights are called `backbone.…`, `transform.weight|bias`, `output.weight|bias`, `pool.query`, `pool.score.…`,
`grams.weight`.
Packed rows (1, T) of N documents give (N, n_outputs), one row a document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Rows
from regard.config.random_numbers import uniform
from regard.config.settings import Settings, setting
from regard.errors import ConfigError
from regard.layers import Dropout
from regard.layers.grams import GramScores
from regard.layers.pooling import AttentionPooling, first_token, last_token, mean_of_tokens
from regard.layers.state_attention import AttentionName, score_of
from regard.models.entry import Entry
from regard.models.interfaces.backbone import Backbone, build_backbone, encode_with, output_layer, packed_length

Pooling = Literal["first", "last", "mean", "attention"]
Transform = Literal["none", "pooler", "tanh", "relu"]

_ALONE = 0.3  # share of the rows that each half is trained on without the other
_POOLS: dict[str, Callable[[Tensor, Rows], Tensor]] = {
    "first": first_token,
    "last": last_token,
    "mean": mean_of_tokens,
}


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(Settings):
    """A backbone and what stands on it."""

    backbone: dict[str, Any] = setting({}, "the model below: its name, its size, its options")
    n_outputs: int = setting(2, "classes; 1 for a number", ge=1, derived=True)
    pooling: Pooling = setting("first", "how tokens become one vector")
    transform: Transform = setting("none", "the layer between that vector and the output")
    score: AttentionName = setting("scaled_dot", "the score of attention pooling, whose query is learned")
    dropout: float = setting(0.1, "share dropped before the output", ge=0, lt=1)
    grams: int = setting(
        0, "buckets of a linear model of tokens and pairs of tokens beside the backbone; 0: none", ge=0
    )


class Classifier(nn.Module):
    """What a text is: scores of classes (B, n_outputs), or one number (B, 1)."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        self.backbone = build_backbone(config.backbone)
        D = self.backbone.config.d_model
        if config.transform == "pooler" and not _has_pooler(self.backbone):
            raise ConfigError(
                f'transform "pooler" is the backbone\'s own, and this {config.backbone["name"]} has none',
                hint='choose a backbone with one (bert), or transform="tanh"',
            )
        self.pool = AttentionPooling(D, score=score_of(config.score, D)) if config.pooling == "attention" else None
        self.transform = _dense(D) if config.transform in ("tanh", "relu") else None
        self.dropout = Dropout(config.dropout)
        self.output = output_layer(D, config.n_outputs)
        self.grams = GramScores(config.grams, config.n_outputs) if config.grams else None

    @property
    def packed_length(self) -> int:
        """How long texts may be that stand in a packed row, each read as it would be alone; 0: none may."""
        return packed_length(self.backbone)

    def forward(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """The scores of each row (B, n_outputs)."""
        rows = Rows.of(ids)
        return self.classify(self.encode(rows, segments=segments), rows)

    def encode(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """The backbone's vectors of all tokens (B, T, D)."""
        return encode_with(self.backbone, ids, segments)

    def classify(self, encoded: Tensor, rows: Rows) -> Tensor:
        """What `encode` gave (B, T, D) → the scores of each row (B, n_outputs)."""
        scores: Tensor = self.output(self.dropout(self.pooled(encoded, rows)))
        return scores if self.grams is None else self._together(scores, self.grams(rows))

    def _together(self, scores: Tensor, linear: Tensor) -> Tensor:
        """The sum of both; in training, each is alone on some rows."""
        if not self.training:
            return scores + linear
        chance = uniform((len(scores), 1), scores.device)
        return scores * (chance >= _ALONE) + linear * (chance < 1 - _ALONE)

    def pooled(self, encoded: Tensor, rows: Rows) -> Tensor:
        """One vector a row (B, D), just before dropout and output."""
        vector = _POOLS[self.config.pooling](encoded, rows) if self.pool is None else self.pool(encoded, rows)
        if self.config.transform == "pooler":
            own: Tensor = cast(Any, self.backbone).pooled(vector[:, None])  # it looks at the first of one token
            return own
        if self.transform is None:
            return vector
        return (F.relu if self.config.transform == "relu" else F.tanh)(self.transform(vector))


def _has_pooler(backbone: Backbone) -> bool:
    return callable(getattr(backbone, "pooled", None)) and getattr(backbone.config, "pooler", True) is not False


def _dense(d_model: int) -> nn.Linear:
    dense = nn.Linear(d_model, d_model)
    nn.init.xavier_uniform_(dense.weight)
    nn.init.zeros_(dense.bias)
    return dense


def _check(config: ClassifierConfig) -> None:
    config.check()
    if config.transform == "pooler" and config.pooling != "first":
        raise ConfigError(f'transform "pooler" reads the first token, and pooling is {config.pooling!r}')


ENTRY = Entry(ClassifierConfig, Classifier)
