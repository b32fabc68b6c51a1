"""What decoding needs of a model: rows in flight, each with its own state.

A model hands over a `Stepper` already started on one row per input. Decoding then only ever says two things to it:
"here is the last token of each row, what comes next?" (`step`) and "these are the rows to go on with" (`select`).

    tokens (N,) int64        logits (N, V)        rows (M,) int64, each in 0..N-1

A stepper may also offer `attention() -> Tensor (N, S) | None`: the cross-attention of the last step, averaged over
heads, exactly zero on padding; S stays what it was at the start. The coverage penalty needs it, nothing else does.
"""

from typing import Protocol

import torch
from torch import Tensor

from regard.config.twins import twin
from regard.errors import ShapeError, UsageError


class Stepper(Protocol):
    """A model in the middle of decoding N rows."""

    @property
    def device(self) -> torch.device:
        """Where `step` expects its tokens and leaves its logits."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append the last token of each row (N,) and return the logits of the next one (N, V)."""

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows: row i of the new state is row rows[i] of the old one.

        `same_source` says that row i stays with the input it had, for every i (beams reordered within their own input):
        what belongs to the input alone, such as cross-attention keys, can then be left where it is.
        """


def next_logits(stepper: Stepper, tokens: Tensor) -> Tensor:
    """One step of the model, in float32 and with its shape checked: tokens (N,) → logits (N, V)."""
    return checked_logits(stepper, tokens).float()


def checked_logits(stepper: Stepper, tokens: Tensor) -> Tensor:
    """The same in the model's own precision, for those who read it once and round nothing."""
    logits = stepper.step(tokens)
    if logits.ndim != 2 or logits.shape[0] != tokens.shape[0]:
        raise ShapeError(
            f"the stepper was given {tokens.shape[0]} tokens and returned logits of shape {tuple(logits.shape)}; "
            f"allowed is (rows, vocabulary) = ({tokens.shape[0]}, V)"
        )
    return logits


def log_probs_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """The log-probabilities of some tokens: (N, V), (N, k) → (N, k).

    log_softmax is one fused pass over V; PyTorch's logsumexp, which would spare its (N, V) result, is several.
    """
    fast = twin("log_sum_exp")
    sums: Tensor | None = None if fast is None else fast(logits)
    if sums is not None:
        return logits.gather(-1, tokens) - sums[:, None]
    return logits.log_softmax(-1).gather(-1, tokens)


def top_1(values: Tensor) -> Tensor:
    """The column of each row's largest value, the first of several: (N, V) → (N,)."""
    fast = twin("top_k")
    ranked = None if fast is None else fast(values, 1)
    return values.argmax(-1) if ranked is None else ranked[1][:, 0]


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row, largest first, and their columns: (N, V) → (N, k), (N, k)."""
    fast = twin("top_k")
    ranked: tuple[Tensor, Tensor] | None = None if fast is None else fast(values, k)
    if ranked is None:
        largest = values.topk(k)
        ranked = largest.values, largest.indices
    return ranked


def last_attention(stepper: Stepper) -> Tensor:
    """The head-averaged cross-attention (N, S) of the last step, or an error that says who needs it."""
    attention = getattr(stepper, "attention", None)
    weights = attention() if callable(attention) else None
    if not isinstance(weights, Tensor):
        raise UsageError(
            f"coverage_penalty needs the attention of each step, and {type(stepper).__name__} offers none",
            hint="set coverage_penalty to 0, or decode with a model that attends to its source",
        )
    return weights.float()
