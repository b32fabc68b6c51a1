"""A model from outside the package: a language model of one attention and nothing else, which reads anew at each step.

logits = model(ids)                     (B, T) → (B, T, V), position t about token t + 1
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Causal, MultiHeadAttention, Rows
from regard.data.batching.plan import pad
from regard.models.entry import Entry
from regard.models.registry import register


@dataclass(frozen=True, kw_only=True)
class PeepholeConfig:
    n_tokens: int = 0
    d_model: int = 32
    n_heads: int = 2
    n_positions: int = 64
    pad_id: int = 0


class Peephole(nn.Module):
    output_bias = None

    def __init__(self, config: PeepholeConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.n_tokens, config.d_model)
        self.positions = nn.Embedding(config.n_positions, config.d_model)
        self.attention = MultiHeadAttention(config.d_model, config.n_heads, kind="masked")
        self.norm = nn.LayerNorm(config.d_model)

    def forward(self, ids: Tensor | Rows) -> Tensor:
        return self.unembed(self.hidden(ids))

    def hidden(self, ids: Tensor | Rows) -> Tensor:
        rows = Rows.of(ids)
        places = torch.arange(rows.ids.shape[1], device=rows.ids.device).clamp(max=self.config.n_positions - 1)
        embedded = self.embedding(rows.ids) + self.positions(places)
        return self.norm(embedded + self.attention(embedded, mask=Causal()))

    def encode(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        return self.hidden(ids)

    def unembed(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.output_weight)

    @property
    def output_weight(self) -> Tensor:
        return self.embedding.weight

    def start(self, prompts: Tensor | Rows, *, capacity: int = 64, watched: bool = False) -> "Peeper":
        rows = Rows.of(prompts)
        lengths = [rows.ids.shape[1]] * len(rows.ids) if rows.lengths is None else rows.lengths.tolist()
        return Peeper(self, [ids[: n - 1] for ids, n in zip(rows.ids.tolist(), lengths, strict=True)])


class Peeper:
    """What each row has read and written so far; decoding asks for nothing more."""

    def __init__(self, model: Peephole, texts: list[list[int]]) -> None:
        self.model, self.texts, self.device = model, texts, model.embedding.weight.device

    def step(self, tokens: Tensor) -> Tensor:
        self.texts = [[*text, token] for text, token in zip(self.texts, tokens.tolist(), strict=True)]
        ids, lengths = pad(self.texts, self.model.config.pad_id)
        hidden = self.model.hidden(Rows(ids.to(self.device), lengths.to(self.device)))
        return self.model.unembed(hidden[torch.arange(len(ids)), lengths - 1])

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        self.texts = [self.texts[row] for row in rows.tolist()]


def add() -> None:
    register("peephole", Entry(PeepholeConfig, Peephole, {"tiny": {"d_model": 16}}, tasks=("language",)))
