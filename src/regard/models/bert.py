"""BERT (Devlin et al., 2019): an encoder that sees both sides of every token, taught by filling what was masked.

    logits  = model(ids)                        ids (B, T) → (B, T, V): which token stands at each position
    encoded = model.encode(ids, segments=s)     the contextual vectors (B, T, D)
    pooled  = model.pooled(encoded)             one vector for [CLS] (B, D); `next_sentence` judges pairs by it

`ids` are padded ids, or `Rows` with their lengths, or packed `Rows`; `segments` has the shape of the ids and says which
of two texts a token belongs to. DistilBERT (Sanh et al., 2019) is the same without segments and pooler. `mlm_hidden`
may be given the vectors of a few positions only: the masked ones are all that training needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Learned, MultiHeadAttention, Rows
from regard.config.settings import Settings, setting
from regard.config.twins import twin
from regard.errors import ConfigError, ShapeError, UsageError
from regard.layers import ActivationName, Dropout, Embedding, FeedForward, StackMaker, norm_of
from regard.layers.embeddings import VocabularyOutput
from regard.layers.feedforward import activation_of
from regard.layers.pooling import first_token
from regard.models.entry import Entry

_STD = 0.02  # of embeddings at the start, as published


@dataclass(frozen=True, kw_only=True)
class BertConfig(Settings):
    """What makes one BERT differ from another."""

    n_tokens: int = setting(0, "entries of the vocabulary", ge=1, derived=True)
    d_model: int = setting(768, "width of the model", ge=1)
    n_heads: int = setting(12, "attention heads", ge=1)
    d_feedforward: int = setting(3072, "width inside the feed-forward parts", ge=1)
    n_layers: int = setting(12, "blocks; 0: embeddings alone", ge=0)
    n_positions: int = setting(512, "most tokens of a row", ge=1)
    n_segments: int = setting(2, "texts that a row may hold; 0: no embeddings for them", ge=0)
    dropout: float = setting(0.1, "share of what the parts say that is dropped in training", ge=0, lt=1)
    attention_dropout: float = setting(0.1, "share of attention weights that is dropped", ge=0, lt=1)
    activation_dropout: float = setting(0.0, "share dropped inside the feed-forward parts", ge=0, lt=1)
    activation: ActivationName = setting("gelu", "the feed-forward parts' nonlinearity")
    norm_epsilon: float = setting(1e-12, "what normalisation adds to its divisor", gt=0)
    mlm: bool = setting(True, "the head that fills masks")
    pooler: bool = setting(True, "the tanh layer on [CLS]")
    nsp: bool = setting(True, "the judge of sentence pairs, which stands on the pooler")
    tied: bool = setting(True, "the embeddings are the output's matrix")
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)


SIZES: dict[str, dict[str, int | float]] = {
    "tiny": {"d_model": 128, "n_heads": 2, "d_feedforward": 512, "n_layers": 2},
    "small": {"d_model": 256, "n_heads": 4, "d_feedforward": 1024, "n_layers": 4},
    "minilm": {"d_model": 384, "n_heads": 12, "d_feedforward": 1536, "n_layers": 6},
    "base": {"d_model": 768, "n_heads": 12, "d_feedforward": 3072, "n_layers": 12},
    "large": {"d_model": 1024, "n_heads": 16, "d_feedforward": 4096, "n_layers": 24},
}


class Bert(VocabularyOutput):
    """Embeddings, an encoder, and the heads that the config asks for."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        D, norm = config.d_model, norm_of("layer", epsilon=config.norm_epsilon)
        self.embedding = Embedding(config.n_tokens, D, pad_id=config.pad_id, std=_STD)
        self.positions = Learned(D, n_positions=config.n_positions)
        self.segments = Embedding(config.n_segments, D, std=_STD) if config.n_segments else None
        self.norm = norm(D)
        self.dropout = Dropout(config.dropout)
        self.encoder = StackMaker(
            d_model=D,
            attention=partial(MultiHeadAttention, D, config.n_heads, dropout=config.attention_dropout),
            feedforward=partial(
                FeedForward, D, config.d_feedforward, activation=config.activation, dropout=config.activation_dropout
            ),
            norm=norm,
            order="post",
            dropout=config.dropout,
        ).encoder(config.n_layers)
        self.pooler = nn.Linear(D, D) if config.pooler else None
        self.judge = nn.Linear(D, 2) if config.nsp else None
        self.mlm = MaskedHead(config) if config.mlm else None
        self.output = nn.Linear(D, config.n_tokens, bias=False) if config.mlm and not config.tied else None
        self.register_parameter("output_bias", nn.Parameter(torch.zeros(config.n_tokens)) if config.mlm else None)
        for head in (self.pooler, self.judge, self.output):
            if head is not None:
                _reset(head)

    @property
    def packed_length(self) -> int:
        """How long texts may be that are encoded in a packed row, bit for bit as each would be alone; 0: none are."""
        fast = twin("packed_length")
        return 0 if fast is None or self.training else int(fast(self.encoder))

    def forward(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """Logits (B, T, V) of the token at each position."""
        return self.unembed(self.hidden(ids, segments=segments))

    def hidden(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """What `unembed` turns into logits (B, T, D), for losses that do the output themselves."""
        return self.mlm_hidden(self.encode(ids, segments=segments))

    def encode(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """The contextual vectors (B, T, D); without `segments` all belongs to the first."""
        rows = Rows.of(ids)
        self.positions.reserve(rows.longest)
        embedded: Tensor = self.positions(self.embedding(rows.ids), positions=rows.positions)
        if self.segments is not None:
            embedded = embedded + self._segment_vectors(rows.ids, segments)
        elif segments is not None:
            raise UsageError("this model has no segments", hint="leave them out, or set model.n_segments")
        with rows.drawing():
            return self.encoder(self.dropout(self.norm(embedded)), mask=rows.mask(), positions=rows.positions)

    def mlm_hidden(self, encoded: Tensor) -> Tensor:
        """Contextual vectors (..., D), of all positions or of some, → what `unembed` takes (..., D)."""
        hidden: Tensor = _present(self.mlm, "fills masks", "mlm")(encoded)
        return hidden

    def unembed(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) → logits (..., V)."""
        _present(self.mlm, "fills masks", "mlm")
        return super().unembed(hidden)

    def pooled(self, encoded: Tensor, rows: Rows | None = None) -> Tensor:
        """One vector a row (B, D), off its first token; packed rows give one a document, and have to be named."""
        first = encoded[:, 0] if rows is None else first_token(encoded, rows)
        return torch.tanh(_present(self.pooler, "pools [CLS]", "pooler")(first))

    def next_sentence(self, encoded: Tensor, rows: Rows | None = None) -> Tensor:
        """Logits (B, 2) of the second text following the first (0) or not (1)."""
        logits: Tensor = _present(self.judge, "judges pairs", "nsp")(self.pooled(encoded, rows))
        return logits

    def _segment_vectors(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        assert self.segments is not None
        if segments is None:
            return self.segments.weight[0]
        if segments.shape != ids.shape:
            raise ShapeError(f"segments {tuple(segments.shape)} do not fit ids {tuple(ids.shape)}")
        vectors: Tensor = self.segments(segments)
        return vectors


class MaskedHead(nn.Module):
    """A dense layer with activation and norm, between the encoder and the output over the vocabulary."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = activation_of(config.activation)
        self.norm = norm_of("layer", epsilon=config.norm_epsilon)(config.d_model)
        _reset(self.dense)

    def forward(self, encoded: Tensor) -> Tensor:
        """(..., D) → (..., D)."""
        hidden: Tensor = self.norm(self.activation(self.dense(encoded)))
        return hidden


def _reset(layer: nn.Linear) -> None:
    nn.init.normal_(layer.weight, std=_STD)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _present(head: nn.Module | None, does: str, option: str) -> nn.Module:
    if head is None:
        raise UsageError(f"this model has no head that {does}", hint=f"set model.{option} = true and train it")
    return head


def _check(config: BertConfig) -> None:
    config.check()
    if config.pad_id >= config.n_tokens:
        raise ConfigError(f"a vocabulary of {config.n_tokens} cannot hold the padding's id {config.pad_id}")
    if config.nsp and not config.pooler:
        raise ConfigError("the judge of sentence pairs stands on the pooler, which is off", hint="set pooler = true")


def _under_a_head(head: Mapping[str, Any]) -> dict[str, bool]:
    """Without heads of its own, for which a backbone under another head has no use."""
    return {"mlm": False, "nsp": False, "pooler": head.get("transform") == "pooler"}


ENTRY = Entry(BertConfig, Bert, SIZES, head={"pooling": "first", "transform": "pooler"}, as_backbone=_under_a_head)
