"""Listen, Attend and Spell (Chan et al., 2016): a pyramid of recurrent layers listens, a recurrent speller attends.

    memory = listen(frames)                           (B, T, M) → (B, ⌈T / 2ⁿ⌉, 2D)
    sᵤ = LSTM([yᵤ₋₁; ãᵤ₋₁], sᵤ₋₁)      cᵤ = Σⱼ wᵤⱼ hⱼ,  w = softmax(score(sᵤ, hⱼ))      ãᵤ = tanh(W[cᵤ; sᵤ])

The attention is that of the recurrent translator: any of its scores, one head on the states as they are. `ctc` adds a
linear output over the memory for connectionist temporal classification (Graves et al., 2006) beside the speller.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.config.settings import Settings, setting
from regard.errors import ConfigError
from regard.layers import Dropout, Embedding, Recurrent, RecurrentName
from regard.layers.pyramid import Pyramid
from regard.layers.state_attention import ONE_WIDTH, AttentionName, StateAttention, StateStepper, score_names, score_of
from regard.models.entry import Entry
from regard.models.interfaces.speech import Frames, Heard
from regard.models.recurrent import Progress


@dataclass(frozen=True, kw_only=True)
class LASConfig(Settings):
    """What makes one listener and speller differ from another."""

    n_mels: int = setting(80, "mel bands of a frame", ge=1, derived=True)
    n_target: int = setting(0, "entries of the vocabulary", ge=1, derived=True)
    cell: RecurrentName = setting("lstm", "the recurrent cell")
    d_listener: int = setting(256, "width of the listener's state, each way", ge=1)
    n_halvings: int = setting(3, "how often time is halved", ge=0, le=5)
    d_embedding: int = setting(128, "width of the embeddings", ge=1)
    d_speller: int = setting(256, "width of the speller's state", ge=1)
    n_speller_layers: int = setting(1, "layers of the speller", ge=1)
    attention: AttentionName = setting("additive", "the score that attention compares by")
    dropout: float = setting(
        0.2, "share dropped of what the listener says, of embeddings and before the output", ge=0, lt=1
    )
    ctc: bool = setting(False, "an output that aligns, beside the speller's", derived=True)
    pad_id: int = setting(0, "the id that fills up rows", ge=0, derived=True)

    @property
    def reduction(self) -> int:
        """How many frames become one place of memory."""
        return int(2**self.n_halvings)

    @property
    def d_memory(self) -> int:
        """The width of what the speller attends to."""
        return self.d_speller if self.attention in ONE_WIDTH else 2 * self.d_listener

    @property
    def n_writable(self) -> None:
        """Any number of tokens can be written."""


SIZES: dict[str, dict[str, int | float]] = {
    "tiny": {"d_listener": 96, "d_speller": 128, "d_embedding": 32, "n_halvings": 2},
    "small": {"d_listener": 160, "d_speller": 256, "d_embedding": 64, "n_halvings": 2},
    "base": {"d_listener": 256, "d_speller": 512, "d_embedding": 256, "n_halvings": 3, "n_speller_layers": 2},
}


class ListenAttendSpell(nn.Module):
    """Listener, attention and speller."""

    def __init__(self, config: LASConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        D = config.d_speller
        self.listener = Pyramid(
            config.n_mels, config.d_listener, n_halvings=config.n_halvings, cell=config.cell, dropout=config.dropout
        )
        raw = self.listener.d_output
        self.reduce = nn.Linear(raw, config.d_memory, bias=False) if config.d_memory != raw else None
        self.target_embedding = Embedding(config.n_target, config.d_embedding, pad_id=config.pad_id)
        self.speller = Recurrent(
            config.cell,
            config.d_embedding + D,
            d_hidden=D,
            n_layers=config.n_speller_layers,
            dropout=config.dropout,
        )
        self.attention = StateAttention(score_of(config.attention, D, d_key=config.d_memory))
        self.combine = nn.Linear(config.d_memory + D, D)
        self.output = nn.Linear(D, config.n_target)
        self.ctc = nn.Linear(config.d_memory, config.n_target) if config.ctc else None
        self.dropout = Dropout(config.dropout)

    def forward(self, frames: Frames, target: Tensor | Rows) -> Tensor:
        """Logits (B, U, V) of each next token, given the speech and the text up to there."""
        return self.unembed(self.spell(self.listen(frames), target))

    def listen(self, frames: Frames) -> Heard:
        """The listener's states (B, S, d_memory)."""
        frames.check(self.config.n_mels)
        memory, lengths = self.listener(frames.values, frames.lengths)
        return Heard(memory if self.reduce is None else self.reduce(memory), lengths)

    def spell(self, heard: Heard, target: Tensor | Rows) -> Tensor:
        """The vectors ã (B, U, D), one step after another: each needs where the one before looked."""
        progress = self.begin(heard)
        embedded = self.dropout(self.target_embedding(Rows.of(target).ids))
        steps = [self.advance(step, progress) for step in embedded.split(1, dim=1)]
        return self.dropout(torch.cat(steps, 1))

    def unembed(self, hidden: Tensor) -> Tensor:
        """Vectors (..., D) → logits (..., V)."""
        logits: Tensor = self.output(hidden)
        return logits

    def align(self, heard: Heard) -> Tensor | None:
        """Logits (B, S, V) of which token stands where, if the model was built for it."""
        return None if self.ctc is None else self.ctc(heard.memory)

    @property
    def output_weight(self) -> Tensor:
        """The matrix (V, D) that `unembed` multiplies by."""
        return self.output.weight

    @property
    def output_bias(self) -> Tensor | None:
        """What `unembed` adds (V,)."""
        return self.output.bias

    def start(self, heard: Heard, *, capacity: int = 64, watched: bool = False) -> StateStepper[Progress]:
        """Stand ready to spell, one row each; the state does not grow, so `capacity` reserves nothing."""
        device, attention = self.output.weight.device, self.attention if watched else None
        return StateStepper(self.step, self.begin(heard), device=device, watched=attention)

    def begin(self, heard: Heard) -> Progress:
        """Where the speller stands before its first step: at zero, with the memory's keys prepared."""
        c, n = self.config, len(heard.memory)
        state = heard.memory.new_zeros(self.speller.n_parts, c.n_speller_layers, n, c.d_speller)
        fed = heard.memory.new_zeros(n, 1, c.d_speller)
        return Progress(state, heard.mask(), self.attention.prefill(heard.memory), fed)

    def advance(self, embedded: Tensor, progress: Progress) -> Tensor:
        """One embedded token a row (B, 1, d_embedding) → its vector (B, 1, D); progress moves on."""
        assert progress.fed is not None
        assert progress.keys is not None
        inputs = torch.cat((embedded, progress.fed), -1)
        outputs, progress.state = self.speller(inputs, state=progress.state)
        context = self.attention(outputs, mask=progress.mask, cache=progress.keys)
        progress.fed = torch.tanh(self.combine(torch.cat((context, outputs), -1)))
        return progress.fed

    def step(self, tokens: Tensor, progress: Progress) -> Tensor:
        """One token a row (N,) → the logits of the next (N, V)."""
        vectors = self.advance(self.target_embedding(tokens[:, None]), progress)
        return self.unembed(vectors[:, 0])


def _check(config: LASConfig) -> None:
    config.check()
    if config.attention == "none":
        raise ConfigError(
            "attention is 'none', and a speller without attention hears nothing",
            hint=f"choose one of {', '.join(score_names()[1:])}",
        )


ENTRY = Entry(LASConfig, ListenAttendSpell, SIZES)
