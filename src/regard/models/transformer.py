"""The Transformer (Vaswani et al., 2017): an encoder and a decoder of attention blocks, nothing recurrent.

    logits = model(source, target)        source (B, S), target (B, T) starting with <s>  →  (B, T, V)

`source` and `target` are padded ids, or `Rows` with their lengths, or packed `Rows` without any padding.
Sizes `base` and `big` are the paper's; `tiny` is the one that does best on small corpora.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, Padding, Rotary, Rows
from regard.attention.masks import materialize
from regard.attention.positions import added_positions
from regard.config.settings import Settings, setting
from regard.config.twins import twin
from regard.errors import ConfigError, ShapeError
from regard.layers import ActivationName, Dropout, Embedding, FeedForward, NormName, Order, StackMaker, norm_of
from regard.layers.decoder_stepper import DecoderStepper, StepEmbedding
from regard.layers.embeddings import VocabularyOutput
from regard.layers.kv_cache import DecoderKVCache
from regard.models.entry import Entry
from regard.models.interfaces.text import Seq2SeqStepper

PositionName = Literal["sinusoidal", "learned", "rotary"]
Tied = Literal["all", "output", "none"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Settings):
    """What makes one Transformer differ from another."""

    n_source: int = setting(0, "entries of the source's vocabulary", ge=1, derived=True)
    n_target: int = setting(0, "entries of the target's vocabulary", ge=1, derived=True)
    d_model: int = setting(512, "width of the model", ge=1)
    n_heads: int = setting(8, "attention heads", ge=1)
    d_feedforward: int = setting(2048, "width inside the feed-forward parts", ge=1)
    n_encoder_layers: int = setting(6, "blocks of the encoder", ge=1)
    n_decoder_layers: int = setting(6, "blocks of the decoder", ge=1)
    n_kv_heads: int | None = setting(None, "heads of keys and values; unset: as many as attention heads", ge=1)
    dropout: float = setting(0.1, "share of what the parts say that is dropped in training", ge=0, lt=1)
    attention_dropout: float = setting(0.0, "share of attention weights that is dropped", ge=0, lt=1)
    activation_dropout: float = setting(0.0, "share dropped inside the feed-forward parts", ge=0, lt=1)
    order: Order = setting("post", "normalisation before or after each part")
    norm: NormName = setting("layer", "the normalisation")
    activation: ActivationName = setting("relu", "the feed-forward parts' nonlinearity")
    positions: PositionName = setting("sinusoidal", "how places are told apart")
    n_positions: int = setting(1024, "most places, where positions are learned", ge=1)
    tied: Tied = setting("all", "one matrix for source, target and output; for target and output; or none")
    output_bias: bool = setting(False, "a learned number is added to each token's logit")
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)


SIZES: dict[str, dict[str, int | float]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "d_feedforward": 256, "n_encoder_layers": 4, "n_decoder_layers": 4,
             "dropout": 0.3},
    "small": {"d_model": 256, "n_heads": 4, "d_feedforward": 1024, "n_encoder_layers": 3, "n_decoder_layers": 3,
              "dropout": 0.2},
    "base": {"d_model": 512, "n_heads": 8, "d_feedforward": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6,
             "dropout": 0.1},
    "big": {"d_model": 1024, "n_heads": 16, "d_feedforward": 4096, "n_encoder_layers": 6, "n_decoder_layers": 6,
            "dropout": 0.3},
}  # fmt: skip


class Transformer(VocabularyOutput):
    """Encoder, decoder, embeddings and an output over the target vocabulary."""

    tied_to = "target_embedding"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        config.check()
        check_shared_vocabulary(config.tied, config.n_source, config.n_target)
        self.config = config
        D = config.d_model
        embedding = partial(Embedding, d_model=D, scaled=True, pad_id=config.pad_id)
        self.source_embedding = embedding(config.n_source)
        self.target_embedding = self.source_embedding if config.tied == "all" else embedding(config.n_target)
        self.output = None if config.tied != "none" else nn.Linear(D, config.n_target, bias=False)
        bias = nn.Parameter(torch.zeros(config.n_target)) if config.output_bias else None
        self.register_parameter("output_bias", bias)
        self.positions = added_positions(config.positions, D, n_positions=config.n_positions)
        blocks = _blocks(config)
        self.encoder = blocks.encoder(config.n_encoder_layers)
        self.decoder = blocks.decoder(config.n_decoder_layers)
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Tensor | Rows, target: Tensor | Rows) -> Tensor:
        """Logits (B, T, V) of each next target token, given the source and the target up to there."""
        return self.unembed(self.hidden(source, target))

    def hidden(self, source: Tensor | Rows, target: Tensor | Rows) -> Tensor:
        """The decoder's last states (B, T, D), for losses that do the output themselves."""
        source, target = Rows.of(source), Rows.of(target)
        if self.training and (fast := twin("without_padding")) is not None:
            packed = fast(self, source, target)
            if packed is not None:
                return packed[1].restored(self._hidden(packed[0].rows, packed[1].rows))  # type: ignore[no-any-return]
        return self._hidden(source, target)

    def _hidden(self, source: Rows, target: Rows) -> Tensor:
        memory = self.encode(source)
        with target.drawing():
            return self.decoder(
                self._embed(self.target_embedding, target),
                memory,
                mask=target.causal_mask(),
                memory_mask=source.mask_for(target),
                positions=target.positions,
            )

    def encode(self, source: Tensor | Rows) -> Tensor:
        """The source's contextual vectors (B, S, D)."""
        source = Rows.of(source)
        with source.drawing():
            embedded = self._embed(self.source_embedding, source)
            return self.encoder(embedded, mask=source.mask(), positions=source.positions)

    def start(self, source: Tensor | Rows, *, capacity: int = 64, watched: bool = False) -> Seq2SeqStepper:
        """Encode the source and stand ready to decode it, one row each; `watched` steps keep their attention."""
        fast = None if watched else twin("stepper")
        stepper: Seq2SeqStepper | None = None if fast is None else fast(self, source, capacity=capacity)
        return stepper or TransformerStepper(self, Rows.of(source), capacity=capacity, watched=watched)

    def start_each(self, sources: Sequence[Tensor | Rows], *, capacities: Sequence[int]) -> list[Seq2SeqStepper]:
        """What `start` gives to each of several sources, bit for bit; those that can be are encoded side by side."""
        rows = [Rows.of(source) for source in sources]
        fast = twin("packed_length")
        longest = 0 if fast is None or self.training else fast(self.encoder)
        packed = [i for i, one in enumerate(rows) if _is_sentence(one, longest)]
        started: dict[int, Seq2SeqStepper] = {}
        if packed:
            made = self._start_packed([rows[i].ids[0] for i in packed], [capacities[i] for i in packed])
            started = dict(zip(packed, made, strict=True))
        return [started[i] if i in started else self.start(one, capacity=capacities[i]) for i, one in enumerate(rows)]

    @torch.no_grad()
    def _start_packed(self, sentences: Sequence[Tensor], capacities: Sequence[int]) -> list[Seq2SeqStepper]:
        lengths = [len(ids) for ids in sentences]
        memory = self.encode(Rows.end_to_end(sentences))[0]
        kv_caches = self.decoder.prefill_each(memory, lengths, capacities=capacities)
        return [
            TransformerStepper(self, Rows(ids[None]), memory=own[None], kv_cache=kv_cache)
            for ids, own, kv_cache in zip(sentences, memory.split(lengths), kv_caches, strict=True)
        ]

    def _embed(self, embedding: Embedding, rows: Rows) -> Tensor:
        embedded: Tensor = embedding(rows.ids)
        if self.positions is not None:
            self.positions.reserve(rows.longest)
            embedded = self.positions(embedded, positions=rows.positions)
        return self.dropout(embedded)


class TransformerStepper(DecoderStepper):
    """A Transformer in the middle of decoding: caches of the target's past and of the source's keys and values.

    `memory` and `kv_cache` are what the source was encoded to and what the decoder keeps of it, where that is known.
    """

    def __init__(
        self,
        model: Transformer,
        source: Rows,
        *,
        capacity: int = 64,
        watched: bool = False,
        memory: Tensor | None = None,
        kv_cache: DecoderKVCache | None = None,
    ) -> None:
        lengths, n_source = padded_rows(source).lengths, source.ids.shape[1]
        if lengths is not None and materialize(Padding(lengths), 1, n_source, device=source.ids.device) is None:
            lengths = None  # nothing is padded
        super().__init__(
            model.decoder,
            model.encode(Rows(source.ids, lengths)) if memory is None else memory,
            lengths=lengths,
            embed=StepEmbedding(model.target_embedding, model.positions),
            unembed=model.unembed,
            capacity=capacity,
            watched=watched,
            kv_cache=kv_cache,
        )
        self.model = model

    def restrict(self, columns: Tensor, allowed: Tensor) -> bool:
        """Whether logits are computed for tokens `columns` (U,) only, of which each source may use `allowed` (B, U)."""
        fast = twin("restricted_output")
        self._restricted = None if fast is None else fast(self.model, columns, allowed)
        return self._restricted is not None

    def _narrowed(self, tokens: Tensor) -> tuple[Tensor, int]:
        """Rows of a source that begin alike are one row still."""
        width = self.kv_cache.per_source
        if width > 1 and self.kv_cache.length == 0 and tokens.device.type == "cpu" and _alike(tokens, width):
            self.kv_cache.per_source = 1
            return tokens[::width], width
        return tokens, 1

    def _widened(self, logits: Tensor, width: int) -> Tensor:
        if width == 1:
            return logits
        self.kv_cache.spread(width)
        if self._weights is not None:
            self._weights = self._weights.repeat_interleave(width, 0)
        return logits.repeat_interleave(width, 0)


def _alike(tokens: Tensor, width: int) -> bool:
    """Whether neighbours by the `width` hold the same token."""
    groups = tokens.view(-1, width)
    return bool((groups == groups[:, :1]).all())


def _is_sentence(rows: Rows, longest: int) -> bool:
    """Whether rows on a processor are one sentence, no longer than this, and nothing else."""
    single = rows.documents is None and len(rows.ids) == 1 and rows.ids.device.type == "cpu"
    whole = rows.lengths is None or rows.lengths.tolist() == [rows.ids.shape[1]]
    return single and whole and rows.ids.shape[1] <= longest


def padded_rows(source: Rows) -> Rows:
    """The rows, if there is one sentence in each."""
    if source.documents is not None:
        raise ShapeError("decoding takes padded rows, one sentence each, not a packed row")
    return source


def check_shared_vocabulary(tied: Tied, n_source: int, n_target: int) -> None:
    """Refuse one embedding for two vocabularies of different sizes."""
    if tied == "all" and n_source != n_target:
        raise ConfigError(
            f"one shared embedding needs one vocabulary, got {n_source} source and {n_target} target ids",
            hint='learn a joint tokenizer, or set model.tied="output"',
        )


def _blocks(config: TransformerConfig) -> StackMaker:
    D, H = config.d_model, config.n_heads
    return StackMaker(
        d_model=D,
        attention=partial(MultiHeadAttention, D, H, n_kv_heads=config.n_kv_heads, dropout=config.attention_dropout),
        feedforward=partial(
            FeedForward, D, config.d_feedforward, activation=config.activation, dropout=config.activation_dropout
        ),
        norm=norm_of(config.norm),
        order=config.order,
        dropout=config.dropout,
        rotary=Rotary(D // H) if config.positions == "rotary" else None,
    )


ENTRY = Entry(TransformerConfig, Transformer, SIZES, packs=True, separate_vocabularies={"tied": "output"})
