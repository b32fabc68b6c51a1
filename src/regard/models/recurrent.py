"""Recurrent encoder–decoder: one state between the languages, or attention over all of the source's states.

    logits = model(source, target)        source (B, S), target (B, T) starting with <s>  →  (B, T, V)

    none                        the decoder starts from the encoder's last state and sees nothing else
                                (Sutskever et al., 2014; Cho et al., 2014)
    dot … mlp                   context cₜ = Σⱼ wₜⱼ hⱼ, w = softmax(score(sₜ, hⱼ)), vector ãₜ = tanh(W[cₜ; sₜ])
                                (Luong et al., 2015; with `additive` the score of Bahdanau et al., 2015)
    input_feeding               ãₜ₋₁ is an input of step t, so that the recurrence knows where it looked (both papers:
                                Bahdanau's cₜ, made of sₜ₋₁, enters step t). Steps then wait for one another.

The encoder states hⱼ are keys and values as they are, and the decoder state is the query; with `projected` or several
heads each of the three goes through its own matrix first. Each encoder direction is `d_hidden` wide. Scores that take
two widths (general, additive, mlp) compare with both directions side by side; for dot and scaled_dot, which need
equal ones, and only for them, the learned `reduce` brings the states back to `d_hidden`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from regard.attention import Cache, Mask, MultiHeadAttention, Padding, Rows
from regard.config.settings import Settings, setting
from regard.errors import ConfigError, ShapeError
from regard.layers import Dropout, Embedding, Recurrent, RecurrentName, merge_directions
from regard.layers.embeddings import VocabularyOutput
from regard.layers.recurrent import recurrent_rows
from regard.layers.state_attention import ONE_WIDTH, AttentionName, StateAttention, StateStepper, score_names, score_of
from regard.models.entry import Entry
from regard.models.transformer import Tied, check_shared_vocabulary


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Settings):
    """What makes one recurrent encoder–decoder differ from another."""

    n_source: int = setting(0, "entries of the source's vocabulary", ge=1, derived=True)
    n_target: int = setting(0, "entries of the target's vocabulary", ge=1, derived=True)
    cell: RecurrentName = setting("lstm", "the recurrent cell")
    d_embedding: int = setting(512, "width of the embeddings", ge=1)
    d_hidden: int = setting(512, "width of the recurrent state", ge=1)
    n_layers: int = setting(2, "layers of the encoder and of the decoder", ge=1)
    bidirectional: bool = setting(True, "the encoder reads in both directions")
    attention: AttentionName = setting(
        "general", "the score that attention compares by; none: one vector for all of the source"
    )
    n_heads: int = setting(1, "attention heads", ge=1)
    projected: bool = setting(False, "queries, keys and values are projected, as in the Transformer")
    input_feeding: bool = setting(False, "the decoder also reads what it attended to last (Luong et al., 2015)")
    dropout: float = setting(0.3, "share dropped of embeddings, between layers and before the output", ge=0, lt=1)
    tied: Tied = setting("output", "one matrix for source, target and output; for target and output; or none")
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)

    @property
    def d_memory(self) -> int:
        """The width of what the decoder attends to."""
        raw = self.n_heads == 1 and not self.projected
        reduced = raw and self.attention in ONE_WIDTH
        return 2 * self.d_hidden if self.bidirectional and not reduced else self.d_hidden


SIZES: dict[str, dict[str, int | float]] = {
    "small": {"d_embedding": 256, "d_hidden": 256, "n_layers": 1, "dropout": 0.3},
    "base": {"d_embedding": 512, "d_hidden": 512, "n_layers": 2, "dropout": 0.3},
}


class RecurrentSeq2Seq(VocabularyOutput):
    """A recurrent encoder, a recurrent decoder, and what lies between them."""

    tied_to = "target_embedding"

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        E, D = config.d_embedding, config.d_hidden
        embedding = partial(Embedding, d_model=E, scaled=True, pad_id=config.pad_id)
        recurrent = partial(Recurrent, config.cell, d_hidden=D, n_layers=config.n_layers, dropout=config.dropout)
        self.source_embedding = embedding(config.n_source)
        self.target_embedding = self.source_embedding if config.tied == "all" else embedding(config.n_target)
        self.encoder = recurrent(d_input=E, bidirectional=config.bidirectional)
        self.reduce = None
        if config.attention != "none" and config.d_memory != self.encoder.d_output:
            self.reduce = nn.Linear(self.encoder.d_output, config.d_memory, bias=False)
        self.bridge = (
            Bridge(D, n_layers=config.n_layers, n_parts=self.encoder.n_parts) if config.bidirectional else None
        )
        self.decoder = recurrent(d_input=E + D if config.input_feeding else E)
        self.attention = _attention(config)
        d_context = D if isinstance(self.attention, MultiHeadAttention) else config.d_memory
        self.combine = None if self.attention is None else nn.Linear(d_context + D, D)
        self.project = nn.Linear(D, E, bias=False) if config.tied != "none" and E != D else None
        self.output = None if config.tied != "none" else nn.Linear(D, config.n_target, bias=False)
        self.output_bias = None
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Tensor | Rows, target: Tensor | Rows) -> Tensor:
        """Logits (B, T, V) of each next target token, given the source and the target up to there."""
        return self.unembed(self.hidden(source, target))

    def hidden(self, source: Tensor | Rows, target: Tensor | Rows) -> Tensor:
        """What the output is computed of (B, T, D or d_embedding), for losses that do the output themselves."""
        progress = self.begin(source)
        embedded = self._embed(self.target_embedding, recurrent_rows(target, unit="sentence", what="the target"))
        if progress.fed is None:
            return self._finish(self.advance(embedded, progress))
        steps = [self.advance(step, progress) for step in embedded.split(1, dim=1)]
        return self._finish(torch.cat(steps, 1))

    def encode(self, source: Tensor | Rows) -> Tensor:
        """The encoder's states, one a source token, as the decoder attends to them (B, S, d_memory)."""
        return self._read(recurrent_rows(source, unit="sentence", what="the source"))[0]

    def start(self, source: Tensor | Rows, *, capacity: int = 64, watched: bool = False) -> StateStepper[Progress]:
        """Encode the source and stand ready to decode it, one row each; `watched` steps keep their attention.

        The state does not grow with the target, so `capacity` reserves nothing here.
        """
        device, attention = self.target_embedding.weight.device, self.attention if watched else None
        return StateStepper(self.step, self.begin(source), device=device, watched=attention)

    def begin(self, source: Tensor | Rows) -> Progress:
        """Where the decoder stands before its first step."""
        source = recurrent_rows(source, unit="sentence", what="the source")
        memory, state = self._read(source)
        fed = state.new_zeros(len(memory), 1, self.config.d_hidden) if self.config.input_feeding else None
        keys = None if self.attention is None else self.attention.prefill(memory)
        return Progress(state, source.mask(), keys, fed)

    def advance(self, embedded: Tensor, progress: Progress) -> Tensor:
        """Embedded target tokens (B, T, d_embedding), one by one with input feeding → vectors (B, T, D)."""
        inputs = embedded if progress.fed is None else torch.cat((embedded, progress.fed), -1)
        outputs, progress.state = self.decoder(inputs, state=progress.state)
        if self.attention is None or self.combine is None:
            states: Tensor = outputs
            return states
        context = self.attention(outputs, mask=progress.mask, cache=progress.keys)
        vectors: Tensor = torch.tanh(self.combine(torch.cat((context, outputs), -1)))
        progress.fed = None if progress.fed is None else vectors
        return vectors

    def step(self, tokens: Tensor, progress: Progress) -> Tensor:
        """One token a row (N,) → the logits of the next (N, V); progress moves on."""
        vectors = self.advance(self._embed(self.target_embedding, Rows(tokens[:, None])), progress)
        return self.unembed(self._finish(vectors[:, 0]))

    def _read(self, source: Rows) -> tuple[Tensor, Tensor]:
        """The memory (B, S, d_memory) and the decoder's first state (P, layers, B, D)."""
        lengths = source.lengths
        if lengths is not None:
            lengths = lengths.cpu()  # packing needs them there anyway
        if source.ids.shape[1] < 1 or (lengths is not None and int(lengths.min()) < 1):
            raise ShapeError("every source holds at least one token; here is an empty one", hint="leave it out")
        outputs, state = self.encoder(self._embed(self.source_embedding, source), lengths=lengths)
        memory: Tensor = outputs if self.reduce is None else self.reduce(outputs)
        return memory, state if self.bridge is None else self.bridge(state)

    def _embed(self, embedding: Embedding, rows: Rows) -> Tensor:
        return self.dropout(embedding(rows.ids))

    def _finish(self, vectors: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(vectors)
        return dropped if self.project is None else self.project(dropped)


@dataclass
class Progress:
    """Where a decoder stands: its state (P, layers, N, D), the source's keys and values, and what is fed back."""

    state: Tensor
    mask: Mask | None
    keys: Cache | None
    fed: Tensor | None

    def reorder(self, rows: Tensor, *, same_source: bool) -> None:
        """Rows change places; `same_source` says that each stays with its own sentence, whose keys then can stay."""
        self.state = self.state.index_select(2, rows)
        if self.fed is not None:
            self.fed = self.fed.index_select(0, rows)
        if same_source:
            return
        if self.keys is not None:
            self.keys.reorder(rows)
        if isinstance(self.mask, Padding):
            self.mask = Padding(self.mask.lengths.index_select(0, rows))


class Bridge(nn.Module):
    """From both directions' last states to the decoder's first: tanh(W[→h; ←h]), and without tanh for LSTM cells."""

    def __init__(self, d_hidden: int, *, n_layers: int, n_parts: int) -> None:
        super().__init__()
        self.n_parts = n_parts
        self.layers = nn.ModuleList(nn.Linear(2 * d_hidden, d_hidden) for _ in range(n_parts * n_layers))

    def forward(self, state: Tensor) -> Tensor:
        """(P, 2 · layers, B, D) → (P, layers, B, D)."""
        merged = merge_directions(state).flatten(0, 1)
        crossed = torch.stack([layer(part) for layer, part in zip(self.layers, merged, strict=True)])
        parts = crossed.unflatten(0, (self.n_parts, -1))
        return torch.cat((parts[:1].tanh(), parts[1:]))


def _attention(config: RecurrentConfig) -> StateAttention | MultiHeadAttention | None:
    if config.attention == "none":
        return None
    if config.n_heads == 1 and not config.projected:
        return StateAttention(score_of(config.attention, config.d_hidden, d_key=config.d_memory))
    score = score_of(config.attention, config.d_hidden // config.n_heads)
    return MultiHeadAttention(config.d_hidden, config.n_heads, kind="cross", d_memory=config.d_memory, score=score)


def _check(config: RecurrentConfig) -> None:
    config.check()
    check_shared_vocabulary(config.tied, config.n_source, config.n_target)
    if config.d_hidden % config.n_heads:
        raise ConfigError(f"d_hidden = {config.d_hidden} cannot be divided into n_heads = {config.n_heads}")
    if config.attention == "none" and (config.input_feeding or config.projected or config.n_heads > 1):
        raise ConfigError(
            "input_feeding, projected and n_heads are about attention, and attention is 'none'",
            hint=f"choose an attention: {', '.join(score_names()[1:])}",
        )


ENTRY = Entry(RecurrentConfig, RecurrentSeq2Seq, SIZES)
