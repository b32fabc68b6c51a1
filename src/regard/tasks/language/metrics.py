"""How well a language model expects a text: loss a token, perplexity, bits a character and a byte.

    measure_text(model, tokenizer, documents, context=256, stride=128)

The documents stand end to end, with their marks, as in training. A window of `context` tokens moves over them by
`stride`, and each position predicts what comes next; every token is predicted exactly once, and all but the first
window's see at least `context - stride` tokens before them. `stride = context` is quickest, a small one is fairest.

Tokens of different tokenizers cannot be compared; characters and bytes of the text can: they count what the files hold,
before any tokenizer, and the loss of the marks between documents is part of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from regard.data.batching.chunks import chunks
from regard.data.text.documents import Document
from regard.data.text.markers import Markers
from regard.data.text.streams import Extent
from regard.data.text.tokenizers import Tokenizer
from regard.errors import DataError, UsageError
from regard.metrics.bootstrap import Drawn
from regard.metrics.cross_entropy import linear_cross_entropy
from regard.metrics.scores import Metric
from regard.models.interfaces.text import LanguageModel
from regard.tasks.measuring import Scores
from regard.tasks.texts import Documents

Ids = npt.NDArray[Any]
UNCOUNTED = -1  # the label of what another window predicts


@dataclass(frozen=True)
class TextMeasure:
    """The summed loss of a text in nats, how many tokens were predicted, and how much text that is."""

    nll: float
    n_tokens: int
    extent: Extent
    context: int
    stride: int

    @property
    def loss(self) -> float:
        """Nats a token."""
        return self.nll / self.n_tokens

    @property
    def perplexity(self) -> float:
        """e^loss: among how many equally likely tokens the model is undecided, on average."""
        return _exp(self.loss)

    @property
    def word_perplexity(self) -> float:
        """Perplexity spread over whitespace words instead of tokens."""
        return _exp(self.nll / max(1, self.extent.words))

    @property
    def bits_per_character(self) -> float:
        """Bits a character of the original text."""
        return self.nll / math.log(2) / max(1, self.extent.characters)

    @property
    def bits_per_byte(self) -> float:
        """Bits a byte of the original text in UTF-8."""
        return self.nll / math.log(2) / max(1, self.extent.bytes)

    def metrics(self) -> dict[str, Metric]:
        """All figures, each with how it was computed."""
        how = f"context {self.context}, stride {self.stride}"
        over = {
            "loss": ("nats a token", self.n_tokens, "tokens"),
            "perplexity": ("a token", self.n_tokens, "tokens"),
            "word_perplexity": ("a whitespace word", self.extent.words, "words"),
            "bits_per_character": ("bits a character", self.extent.characters, "characters"),
            "bits_per_byte": ("bits a byte of UTF-8", self.extent.bytes, "bytes"),
        }
        return {
            name: Metric(name.replace("_", " "), getattr(self, name), f"{unit}, over {n:,} {what}; {how}", digits=4)
            for name, (unit, n, what) in over.items()
        }


class Passages(NamedTuple):
    """Texts that two models both read, and whether they are the same tokens to them, so that these can be compared."""

    texts: list[str]
    same_tokens: bool


def measure_text(
    model: LanguageModel,
    tokenizer: Tokenizer,
    documents: Iterable[Document],
    *,
    context: int,
    stride: int | None = None,
    separated: bool = True,
    batch_tokens: int = 16_384,
) -> TextMeasure:
    """Measure a model on documents; the stride is half the context unless it is given."""
    marks, extent = Markers.of(tokenizer, separated=separated), Extent()
    parts: list[Ids] = []
    begun = False
    for document in documents:
        extent = extent.plus(document)
        ids = [*(() if begun else marks.before), *tokenizer.encode(document.text)]
        parts.append(np.array(ids + ([] if document.more else list(marks.after)), np.int64))
        begun = document.more
    if not parts:
        raise DataError("there is no text to measure a model on")
    return measure_ids(
        model,
        tokenizer,
        np.concatenate(parts),
        extent=extent,
        marks=marks,
        context=context,
        stride=max(1, context // 2) if stride is None else stride,
        batch_tokens=batch_tokens,
    )


def score_documents(
    documents: Documents,
    model: LanguageModel,
    tokenizer: Tokenizer,
    *,
    context: int,
    separated: bool,
    stride: int | None = None,
) -> Scores:
    """How well a model expects whole documents."""
    read = list(documents())
    measured = measure_text(model, tokenizer, read, context=context, stride=stride, separated=separated)

    def figures(_: Drawn) -> dict[str, float]:
        raise UsageError("documents are not drawn; models are compared on passages of them")

    return Scores(sum(not one.more for one in read), "documents", measured.metrics, figures)


def score_passages(
    passages: Passages, model: LanguageModel, tokenizer: Tokenizer, *, context: int, separated: bool
) -> Scores:
    """How well a model expects passages, each read by itself."""
    measured = [
        measure_text(model, tokenizer, [Document(text, "")], context=context, separated=separated)
        for text in passages.texts
    ]
    table = np.array([(one.nll, one.extent.characters, one.n_tokens) for one in measured])

    def figures(drawn: Drawn) -> dict[str, float]:
        nll, characters, n_tokens = table[drawn].sum(0)
        bits = {"bits per character": float(nll / np.log(2) / characters)}
        return bits | ({"loss": float(nll / n_tokens)} if passages.same_tokens else {})

    return Scores(len(measured), "passages", dict, figures)


def measure_ids(
    model: LanguageModel,
    tokenizer: Tokenizer,
    ids: Ids,
    *,
    extent: Extent,
    marks: Markers,
    context: int,
    stride: int,
    batch_tokens: int = 16_384,
) -> TextMeasure:
    """The same for a text that is ids (n,) already, marks included, and of the given extent.

    Where a mark can stand before the first token, that one is predicted too. Otherwise it, and its characters, are not
    counted.
    """
    if not 1 <= stride <= context:
        raise UsageError(f"stride is {stride} and context {context}; allowed is a stride from 1 to the context")
    before = () if marks.before else marks.nothing
    if not before:
        first = tokenizer.decode(ids[:1])
        characters, length = extent.characters - len(first), extent.bytes - len(first.encode())
        extent = replace(extent, characters=characters, bytes=length)
    stream = np.concatenate([np.array(before, ids.dtype), ids])
    if len(stream) < 2:
        raise DataError(f"the text has {len(ids)} token{'s' * (len(ids) != 1)}, and nothing to predict from it")
    nll = _summed_loss(model, stream, context=context, stride=stride, rows=max(1, batch_tokens // context))
    return TextMeasure(nll, len(stream) - 1, extent, context, stride)


class Window(NamedTuple):
    """What is read, and what comes next at each place, `UNCOUNTED` where an earlier window predicted it."""

    ids: Ids
    labels: Ids


def windows(stream: Ids, *, context: int, stride: int) -> Iterator[Window]:
    """Windows in which every token of the stream but the first is counted once; all as long as the first."""
    last = len(stream) - 1
    done, end = 0, min(context, last)
    while done < last:
        start = max(0, end - context)
        labels = stream[start + 1 : end + 1].astype(np.int64)
        labels[: done - start] = UNCOUNTED
        yield Window(stream[start:end].astype(np.int64), labels)
        done, end = end, min(end + stride, last)


@torch.no_grad()
def _summed_loss(model: LanguageModel, stream: Ids, *, context: int, stride: int, rows: int) -> float:
    device, total = model.output_weight.device, 0.0
    for some in chunks(windows(stream, context=context, stride=stride), rows):
        ids, labels = (torch.from_numpy(np.stack(side)).to(device) for side in zip(*some, strict=True))
        hidden = model.hidden(ids).flatten(0, 1)
        losses = linear_cross_entropy(
            hidden, model.output_weight, labels.flatten(), ignore_id=UNCOUNTED, bias=model.output_bias
        )
        total += float(losses.nll)
    return total


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
