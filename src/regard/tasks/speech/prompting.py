"""Decoding that begins with tokens that are given, as Whisper's does: they are fed first, and are not part of the text.

opening = prompt_ids(tokenizer, ("<|startoftranscript|>", "<|notimestamps|>"))
Prompted(stepper, opening, n_rows=8, not_first=(220,))        decode it with bos_id=opening[-1]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError
from regard.models.interfaces.text import Seq2SeqStepper


def prompt_ids(tokenizer: Tokenizer, prompt: Sequence[str]) -> list[int]:
    """The ids that begin every text: of the tokens named, else of the tokenizer's beginning."""
    ids = [tokenizer.core.token_to_id(token) for token in prompt]
    unknown = [token for token, index in zip(prompt, ids, strict=True) if index is None]
    if unknown:
        raise UsageError(f"decode.prompt names {unknown[0]!r}, and the tokenizer has no such token")
    return [int(index) for index in ids if index is not None] or [tokenizer.bos_id]


class Prompted:
    """A stepper that has been fed all but the last token of an opening, and does not begin with some tokens."""

    def __init__(
        self, stepper: Seq2SeqStepper, opening: Sequence[int], *, n_rows: int, not_first: Sequence[int] = ()
    ) -> None:
        self.stepper, self.not_first = stepper, list(not_first)
        for token in opening[:-1]:
            stepper.step(torch.full((n_rows,), token, device=stepper.device))

    @property
    def device(self) -> torch.device:
        """Where the stepper is."""
        return self.stepper.device

    def step(self, tokens: Tensor) -> Tensor:
        """The last token of each row (N,) → logits of the next (N, V)."""
        logits = self.stepper.step(tokens)
        if self.not_first:
            logits = logits.index_fill(1, torch.tensor(self.not_first, device=logits.device), -math.inf)
            self.not_first = []
        return logits

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows."""
        self.stepper.select(rows, same_source=same_source)

    def attention(self) -> Tensor | None:
        """What the stepper says."""
        return self.stepper.attention()
