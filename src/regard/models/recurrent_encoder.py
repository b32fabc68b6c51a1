"""A recurrent network as an encoder of texts: every token's state, read in both directions, for heads on top.

    encoded = model.encode(ids)        (B, T) → (B, T, d_model)

With `attention` the states look at one another before they are given away, as they are, with no matrix but the score's:
LSTM, `attention="dot"` and a mean over the tokens are the lectures' Keras classifier. Rows are padded, not packed.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention import Rows, Tap
from regard.config.settings import Settings, setting
from regard.errors import ShapeError
from regard.layers import Dropout, Embedding, Recurrent, RecurrentName
from regard.layers.recurrent import recurrent_rows
from regard.layers.state_attention import AttentionName, score_of
from regard.models.entry import Entry


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderConfig(Settings):
    """What makes one recurrent encoder differ from another."""

    n_tokens: int = setting(0, "entries of the vocabulary", ge=1, derived=True)
    cell: RecurrentName = setting("lstm", "the recurrent cell")
    d_embedding: int = setting(256, "width of the embeddings", ge=1)
    d_hidden: int = setting(256, "width of the recurrent state", ge=1)
    n_layers: int = setting(1, "layers", ge=1)
    bidirectional: bool = setting(True, "it reads in both directions")
    attention: AttentionName = setting("none", "the score of attention over its states; none: no attention")
    dropout: float = setting(0.3, "share dropped of embeddings, layers and what comes out", ge=0, lt=1)
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)

    @property
    def d_model(self) -> int:
        """The width of a token's state: both directions side by side."""
        return 2 * self.d_hidden if self.bidirectional else self.d_hidden


SIZES: dict[str, dict[str, int | float]] = {
    "tiny": {"d_embedding": 64, "d_hidden": 64, "n_layers": 1, "dropout": 0.3},
    "small": {"d_embedding": 256, "d_hidden": 256, "n_layers": 1, "dropout": 0.3},
    "base": {"d_embedding": 512, "d_hidden": 512, "n_layers": 2, "dropout": 0.3},
}


class RecurrentEncoder(nn.Module):
    """Embeddings, recurrent layers, and attention between their states where asked for."""

    def __init__(self, config: RecurrentEncoderConfig) -> None:
        super().__init__()
        config.check()
        self.config = config
        self.embedding = Embedding(config.n_tokens, config.d_embedding, pad_id=config.pad_id, std=0.1)
        self.encoder = Recurrent(
            config.cell,
            config.d_embedding,
            d_hidden=config.d_hidden,
            n_layers=config.n_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.score = None if config.attention == "none" else score_of(config.attention, config.d_model)
        self.tap = Tap("self") if self.score is not None else None
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor | Rows) -> Tensor:
        """The states of all tokens (B, T, d_model)."""
        return self.encode(ids)

    def encode(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """The states of all tokens (B, T, d_model), zeros in the padding. `segments` tell it nothing: it reads on."""
        rows = recurrent_rows(ids)
        if rows.ids.shape[1] < 1 or (rows.lengths is not None and int(rows.lengths.min()) < 1):
            raise ShapeError("every text holds at least one token; here is an empty one", hint="leave it out")
        states: Tensor = self.encoder(self.dropout(self.embedding(rows.ids)), lengths=rows.lengths).outputs
        if self.score is not None and self.tap is not None:
            h_B1TD = states.unsqueeze(1)
            keys = self.score.prepare(h_B1TD)
            states = self.tap(h_B1TD, keys, h_B1TD, score=self.score, mask=rows.mask()).squeeze(1)
        return self.dropout(states)


ENTRY = Entry(RecurrentEncoderConfig, RecurrentEncoder, SIZES, head={"pooling": "attention"})
