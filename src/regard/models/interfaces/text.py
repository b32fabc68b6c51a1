"""What training, decoding and inspection need of a model, whichever it is.

    logits = model(source, target)       source (B, S), target (B, T) starting with <s>  →  (B, T, V)
    stepper = model.start(source)        the same, one target token at a time, with what was computed kept
    logits = language_model(ids)         (B, T) → (B, T, V), of the next tokens or of those that are masked

`Seq2SeqStepper` is what a model hands to decoding. The two rooms do not import one another: decoding states what it
asks in a protocol of its own, and a model's stepper answers it by its shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from regard.attention import Rows


class WriterConfig(Protocol):
    """What every config of a model that writes holds: the vocabulary's size and the id of padding."""

    @property
    def n_target(self) -> int:
        """How many ids there are to write."""

    @property
    def pad_id(self) -> int:
        """The id that fills up short rows."""


class Seq2SeqConfig(WriterConfig, Protocol):
    """What every config of a sequence-to-sequence model holds."""

    @property
    def n_source(self) -> int:
        """How many source ids there are."""


@runtime_checkable
class Seq2SeqStepper(Protocol):
    """A model in the middle of decoding N rows."""

    @property
    def device(self) -> torch.device:
        """Where `step` expects its tokens and leaves its logits."""

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows: row i is what row `rows[i]` was; `same_source` says that it kept its source."""

    def attention(self) -> Tensor | None:
        """The last step's cross-attention (N, S) averaged over layers and heads, if watched and if there is any."""


class VocabularyModel(Protocol):
    """A model with an output over a vocabulary."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """What is learnt."""

    def unembed(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., D) → logits (..., V)."""

    @property
    def output_weight(self) -> Tensor:
        """The matrix (V, D) that `unembed` multiplies by."""

    @property
    def output_bias(self) -> Tensor | None:
        """What `unembed` adds (V,), if anything."""


class Seq2SeqModel(VocabularyModel, Protocol):
    """A model that turns one sequence into another."""

    @property
    def config(self) -> Seq2SeqConfig:
        """What it was built of."""

    def forward(self, source: Tensor | Rows, target: Tensor | Rows) -> Tensor:
        """Logits (B, T, V) of each next target token, given the source and the target up to there."""

    def hidden(self, source: Tensor | Rows, target: Tensor | Rows) -> Tensor:
        """What `unembed` turns into logits, for losses that do the output themselves."""

    def encode(self, source: Tensor | Rows) -> Tensor:
        """The source's contextual vectors (B, S, D)."""

    def start(self, source: Tensor | Rows, *, capacity: int = 64, watched: bool = False) -> Seq2SeqStepper:
        """Encode the source and stand ready to decode it, one row each; `watched` steps keep their attention."""


class LanguageConfig(Protocol):
    """What every config of a language model holds."""

    @property
    def n_tokens(self) -> int:
        """How many ids there are."""

    @property
    def d_model(self) -> int:
        """How wide the hidden states are."""

    @property
    def pad_id(self) -> int:
        """The id that fills up short rows."""


class LanguageModel(VocabularyModel, Protocol):
    """A model of texts: it says what stands where, and what each token means in its place."""

    @property
    def config(self) -> LanguageConfig:
        """What it was built of."""

    def forward(self, ids: Tensor | Rows) -> Tensor:
        """Logits (B, T, V)."""

    def hidden(self, ids: Tensor | Rows) -> Tensor:
        """What `unembed` turns into logits, for losses that do the output themselves."""

    def encode(self, ids: Tensor | Rows, *, segments: Tensor | None = None) -> Tensor:
        """Contextual vectors (B, T, D), for heads on top."""


def as_seq2seq(module: nn.Module) -> Seq2SeqModel:
    """The module as what it is: the registry builds nothing else."""
    assert offers(module, Seq2SeqModel)
    return cast(Seq2SeqModel, module)


def offers(module: nn.Module, protocol: type) -> bool:
    """Whether a module has all that a protocol names; `isinstance` overlooks parameters from Python 3.12 on."""
    names = {name for base in protocol.__mro__ for name in vars(base) if not name.startswith("_")}
    return all(hasattr(module, name) for name in names)
