"""A language model in the middle of writing N rows, each after a prompt of its own length.

    stepper = GPTStepper(model, Rows(prompts, lengths), capacity=100)      reads all but each prompt's last token
    stepper.step(last)                                                    (N,) → logits of the next (N, V)

Prompts of different lengths are pushed to the right end of the caches, so that all rows write to the same place at
every step. Row b begins at column starts[b]: keys before it are hidden, and positions count from there, which makes a
row's result its own, whatever stands beside it. Rows of one length have no starts and need no mask at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention import Causal, Mask, Rows, Since, empty_caches, reorder_all, watch
from regard.errors import ShapeError, UsageError

if TYPE_CHECKING:
    from regard.models.gpt import GPT


class GPTStepper:
    """Caches of what each row has read and written so far."""

    def __init__(self, model: GPT, prompts: Rows, *, capacity: int, watched: bool) -> None:
        ids, lengths = _check(prompts)
        self.model, self.watched = model, watched
        self.n_rows, self.n_prompt = ids.shape
        self.starts = None if lengths is None else self.n_prompt - lengths
        self.caches = empty_caches(len(model.stack.blocks), capacity=self.n_prompt - 1 + capacity)
        self._weights: Tensor | None = None
        if model.positions is not None:
            model.positions.reserve(self.n_prompt)
        if self.n_prompt > 1:
            self._read(_pushed_right(ids, self.starts)[:, :-1])

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
        positions = self._places(tokens)
        mask = None if self.starts is None else Since(self.starts)
        if not self.watched:
            return self.model.unembed(self._run(tokens[:, None], mask=mask, positions=positions)[:, 0])
        with watch(self.model.stack) as seen:
            hidden = self._run(tokens[:, None], mask=mask, positions=positions)
        self._weights = self._prompt_part(torch.stack([sight.weights[:, :, 0].mean(1) for sight in seen]).mean(0))
        return self.model.unembed(hidden[:, 0])

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        """Go on with other rows; those that keep their prompt keep where it begins."""
        reorder_all(self.caches, rows)
        if self.starts is not None and not same_source:
            self.starts = self.starts.index_select(0, rows)

    def attention(self) -> Tensor | None:
        """How the last step looked at the tokens of its prompt (N, P), averaged over layers and heads, if watched."""
        return self._weights

    @torch.no_grad()
    def _read(self, ids: Tensor) -> None:
        """Fill the caches with the prompts (N, P − 1) in one pass."""
        if self.starts is None:
            self._run(ids, mask=Causal(), positions=None)
            return
        positions = (torch.arange(ids.shape[1], device=ids.device) - self.starts[:, None]).clamp(min=0)
        self._run(ids, mask=Causal() & Since(self.starts), positions=positions)

    def _run(self, ids: Tensor, *, mask: Mask | None, positions: Tensor | None) -> Tensor:
        embedded = self.model.embed(ids, positions=positions, offset=self.length)
        hidden: Tensor = self.model.stack(embedded, mask=mask, caches=self.caches, positions=positions)
        return hidden

    def _places(self, tokens: Tensor) -> Tensor | None:
        """Where the new tokens stand in their rows (N, 1); None where that is simply behind the caches."""
        limit, length = self.model.position_limit, self.length
        over = (
            limit is not None and length >= limit
        )  # only from here on can a row be at its end, and is it worth a look
        if self.starts is None and not over:
            return None
        places = torch.full_like(tokens, length) if self.starts is None else length - self.starts
        if self.model.positions is not None and not over:
            self.model.positions.reserve(length + 1)
        if limit is not None and over:
            refuse_beyond(limit, tokens[places >= limit], pad_id=self.model.config.pad_id)
            places = places.clamp(max=limit - 1)
        return places[:, None]

    def _prompt_part(self, weights: Tensor) -> Tensor:
        """Weights over the caches' columns (N, length) → over each prompt's own tokens (N, P), zeros behind them."""
        columns = torch.arange(self.n_prompt, device=weights.device)
        if self.starts is None:
            return weights[:, : self.n_prompt]
        places = columns + self.starts[:, None]
        own = weights.gather(1, places.clamp(max=self.n_prompt - 1))
        return own.masked_fill(places >= self.n_prompt, 0.0)


def refuse_beyond(limit: int, tokens: Tensor, *, pad_id: int) -> None:
    """Rows that are done are fed padding until they leave; any other token wants a position that is not there."""
    if bool((tokens != pad_id).any()):
        raise UsageError(
            f"a text of {limit + 1} tokens was begun, and the model has {limit} learned positions",
            hint=f"ask for fewer tokens: prompt and continuation are at most {limit} together",
        )


def _check(prompts: Rows) -> tuple[Tensor, Tensor | None]:
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
