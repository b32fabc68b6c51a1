"""What a trained BERT is asked: which word is hidden, whether one text follows another, what a text is about.

    fill("The cat [MASK] on the mat.")      for each mask the likeliest pieces, and the text with the best of them
    judge("It rained.", "We got wet.")      the probability that the second comes after the first
    embed("A text.")                        the mean of its contextual vectors (D,), special tokens included, as
                                            sentence-transformers take it

Masks are written [MASK], <mask>, or as the tokenizer writes its own. Texts of like length are read together; what comes
out does not depend on who shared the batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import Rows
from regard.data.text.checks import shorten
from regard.data.text.templates import TemplatedIds
from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError
from regard.layers.pooling import mean_of_tokens
from regard.models.bert import Bert
from regard.tasks.masked.batches import FOLLOWS
from regard.tasks.masked.data import required_mask
from regard.tasks.templates import TemplatedRows, Text, TextTemplate, batches


@dataclass(frozen=True)
class Guess:
    """A piece that may stand at a mask."""

    token: str
    id: int
    probability: float


@dataclass(frozen=True)
class Filling:
    """A text with its masks filled by the best guess each, and the guesses for each mask, best first."""

    text: str
    masks: list[list[Guess]] = field(default_factory=list)

    def plain(self) -> str:
        """The filled text, then for each mask its guesses with their probabilities."""
        lines = ["  ".join(f"{guess.token} {guess.probability:.3f}" for guess in mask) for mask in self.masks]
        return "\t".join([self.text, *lines])

    def record(self) -> dict[str, Any]:
        """The text and the guesses."""
        masks = [[{"token": g.token, "probability": g.probability} for g in mask] for mask in self.masks]
        return {"text": self.text, "masks": masks}


@dataclass(frozen=True)
class NextSentence:
    """The probability that the second of two texts follows the first."""

    probability: float

    def plain(self) -> str:
        """In words and figures."""
        return f"{'follows' if self.probability >= 0.5 else 'does not follow'} {self.probability:.4f}"

    def record(self) -> dict[str, Any]:
        """The probability."""
        return {"follows": self.probability}


class Filler:
    """Asks a BERT about texts."""

    def __init__(self, model: Bert, tokenizer: Tokenizer, *, batch_tokens: int = 8192) -> None:
        self.model, self.tokenizer, self.batch_tokens = model, tokenizer, batch_tokens
        self.template = TextTemplate(tokenizer, max_tokens=model.config.n_positions)

    @torch.inference_mode()
    def fill(self, texts: Sequence[str], *, k: int = 5) -> list[Filling]:
        """The `k` likeliest pieces for each mask of each text, guessed independently of one another."""
        if not 1 <= k <= len(self.tokenizer):
            raise UsageError(f"k is {k}, from 1 to {len(self.tokenizer)} pieces can be guessed")
        mask_id = required_mask(self.tokenizer)
        encoded = [self._with_masks(text, number) for number, text in enumerate(texts, start=1)]
        framed = [self.template.frame(ids) for ids in encoded]
        fillings = [Filling("")] * len(texts)
        for chosen, rows, segments in self._batches(framed):
            states = self.model.encode(rows, segments=segments)
            masks = rows.ids == mask_id
            scores = self.model.unembed(self.model.mlm_hidden(states[masks]))
            scores = scores[:, : len(self.tokenizer)]  # embeddings to spare have no piece
            best = scores.float().softmax(-1).topk(k)
            counts = [encoded[i].count(mask_id) for i in chosen]
            guesses = zip(best.values.split(counts), best.indices.split(counts), strict=True)
            for i, (values, ids) in zip(chosen, guesses, strict=True):
                fillings[i] = self._filling(encoded[i], values, ids)
        return fillings

    @torch.inference_mode()
    def judge(self, firsts: Sequence[str], seconds: Sequence[str]) -> list[float]:
        """For each pair of texts, the probability that the second follows the first; too long ones are cut."""
        if len(firsts) != len(seconds):
            raise UsageError(f"{len(firsts)} first texts and {len(seconds)} second ones do not make pairs")
        texts: list[Text] = list(zip(firsts, seconds, strict=True))
        probabilities = [0.0] * len(texts)
        for chosen, rows, segments in self._batches(self.template(texts)):
            logits = self.model.next_sentence(self.model.encode(rows, segments=segments), rows)
            for i, probability in zip(chosen, logits.float().softmax(-1)[:, FOLLOWS].tolist(), strict=True):
                probabilities[i] = probability
        return probabilities

    @torch.inference_mode()
    def embed(self, texts: Sequence[str], *, normalise: bool = False) -> Tensor:
        """A vector for each text (N, D), of length one where asked for; too long texts are cut at their end."""
        weight = self.model.output_weight
        vectors = torch.zeros(len(texts), self.model.config.d_model, device=weight.device, dtype=weight.dtype)
        for chosen, rows, segments in self._batches(self.template(list(texts))):
            pooled = mean_of_tokens(self.model.encode(rows, segments=segments), rows)
            vectors[chosen] = pooled.to(vectors.dtype)
        return F.normalize(vectors, dim=-1) if normalise else vectors

    def _batches(self, framed: Sequence[TemplatedIds]) -> Iterator[tuple[list[int], Rows, Tensor | None]]:
        """Rows of like length, with their segments if the model has any, and which texts they are."""
        device = self.model.output_weight.device
        for chosen, rows, segments in batches(
            TemplatedRows(framed),
            self.model,
            budget_tokens=self.batch_tokens,
            pad_id=self.tokenizer.pad_id,
            device=device,
        ):
            yield chosen, rows, segments if self.model.config.n_segments else None

    def _with_masks(self, text: str, number: int) -> list[int]:
        ids, room, shown = encode_with_masks(self.tokenizer, text), self.template.room(pair=False), shorten(text, 60)
        if self.tokenizer.mask_id not in ids:
            raise UsageError(f"text {number} has no mask: {shown}", hint="write [MASK] for the hidden word")
        if len(ids) > room:
            raise UsageError(f"text {number} has {len(ids)} pieces, the model reads {room} at most: {shown}")
        return ids

    def _filling(self, ids: list[int], values: Tensor, guesses: Tensor) -> Filling:
        masks = [
            [Guess(token, index, p) for token, index, p in zip(self.tokenizer.tokens(row), row, ps, strict=True)]
            for row, ps in zip(guesses.tolist(), values.tolist(), strict=True)
        ]
        best = iter(mask[0].id for mask in masks)
        filled = [next(best) if index == self.tokenizer.mask_id else index for index in ids]
        return Filling(self.tokenizer.decode(filled), masks)


def encode_with_masks(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text in which masks are written out, in any of their spellings.

    What is written right onto a mask gets the pieces that it has right after a word, not those after a space.
    """
    mask_id = required_mask(tokenizer)
    spellings = ("[MASK]", "<mask>", *tokenizer.tokens([mask_id]))
    first, *others = re.split("|".join(map(re.escape, spellings)), text)
    ids = _part(tokenizer, first, before=False, after=bool(others))
    for index, part in enumerate(others, start=1):
        ids += [mask_id, *_part(tokenizer, part, before=True, after=index < len(others))]
    return ids


def _part(tokenizer: Tokenizer, text: str, *, before: bool, after: bool) -> list[int]:
    """The ids of what stands next to masks: before it, after it, or on both sides."""
    if not text:
        return []
    if _spaces_are_pieces(tokenizer):
        return _between(tokenizer, text, before="x" if before else "", after="x" if after else "")
    text = text.rstrip() if after else text  # the space before a mask belongs to the hidden word
    if not before or not text or text[0].isspace():
        return tokenizer.encode(text)
    # An anchor of another kind than what comes after it is a piece of its own.
    return _between(tokenizer, text, before="." if text[0].isalpha() else "x", after="")


def _between(tokenizer: Tokenizer, text: str, *, before: str, after: str) -> list[int]:
    """The ids of a text between two others, which are taken off again; by itself if they cannot be told apart."""
    ids = tokenizer.encode(before + text + after)
    head = tokenizer.encode(before) if before else []
    tail = len(tokenizer.encode(after)) if after else 0
    if ids[: len(head)] != head or len(ids) < len(head) + tail:
        return tokenizer.encode(text)
    return ids[len(head) : len(ids) - tail]


def _spaces_are_pieces(tokenizer: Tokenizer) -> bool:
    """Whether a space has a piece of its own, as among characters and bytes."""
    return len(tokenizer.encode("x x")) > 2 * len(tokenizer.encode("x"))
