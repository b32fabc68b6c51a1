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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Cache, Causal, Mask, MultiHeadAttention, Rotary, Rows, Since, Stretch, reorder_all, watch
from regard.attention.positions import added_positions
from regard.config.settings import Settings, setting
from regard.config.twins import twin
from regard.errors import ShapeError, UsageError
from regard.layers import ActivationName, Dropout, Embedding, FeedForward, GatedFeedForward, Order, StackMaker
from regard.layers.embeddings import VocabularyOutput, in_working_precision
from regard.layers.joint_step import StackRows, joint_read, joint_step, takes_joint_steps
from regard.layers.norms import NormName, norm_of
from regard.models.entry import Entry
from regard.models.interfaces.text import Seq2SeqStepper

PositionName = Literal["learned", "rotary", "sinusoidal"]


@dataclass(frozen=True, kw_only=True)
class GPTConfig(Settings):
    """What makes one language model differ from another."""

    n_tokens: int = setting(0, "entries of the vocabulary", ge=1, derived=True)
    d_model: int = setting(768, "width of the model", ge=1)
    n_heads: int = setting(12, "attention heads", ge=1)
    n_layers: int = setting(12, "blocks", ge=1)
    n_positions: int = setting(1024, "tokens that are read at once; a limit where positions are learned", ge=1)
    d_feedforward: int | None = setting(None, "width inside the feed-forward parts; unset: 4 · d_model", ge=1)
    n_kv_heads: int | None = setting(None, "heads of keys and values; unset: as many as attention heads", ge=1)
    d_head: int | None = setting(None, "width of a head; unset: d_model / n_heads", ge=1)
    order: Order = setting("pre", "normalisation before or after each part")
    norm: NormName = setting("layer", "the normalisation")
    norm_epsilon: float = setting(1e-5, "what normalisation adds to its divisor", gt=0)
    norm_bias: bool = setting(True, "whether normalisation adds something")
    positions: PositionName = setting("learned", "how places are told apart")
    rotary_base: float = setting(10000.0, "how fast rotary positions turn", gt=0)
    rotary_stretch: Stretch | None = setting(None, "how they are stretched for longer texts")
    activation: ActivationName = setting("gelu_tanh", "the feed-forward parts' nonlinearity")
    gated: bool = setting(False, "feed-forward parts with a gate, as SwiGLU")
    attention_bias: bool = setting(True, "whether attention's projections add something")
    feedforward_bias: bool = setting(True, "whether feed-forward parts add something")
    tied: bool = setting(True, "the embeddings are the output's matrix")
    dropout: float = setting(0.1, "share of what the parts say that is dropped in training", ge=0, lt=1)
    attention_dropout: float = setting(0.0, "share of attention weights that is dropped", ge=0, lt=1)
    embedding_dropout: float | None = setting(
        None, "share of embeddings that is dropped; unset: as dropout", ge=0, lt=1
    )
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)


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


class GPT(VocabularyOutput):
    """Embeddings, a stack of blocks that look back only, and an output over the vocabulary."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        config.check()
        self.config = config
        D = config.d_model
        # Sines and cosines are of size one, so embeddings beside them are scaled up as in the Transformer.
        self.embedding = Embedding(config.n_tokens, D, scaled=config.positions == "sinusoidal")
        self.positions = added_positions(config.positions, D, n_positions=config.n_positions)
        self.stack = _blocks(config).encoder(config.n_layers, kind="masked")
        self.output = None if config.tied else nn.Linear(D, config.n_tokens, bias=False)
        self.output_bias = None
        self.dropout = Dropout(config.dropout if config.embedding_dropout is None else config.embedding_dropout)
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
        with rows.drawing():
            return self.stack(self.embed(rows.ids, positions=rows.positions), mask=mask, positions=rows.positions)

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
        return self.dropout(in_working_precision(embedded))

    @property
    def position_limit(self) -> int | None:
        """The most tokens a row can have, prompt and continuation together; None where there is no limit."""
        return self.config.n_positions if self.config.positions == "learned" else None

    def start(self, prompts: Tensor | Rows, *, capacity: int = 64, watched: bool = False) -> Seq2SeqStepper:
        """Read the prompts (N, P) but for the last token of each, which is the first to `step` with.

        Prompts may differ in length. `capacity` counts the steps to come; `watched` steps keep their attention.
        """
        fast = None if watched else twin("stepper")
        stepper: Seq2SeqStepper | None = None if fast is None else fast(self, prompts, capacity=capacity)
        return stepper or GPTStepper(self, Rows.of(prompts), capacity=capacity, watched=watched)

    def start_each(self, prompts: Sequence[Tensor | Rows], *, capacities: Sequence[int]) -> list[Seq2SeqStepper]:
        """What `start` gives to each of several, bit for bit; prompts of one row are read side by side."""
        if self.embedding.weight.device.type != "cpu":
            each = zip(prompts, capacities, strict=True)
            return [self.start(own, capacity=capacity) for own, capacity in each]
        rows = [Rows.of(own) for own in prompts]
        steppers = [
            GPTStepper(self, own, capacity=capacity, watched=False, reads=False)
            for own, capacity in zip(rows, capacities, strict=True)
        ]
        together = [one for one in steppers if one.reads_with_others]
        if len(together) > 1:
            GPTStepper.read_together(together)
        for one in steppers:
            one.read()
        return list(steppers)


class GPTStepper:
    """A language model in the middle of writing N rows: caches of what each has read and written so far.

    Prompts of different lengths are pushed to the right end of the caches, so that all rows write to the same place at
    every step. Row b begins at column starts[b]: keys before it are hidden, and positions count from there, which makes
    a row's result its own, whatever stands beside it. Rows of one length have no starts and need no mask at all.

    Without `reads` the prompts are still to be read when it is made: by `read`, or by `read_together` with others'.
    """

    def __init__(self, model: GPT, prompts: Rows, *, capacity: int, watched: bool, reads: bool = True) -> None:
        ids, lengths = _checked_prompts(prompts)
        self.model, self.watched = model, watched
        self.n_rows, self.n_prompt = ids.shape
        self.starts = None if lengths is None else self.n_prompt - lengths
        kind = self._cache_kind()
        self.caches = [kind(self.n_prompt - 1 + capacity) for _ in model.stack.blocks]
        self._weights: Tensor | None = None
        if model.positions is not None:
            model.positions.reserve(self.n_prompt)
        self._unread: Tensor | None = _pushed_right(ids, self.starts)[:, :-1] if self.n_prompt > 1 else None
        if reads:
            self.read()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.embedding.weight.device

    @property
    def length(self) -> int:
        """How many columns of the caches are filled."""
        return self.caches[0].length

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        if not self.watched and self._independent:
            return self.step_with((), [tokens])[0]
        positions = self._positions(tokens)
        mask = None if self.starts is None else Since(self.starts)
        if not self.watched:
            return self.model.unembed(self._run(tokens[:, None], mask=mask, positions=positions)[:, 0])
        with watch(self.model.stack) as seen:
            hidden = self._run(tokens[:, None], mask=mask, positions=positions)
        self._weights = self._prompt_part(torch.stack([sight.weights[:, :, 0].mean(1) for sight in seen]).mean(0))
        return self.model.unembed(hidden[:, 0])

    def joins(self, other: object) -> bool:
        """Whether both can step at once: they share a model whose products leave rows alone, and nobody watches."""
        if not isinstance(other, GPTStepper) or other.model is not self.model:
            return False
        return not (self.watched or other.watched) and self._independent

    def _cache_kind(self) -> type[Cache]:
        """Caches as the faster steps read them; most of those are for rows that see all of their past."""
        fast = None if self.watched or not self._independent else twin("past")
        kind: type[Cache] | None = None if fast is None else fast(self.model.stack, padded=self.starts is not None)
        return kind or Cache

    @cached_property
    def _independent(self) -> bool:
        """Whether products leave rows alone, and all parts of the blocks are known."""
        fast = twin("rows_independent")
        return fast is not None and takes_joint_steps(self.model.stack) and bool(fast(self.model))

    def check_step(self, tokens: Tensor) -> None:
        """Refuse to go beyond the last position."""
        self._positions(tokens)

    def step_with(self, others: Sequence[GPTStepper], tokens: Sequence[Tensor]) -> list[Tensor]:
        """The logits of this one and of others that it joins."""
        steppers = [self, *others]
        positions = [one._positions(own) for one, own in zip(steppers, tokens, strict=True)]
        parts = [
            StackRows(len(own), one.caches, None if one.starts is None else Since(one.starts), places)
            for one, own, places in zip(steppers, tokens, positions, strict=True)
        ]
        places = [
            one._behind(part.n_rows) if part.positions is None else part.positions
            for one, part in zip(steppers, parts, strict=True)
        ]
        embedded = self.model.embed(torch.cat(list(tokens))[:, None], positions=torch.cat(places))
        hidden = joint_step(self.model.stack, embedded, parts)
        return list(self.model.unembed(hidden[:, 0]).split([part.n_rows for part in parts]))

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows; those that keep their prompt keep where it begins."""
        reorder_all(self.caches, rows)
        if self.starts is not None and not same_source:
            self.starts = self.starts.index_select(0, rows)

    def attention(self) -> Tensor | None:
        """How the last step looked at the tokens of its prompt (N, P), averaged over layers and heads, if watched."""
        return self._weights

    @property
    def reads_with_others(self) -> bool:
        """Whether there is a prompt to be read, of one row, that stays what it is beside others."""
        return self._unread is not None and self.n_rows == 1 and self._independent

    @staticmethod
    @torch.no_grad()
    def read_together(steppers: Sequence[GPTStepper]) -> None:
        """Fill the caches of several of one model, each with the prompt of its one row, in one pass."""
        model = steppers[0].model
        prompts = [ids for one in steppers if (ids := one._unread) is not None]
        parts = [StackRows(1, one.caches, Causal(), None) for one in steppers]
        hidden = torch.cat([model.embed(ids) for ids in prompts], 1)
        joint_read(model.stack, hidden, parts, [ids.shape[1] for ids in prompts])
        for one in steppers:
            one._unread = None

    @torch.no_grad()
    def read(self) -> None:
        """Fill the caches with the prompts (N, P − 1) in one pass, if that is still to do."""
        ids, self._unread = self._unread, None
        if ids is None:
            return
        if self.starts is None:
            self._run(ids, mask=Causal(), positions=None)
            return
        positions = (torch.arange(ids.shape[1], device=ids.device) - self.starts[:, None]).clamp(min=0)
        self._run(ids, mask=Causal() & Since(self.starts), positions=positions)

    def _run(self, ids: Tensor, *, mask: Mask | None, positions: Tensor | None) -> Tensor:
        embedded = self.model.embed(ids, positions=positions, offset=self.length)
        return self.model.stack(embedded, mask=mask, caches=self.caches, positions=positions)

    def _behind(self, n_rows: int) -> Tensor:
        """The place behind the caches, for each row (N, 1)."""
        if self.model.positions is not None:
            self.model.positions.reserve(self.length + 1)
        return torch.full((n_rows, 1), self.length)

    def _positions(self, tokens: Tensor) -> Tensor | None:
        """Where the new tokens stand in their rows (N, 1); None where that is simply behind the caches."""
        limit, length = self.model.position_limit, self.length
        over = limit is not None and length >= limit  # only from here on can a row be at its end: worth a look
        if self.starts is None and not over:
            return None
        positions = torch.full_like(tokens, length) if self.starts is None else length - self.starts
        if self.model.positions is not None and not over:
            self.model.positions.reserve(length + 1)
        if limit is not None and over:
            refuse_beyond(limit, tokens[positions >= limit], pad_id=self.model.config.pad_id)
            positions = positions.clamp(max=limit - 1)
        return positions[:, None]

    def _prompt_part(self, weights: Tensor) -> Tensor:
        """Weights over the caches' columns (N, length) → over each prompt's own tokens (N, P), zeros behind them."""
        columns = torch.arange(self.n_prompt, device=weights.device)
        if self.starts is None:
            return weights[:, : self.n_prompt]
        positions = columns + self.starts[:, None]
        own = weights.gather(1, positions.clamp(max=self.n_prompt - 1))
        return own.masked_fill(positions >= self.n_prompt, 0.0)


def refuse_beyond(limit: int, tokens: Tensor, *, pad_id: int) -> None:
    """Rows that are done are fed padding until they leave; any other token wants a position that is not there."""
    if bool((tokens != pad_id).any()):
        raise UsageError(
            f"a text of {limit + 1} tokens was begun, and the model has {limit} learned positions",
            hint=f"ask for fewer tokens: prompt and continuation are at most {limit} together",
        )


def _checked_prompts(prompts: Rows) -> tuple[Tensor, Tensor | None]:
    """The ids, cut to the longest prompt, and the lengths where they differ."""
    if prompts.documents is not None:
        raise ShapeError("decoding takes padded rows, one prompt each, not a packed row")
    ids, lengths = prompts.ids, prompts.lengths
    shortest, longest = (ids.shape[1],) * 2 if lengths is None else (int(lengths.min()), int(lengths.max()))
    if shortest < 1 or longest > ids.shape[1]:
        raise ShapeError(
            f"the prompts' lengths are {shortest} to {longest}; allowed are 1 to {ids.shape[1]}, the rows' width",
            hint="an empty prompt is the token that begins a text",
        )
    return ids[:, :longest], lengths if shortest < longest else None


def _pushed_right(ids: Tensor, starts: Tensor | None) -> Tensor:
    """Rows (N, P) padded behind → padded in front, with whatever token is near."""
    if starts is None:
        return ids
    columns = torch.arange(ids.shape[1], device=ids.device) - starts[:, None]
    return ids.gather(1, columns.clamp(min=0))


def _blocks(config: GPTConfig) -> StackMaker:
    D, rotary = config.d_model, None
    if config.positions == "rotary":
        d_head = config.d_head or D // config.n_heads
        rotary = Rotary(d_head, base=config.rotary_base, stretch=config.rotary_stretch)
    return StackMaker(
        d_model=D,
        attention=partial(
            MultiHeadAttention,
            D,
            config.n_heads,
            n_kv_heads=config.n_kv_heads,
            d_head=config.d_head,
            bias=config.attention_bias,
            dropout=config.attention_dropout,
        ),
        feedforward=partial(
            GatedFeedForward if config.gated else FeedForward,
            D,
            config.d_feedforward or 4 * D,
            activation=config.activation,
            bias=config.feedforward_bias,
        ),
        norm=norm_of(config.norm, epsilon=config.norm_epsilon, bias=config.norm_bias),
        order=config.order,
        dropout=config.dropout,
        rotary=rotary,
    )


ENTRY = Entry(GPTConfig, GPT, SIZES, head={"pooling": "last"}, continues=True)
