"""Decoder-only language models: each token is predicted from those before it, and from nothing else.

    logits = model(ids)                     (B, T) → (B, T, V), position t about token t + 1
    stepper = model.start(prompts)          the same, one token at a time, with what was computed kept

`ids` are padded, or `Rows` with their lengths, or packed `Rows` whose documents do not see each other. One file is
GPT-1 (Radford et al., 2018: post-norm, learned positions), GPT-2 (2019: pre-norm, a norm at the end) and Llama
(Touvron et al., 2023: rotary positions, root-mean-square norm, gated feed-forward, grouped heads, no biases): the
sizes below are their configs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from regard.attention import Causal, Learned, Mask, MultiHeadAttention, Rotary, Rows, Sinusoidal, Stretch
from regard.errors import ConfigError, UsageError
from regard.fast.gpu.graph_pool import Recordings
from regard.fast.gpu.graph_stepper import Contents, RecordedStepper
from regard.fast.gpu.static_cache import LaneMemory, Lanes
from regard.layers import (
    ActivationName,
    Dropout,
    Embedding,
    EncoderBlock,
    EncoderStack,
    FeedForward,
    GatedFeedForward,
    NormName,
    Order,
    norm_of,
)
from regard.layers.embeddings import in_working_precision
from regard.models.entry import Entry
from regard.models.gpt_stepper import GPTStepper, refuse_beyond

PositionName = Literal["learned", "rotary", "sinusoidal"]


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """What makes one language model differ from another.

    Left out, `d_feedforward` is 4 · d_model, `d_head` is d_model / n_heads, `n_kv_heads` is n_heads, and the
    embeddings' dropout is that of the parts. `n_positions` limits learned positions; others only note it. `rotary_base`
    and `rotary_stretch` say how fast rotary positions turn. `tied` uses the embeddings as the output's matrix.
    """

    n_tokens: int = 0
    d_model: int = 768
    n_heads: int = 12
    n_layers: int = 12
    n_positions: int = 1024
    d_feedforward: int | None = None
    n_kv_heads: int | None = None
    d_head: int | None = None
    order: Order = "pre"
    norm: NormName = "layer"
    norm_epsilon: float = 1e-5
    norm_bias: bool = True
    positions: PositionName = "learned"
    rotary_base: float = 10000.0
    rotary_stretch: Stretch | None = None
    activation: ActivationName = "gelu_tanh"
    gated: bool = False
    attention_bias: bool = True
    feedforward_bias: bool = True
    tied: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0
    embedding_dropout: float | None = None
    pad_id: int = 0


_LLAMA: dict[str, int | float | str] = {"norm": "rms", "positions": "rotary", "activation": "silu", "gated": True,
          "attention_bias": False, "feedforward_bias": False}  # fmt: skip

SIZES: dict[str, dict[str, int | float | str]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "n_layers": 4, "n_positions": 256},
    "small": {"d_model": 384, "n_heads": 6, "n_layers": 6, "n_positions": 256, "dropout": 0.2},
    "gpt1": {"d_model": 768, "n_heads": 12, "n_layers": 12, "n_positions": 512, "order": "post",
             "attention_dropout": 0.1},
    "gpt2": {"d_model": 768, "n_heads": 12, "n_layers": 12, "n_positions": 1024, "attention_dropout": 0.1},
    "gpt2-medium": {"d_model": 1024, "n_heads": 16, "n_layers": 24, "n_positions": 1024, "attention_dropout": 0.1},
    "llama-tiny": {"d_model": 128, "n_heads": 4, "n_kv_heads": 2, "n_layers": 4, "d_feedforward": 352,
                   "n_positions": 256, **_LLAMA},
    "llama-small": {"d_model": 384, "n_heads": 6, "n_kv_heads": 2, "n_layers": 6, "d_feedforward": 1024,
                    "n_positions": 256, "dropout": 0.2, **_LLAMA},
}  # fmt: skip


class GPT(nn.Module):
    """Embeddings, a stack of blocks that look back only, and an output over the vocabulary."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        D = config.d_model
        # Sines and cosines are of size one, so embeddings beside them are scaled up as in the Transformer.
        self.embedding = Embedding(config.n_tokens, D, scaled=config.positions == "sinusoidal")
        self.positions = _positions(config)
        rotary = _rotary(config)
        norm = norm_of(config.norm, epsilon=config.norm_epsilon, bias=config.norm_bias)
        self.stack = EncoderStack(
            [_block(config, rotary) for _ in range(config.n_layers)],
            final_norm=norm(D) if config.order == "pre" else None,
        )
        self.output = None if config.tied else nn.Linear(D, config.n_tokens, bias=False)
        self.dropout = Dropout(config.dropout if config.embedding_dropout is None else config.embedding_dropout)
        self.recordings = Recordings()
        self.reset()

    def reset(self) -> None:
        """Start over, as GPT-2 does: normal with 0.02, less where many layers add up on the way through."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding | Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for name, weight in self.stack.named_parameters():
            if name.endswith(("attention.out.weight", "feedforward.outer.weight")):
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * self.config.n_layers))

    def forward(self, ids: Tensor | Rows) -> Tensor:
        """Logits (B, T, V) of each next token."""
        return self.unembed(self.hidden(ids))

    def hidden(self, ids: Tensor | Rows) -> Tensor:
        """The last states (B, T, D), for losses that do the output themselves."""
        rows = Rows.of(ids)
        if self.positions is not None:
            self.positions.reserve(rows.longest)
        # Padding comes after what is real, and who looks back only never sees it: the causal flag says it all.
        mask: Mask = Causal() if rows.documents is None else rows.documents & Causal()
        hidden: Tensor = self.stack(self.embed(rows.ids, positions=rows.positions), mask=mask, positions=rows.positions)
        return hidden

    def encode(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """Contextual vectors (B, T, D), for heads on top; each has seen the tokens up to its own."""
        if segments is not None:
            raise UsageError(
                "segments were given, and a GPT has no embeddings for them",
                hint="put a separating token between the two texts",
            )
        return self.hidden(ids)

    def embed(self, ids: Tensor, *, positions: Tensor | None = None, offset: int = 0) -> Tensor:
        """Ids (B, T) → vectors (B, T, D) that know their positions, unless those are rotary."""
        embedded: Tensor = self.embedding(ids)
        if self.positions is not None:
            embedded = self.positions(embedded, positions=positions, offset=offset)
        dropped: Tensor = self.dropout(in_working_precision(embedded))
        return dropped

    def unembed(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) → logits (..., V)."""
        if self.output is None:
            return self.embedding.unembed(hidden)
        logits: Tensor = self.output(hidden)
        return logits

    @property
    def output_weight(self) -> Tensor:
        """The matrix (V, D) that `unembed` multiplies by, for losses that do the output themselves."""
        return self.embedding.weight if self.output is None else self.output.weight

    @property
    def output_bias(self) -> Tensor | None:
        """What `unembed` adds: nothing."""
        return None

    @property
    def position_limit(self) -> int | None:
        """The most tokens a row can have, prompt and continuation together; None where there is no limit."""
        return self.config.n_positions if self.config.positions == "learned" else None

    def start(
        self, prompts: Tensor | Rows, *, capacity: int = 64, watched: bool = False
    ) -> GPTStepper | RecordedStepper:
        """Read the prompts (N, P) but for the last token of each, which is the first to `step` with.

        Prompts may differ in length. `capacity` counts the steps to come; `watched` steps keep their attention.
        On a GPU, steps that are not watched are recorded, unless `recordings` are switched off.
        """
        if not watched and self.recordings.suit(self):
            return self.start_recorded(prompts, capacity=capacity)
        return GPTStepper(self, Rows.of(prompts), capacity=capacity, watched=watched)

    def start_recorded(self, prompts: Tensor | Rows, *, capacity: int = 64) -> RecordedStepper:
        """The same with steps that are recorded where there is a GPU, over buffers that stay where they are."""
        read = GPTStepper(self, Rows.of(prompts), capacity=1, watched=False)
        past = [(_time_first(cache.keys), _time_first(cache.values)) for cache in read.caches if cache.length]
        starts = torch.zeros(read.n_rows, dtype=torch.int64, device=read.device) if read.starts is None else read.starts
        return RecordedStepper(self, Contents.of_past(past, starts), capacity=read.length + capacity)

    def step_once(self, tokens: Tensor, memory: LaneMemory) -> Tensor:
        """One decoding step over fixed buffers: the last token of each row (N,) → logits of the next (N, V)."""
        positions = memory.lanes.places()
        if self.position_limit is not None:
            positions = positions.clamp(max=self.position_limit - 1)
        hidden = self.stack(self.embed(tokens[:, None], positions=positions), caches=memory.past, positions=positions)
        return self.unembed(hidden[:, 0])

    def thin_step(self) -> Callable[[Tensor, LaneMemory], Tensor] | None:
        """`step_once` for a few rows on a GPU, in half as many kernels; None where the blocks do not allow it."""
        from regard.fast.gpu.gemv_step import ThinStep  # here, because Triton comes with GPU builds only

        return ThinStep.of(self.embedding, self.positions, stack=self.stack, output=self.output_weight)

    def check_step(self, tokens: Tensor, *, length: int, lanes: Lanes) -> None:
        """Refuse a step beyond the last learned position, unless all rows that have come there are done."""
        limit = self.position_limit
        if limit is not None and length >= limit:
            refuse_beyond(limit, tokens[length - lanes.starts[: len(tokens)] >= limit], pad_id=self.config.pad_id)


def _time_first(heads: Tensor) -> Tensor:
    """(N, G, T, E) → (T, N, G, E)."""
    return heads.permute(2, 0, 1, 3)


def _block(config: GPTConfig, rotary: Rotary | None) -> EncoderBlock:
    attention = MultiHeadAttention(
        config.d_model,
        config.n_heads,
        kind="masked",
        n_kv_heads=config.n_kv_heads,
        d_head=config.d_head,
        bias=config.attention_bias,
        rotary=rotary,
        dropout=config.attention_dropout,
    )
    feedforward = GatedFeedForward if config.gated else FeedForward
    return EncoderBlock(
        config.d_model,
        attention=attention,
        feedforward=feedforward(
            config.d_model,
            config.d_feedforward or 4 * config.d_model,
            activation=config.activation,
            bias=config.feedforward_bias,
        ),
        order=config.order,
        norm=norm_of(config.norm, epsilon=config.norm_epsilon, bias=config.norm_bias),
        dropout=config.dropout,
    )


def _positions(config: GPTConfig) -> Sinusoidal | Learned | None:
    if config.positions == "sinusoidal":
        return Sinusoidal(config.d_model, n_positions=config.n_positions)
    if config.positions == "learned":
        return Learned(config.d_model, n_positions=config.n_positions)
    return None


def _rotary(config: GPTConfig) -> Rotary | None:
    if config.positions != "rotary":
        return None
    d_head = config.d_head or config.d_model // config.n_heads
    return Rotary(d_head, base=config.rotary_base, stretch=config.rotary_stretch)


def _check(config: GPTConfig) -> None:
    named = {"order": Order, "norm": NormName, "positions": PositionName, "activation": ActivationName}
    for name, names in named.items():
        if getattr(config, name) not in get_args(names):
            raise ConfigError(f"{name} is {getattr(config, name)!r}; allowed: {', '.join(get_args(names))}")
    for name in ("n_tokens", "d_model", "n_heads", "n_layers", "n_positions"):
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} is {getattr(config, name)}; allowed is 1 or more")


ENTRY = Entry(GPTConfig, GPT, SIZES, head={"pooling": "last"}, continues=True)
