"""Texts as rows of ids between special tokens, none longer than a model reads.

    reading models (BERT)        [CLS] a [SEP]        [CLS] a [SEP] b [SEP]        as their tokenizer frames them
    continuing models (GPT)      <s> a </s>           <s> a </s> b </s>            closing: start, delimiter, extract

The second is how Radford et al. (2018) have it: a model that looks back only has read everything at the last token,
so there has to be one after the text. Special tokens of their own ("delimiter", "extract") would have to be learnt
from the labelled examples alone; beginning and end of text are known already.

What is too long is cut at its end, the longer text of a pair first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.data.batching.chunks import chunks
from regard.data.batching.plan import like_lengths, pad
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.templates import Template, TemplatedIds, template_of
from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError

if TYPE_CHECKING:  # loaded when a model is verified
    from regard.inspection.invariants import Check

Text = str | tuple[str, str]
Ids = Sequence[int]
_CHUNK = 4096  # texts encoded at once


class TextTemplate:
    """Frames one text or a pair in at most `max_tokens`; `closing` ends every row with a special token of its own."""

    def __init__(self, tokenizer: Tokenizer, *, max_tokens: int = 128, closing: bool = False) -> None:
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self._frame = _closing_frame(tokenizer) if closing else None
        self._parts_two = self._framed([], []).starts != (0, 0)
        self._n_special = {pair: len(self._framed([], [] if pair else None).ids) for pair in (False, True)}
        if min(self.room(pair=False), self.room(pair=True)) < 1:
            raise UsageError(
                f"rows of {max_tokens} tokens have no room for text between their special tokens",
                hint="raise max_tokens",
            )

    def room(self, *, pair: bool) -> int:
        """How many tokens of text fit into a row, special tokens taken off."""
        return self.max_tokens - self._n_special[pair]

    def __call__(self, texts: Sequence[Text]) -> list[TemplatedIds]:
        """Each text, or pair of texts, framed and, where it is too long, cut."""
        return [self.frame(*ids) for ids in self.encode(texts)]

    def encode(self, texts: Sequence[Text]) -> list[tuple[list[int], list[int] | None]]:
        """The ids of each text, or of both of a pair, whole and without special tokens."""
        firsts = self.tokenizer.encode_batch([text if isinstance(text, str) else text[0] for text in texts])
        seconds = iter(self.tokenizer.encode_batch([text[1] for text in texts if not isinstance(text, str)]))
        return [
            (first, None if isinstance(text, str) else next(seconds)) for text, first in zip(texts, firsts, strict=True)
        ]

    def frame(self, first: Ids, second: Ids | None = None) -> TemplatedIds:
        """Ids between their special tokens, cut to fit; nothing at all still makes a row of one token of padding."""
        if second is not None and not self._parts_two:
            raise UsageError(
                "this tokenizer has no special token to part two texts by",
                hint="join them into one text, or use another",
            )
        framed = self._framed(*cut(first, second, room=self.room(pair=second is not None)))
        return framed if framed.ids else TemplatedIds([self.tokenizer.pad_id], [0], framed.starts)

    def _framed(self, first: Ids, second: Ids | None) -> TemplatedIds:
        return self.tokenizer.frame(first, second) if self._frame is None else self._frame(first, second)


def cut(first: Ids, second: Ids | None, *, room: int) -> tuple[Ids, Ids | None]:
    """Both texts in `room` tokens together: the longer one loses its end until they are equal, then both do."""
    if second is None:
        return first[:room], None
    shorter = min(len(first), len(second))
    most = max(room - shorter, -(-room // 2))  # what the longer may keep
    if len(first) >= len(second):
        first = first[:most]
        return first, second[: room - len(first)]
    second = second[:most]
    return first[: room - len(second)], second


def _closing_frame(tokenizer: Tokenizer) -> Template:
    special_tokens = tokenizer.special_tokens
    opening = special_tokens.bos if special_tokens.bos is not None else special_tokens.cls
    closing = special_tokens.eos if special_tokens.eos is not None else special_tokens.sep
    return template_of(SpecialTokens(cls=opening, sep=closing))


class TemplatedRows:
    """Framed texts end to end in memory: ids and segments (tokens,), and where each row begins."""

    def __init__(self, rows: Iterable[TemplatedIds], *, shortened: int = 0) -> None:
        ids, segments = [np.zeros(0, np.int32)], [np.zeros(0, np.uint8)]
        for row in rows:
            ids.append(np.array(row.ids, np.int32))
            segments.append(np.array(row.segments, np.uint8))
        self.lengths: npt.NDArray[np.int64] = np.array([len(row) for row in ids[1:]], np.int64)  # (n,)
        self._ids, self._segments = np.concatenate(ids), np.concatenate(segments)
        self._offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.shortened = shortened

    @classmethod
    def of(cls, template: TextTemplate, texts: Iterable[Text]) -> TemplatedRows:
        """Encode and frame texts, a few thousand at a time; `shortened` counts those that were cut."""
        rows: list[TemplatedIds] = []
        shortened = 0
        for chunk in chunks(texts, _CHUNK):
            for first, second in template.encode(chunk):
                rows.append(template.frame(first, second))
                shortened += len(first) + len(second or []) > template.room(pair=second is not None)
        return cls(rows, shortened=shortened)

    def __len__(self) -> int:
        return len(self.lengths)

    def ids(self, index: int) -> npt.NDArray[np.int32]:
        """The ids of a row, (length,)."""
        return self._ids[self._offsets[index] : self._offsets[index + 1]]

    def segments(self, index: int) -> npt.NDArray[np.uint8]:
        """The segment of each token of a row, (length,)."""
        return self._segments[self._offsets[index] : self._offsets[index + 1]]


def measure_texts(
    module: nn.Module, template: TextTemplate, sample: Sequence[Text], *, segmented: bool = True, **how: Any
) -> Iterator[Check]:
    """What a model that reads framed texts promises, measured on some; `how` it is tried is said by `Trial`."""
    from regard.inspection.invariants import Given, Trial, measure_alone, measure_reading

    rows, device = TemplatedRows.of(template, sample), next(module.parameters()).device
    given, segments = padded(rows, range(len(rows)), template.tokenizer.pad_id, device=device)
    trial = Trial(module, Given((given,), segments if segmented else None), **how)
    yield measure_alone(trial)
    yield from measure_reading(trial)


def batches(
    rows: TemplatedRows, model: nn.Module, *, budget_tokens: int, pad_id: int, device: torch.device
) -> Iterator[tuple[list[int], Rows, Tensor]]:
    """Which rows are read together, these as the model reads them, and the segment of each of their tokens.

    They stand end to end where the model leaves them alone so, else padded beside others of like length.
    """
    longest = getattr(model, "packed_length", 0)
    for chunk in like_lengths(rows.lengths, budget_tokens):
        fits = int(rows.lengths[chunk].max()) <= longest
        yield chunk, *(packed(rows, chunk) if fits else padded(rows, chunk, pad_id, device=device))


def packed(rows: TemplatedRows, chunk: Sequence[int]) -> tuple[Rows, Tensor]:
    """Some rows end to end (1, T), and the segment of each of their tokens (1, T)."""
    ids, segments = (torch.from_numpy(np.concatenate([of(i) for i in chunk])) for of in (rows.ids, rows.segments))
    lengths = torch.from_numpy(rows.lengths[list(chunk)])
    return Rows.packed(ids.long(), lengths, longest=int(lengths.max())), segments.long()[None]


def padded(rows: TemplatedRows, chunk: Sequence[int], pad_id: int, *, device: torch.device) -> tuple[Rows, Tensor]:
    """Some rows as a model reads them (B, T), and the segment of each of their tokens (B, T)."""
    ids, lengths = pad([rows.ids(i) for i in chunk], pad_id)
    segments, _ = pad([rows.segments(i) for i in chunk], 0)
    return Rows(ids.to(device), lengths.to(device)), segments.to(device)
