"""What models of speech read and hand on, and what training, decoding and inspection need of them.

heard = model.listen(frames)              frames (B, T, M) → memory (B, S, D), S places of time
logits = model(frames, target)            target (B, U) starting with its mark → (B, U, V)
stepper = model.start(heard)              the same, one token at a time
scores = model.align(heard)               (B, S, V) for connectionist temporal classification, if trained with it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.attention import Padding, Rows
from regard.errors import ShapeError
from regard.models.interfaces.text import Seq2SeqStepper, VocabularyModel, WriterConfig


@dataclass(frozen=True)
class Frames:
    """Spectra (B, T, M) and how many of each row are real (B,)."""

    values: Tensor
    lengths: Tensor

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.lengths.shape != self.values.shape[:1]:
            raise ShapeError(
                f"frames are (batch, time, bands) with a length a row, got {tuple(self.values.shape)} "
                f"and {tuple(self.lengths.shape)}"
            )

    def check(self, n_mels: int) -> None:
        """Refuse frames of another width, or rows without any."""
        if self.values.shape[2] != n_mels:
            raise ShapeError(f"frames have {self.values.shape[2]} bands, the model reads {n_mels}")
        if self.values.shape[1] < 1 or int(self.lengths.min()) < 1:
            raise ShapeError("every recording holds at least one frame; here is an empty one", hint="leave it out")


@dataclass(frozen=True)
class Heard:
    """What was made of the frames: memory (B, S, D), and how many places of each row are real (B,)."""

    memory: Tensor
    lengths: Tensor

    def mask(self) -> Padding:
        """Which places are real."""
        return Padding(self.lengths)


class SpeechConfig(WriterConfig, Protocol):
    """What every config of a model of speech holds; `pad_id` is also the blank of temporal classification."""

    @property
    def n_mels(self) -> int:
        """Bands of a frame."""

    @property
    def reduction(self) -> int:
        """How many frames become one place of memory."""

    @property
    def n_writable(self) -> int | None:
        """The most tokens that can be written, where that is limited."""


@runtime_checkable
class SpeechModel(VocabularyModel, Protocol):
    """A model that turns speech into text."""

    @property
    def config(self) -> SpeechConfig:
        """What it was built of."""

    def forward(self, frames: Frames, target: Tensor | Rows) -> Tensor:
        """Logits (B, U, V) of each next token, given the speech and the text up to there."""

    def listen(self, frames: Frames) -> Heard:
        """The speech as what the speller attends to."""

    def spell(self, heard: Heard, target: Tensor | Rows) -> Tensor:
        """What `unembed` turns into logits (B, U, D), for losses that do the output themselves."""

    def align(self, heard: Heard) -> Tensor | None:
        """Logits (B, S, V) of which token stands where, the blank being `pad_id`; None without such an output."""

    def start(self, heard: Heard, *, capacity: int = 64, watched: bool = False) -> Seq2SeqStepper:
        """Stand ready to write, one row each; `watched` steps keep their attention."""


def as_speech(module: nn.Module) -> SpeechModel:
    """The module as what it is: the registry builds nothing else for the task."""
    assert isinstance(module, SpeechModel)
    return module


def device_of(model: SpeechModel) -> torch.device:
    """Where the model is."""
    return model.output_weight.device
