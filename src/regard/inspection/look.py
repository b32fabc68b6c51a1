"""What a model looked at while it read and wrote one sentence: every attention map, with the pieces it is between.

    self    (L, H, S, S)    source pieces look at source pieces
    masked  (L, H, T, T)    what has been written looks at its own past
    cross   (L, H, T, S)    target pieces look at source pieces

Row t is where the model looked when it predicted target piece t. Both sides end with </s>; the columns of `masked` are
the pieces that were fed: <s>, then the target without its end.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.attention import watch
from regard.attention.taps import Kind, Seen, Tap
from regard.data import Tokenizer
from regard.errors import DataError, UsageError
from regard.inspection.alignments import Alignment, Heads, Method, align
from regard.tasks.pair_training import batch_of
from regard.tasks.pairs import Languages

Maps = NDArray[np.float32]
PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Words:
    """The words that pieces make up: their texts, and for each piece (without </s>) the number of its word."""

    texts: list[str]
    of_piece: list[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
        """Whitespace words; of a tokenizer of characters, the characters."""
        pieces = tokenizer.tokens(ids)
        alone = tokenizer.kind in ("chars", "words")
        begins = [i == 0 or alone or piece.startswith("▁") for i, piece in enumerate(pieces)]
        of_piece = (np.cumsum(begins, dtype=int) - 1).tolist()
        groups: list[list[int]] = [[] for _ in range(sum(begins))]
        for place, word in enumerate(of_piece):
            groups[word].append(place)
        texts = [_text(tokenizer, [ids[i] for i in group], [pieces[i] for i in group]) for group in groups]
        return cls(texts, of_piece)


@dataclass(frozen=True, eq=False)
class Look:
    """A sentence, its translation, and who looked at whom: `weights` by kind of attention, (L, H, T, S) each."""

    source: list[str]
    target: list[str]
    source_words: Words
    target_words: Words
    weights: dict[str, Maps]

    def align(
        self,
        *,
        method: Method = "argmax",
        heads: Heads = "mean",
        threshold: float = 0.3,
        layer: int | None = None,
    ) -> Alignment:
        """Which target word comes from which source word, read off the cross-attention of all layers or of one."""
        maps = self.cross if layer is None else self.cross[self._layer(layer)]
        return align(
            maps,
            source_words=self.source_words.of_piece,
            target_words=self.target_words.of_piece,
            method=method,
            heads=heads,
            threshold=threshold,
        )

    def plot(self, path: Path | str, *, heads: Heads = "mean", layer: int | None = None) -> Path:
        """Draw the alignment: source words above, target words at the left."""
        from regard.inspection.plots import draw_alignment

        if Path(path).suffix.lower() not in PICTURES:
            raise UsageError(f"{path}: not a picture's name; allowed are {', '.join(PICTURES)}")
        return draw_alignment(
            self.align(heads=heads, layer=layer),
            path,
            source=self.source_words.texts,
            target=self.target_words.texts,
        )

    @cached_property
    def cross(self) -> Maps:
        """The maps between the two sentences, (L, H, T, S)."""
        if "cross" not in self.weights:
            raise UsageError(f"no attention between two sentences was seen; there is {', '.join(self.weights)}")
        return self.weights["cross"]

    def to_json(self) -> str:
        """Everything as one JSON object, which `from_json` reads back."""
        return json.dumps(
            {
                "source": self.source,
                "target": self.target,
                "source_words": {"texts": self.source_words.texts, "of_piece": self.source_words.of_piece},
                "target_words": {"texts": self.target_words.texts, "of_piece": self.target_words.of_piece},
                "weights": {kind: maps.tolist() for kind, maps in self.weights.items()},
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        try:
            record: dict[str, Any] = json.loads(text)
            sides = [Words(**record[name]) for name in ("source_words", "target_words")]
            weights = {kind: np.array(maps, dtype=np.float32) for kind, maps in record["weights"].items()}
            return cls(record["source"], record["target"], sides[0], sides[1], weights)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"not a record as to_json writes it: {type(error).__name__} {error}") from error

    def _layer(self, layer: int) -> int:
        if not 0 <= layer < len(self.cross):
            raise UsageError(f"there is no layer {layer}; there are 0 to {len(self.cross) - 1}")
        return layer


@torch.inference_mode()
def look_at(
    module: nn.Module,
    languages: Languages,
    *,
    source: Sequence[int],
    target: Sequence[int],
    kinds: Collection[Kind] | None = None,
) -> Look:
    """Run the model over one pair of ids, and keep what every attention of it, or of some kinds, looked at."""
    if not any(isinstance(part, Tap) for part in module.modules()):
        raise UsageError(
            "this model has no attention to look at", hint="train one that has: model.attention=additive, for example"
        )
    if not source:
        raise UsageError("there is nothing to look at: the text is empty")
    batch = batch_of(languages, [source], [target]).to(next(module.parameters()).device)
    with watch(module, kinds=kinds) as seen:
        module(*batch.rows())
    ends = ["</s>"]
    return Look(
        languages.source.tokenizer.tokens(source) + ends,
        languages.target.tokenizer.tokens(target) + ends,
        Words.of(languages.source.tokenizer, source),
        Words.of(languages.target.tokenizer, target),
        _by_kind(seen),
    )


@torch.inference_mode()
def look_at_text(
    module: nn.Module, tokenizer: Tokenizer, ids: Sequence[int], *, segments: Sequence[int] | None = None
) -> Look:
    """Run a model of one text over its ids, and keep where each piece looked: both axes are the pieces."""
    if not ids:
        raise UsageError("there is nothing to look at: the text is empty")
    device = next(module.parameters()).device
    given = {} if segments is None else {"segments": torch.tensor([list(segments)], device=device)}
    with watch(module) as seen:
        module(torch.tensor([list(ids)], device=device), **given)
    tokens, words = tokenizer.tokens(ids), Words.of(tokenizer, ids)
    return Look(tokens, tokens, words, words, _by_kind(seen))


def _by_kind(seen: Seen) -> dict[str, Maps]:
    """The maps of each kind, layers stacked: (L, H, T, S).

    A model that feeds its attention back takes one step after another, and each is a sight of one row.
    """
    found: dict[str, list[Maps]] = {}
    for kind, layer in sorted({(sight.kind, sight.layer) for sight in seen}):
        steps = [sight.weights[0] for sight in seen.where(kind=kind, layer=layer)]
        found.setdefault(kind, []).append(torch.cat(steps, 1).float().cpu().numpy())
    return {kind: np.stack(layers) for kind, layers in found.items()}


def _text(tokenizer: Tokenizer, ids: Sequence[int], pieces: Sequence[str]) -> str:
    """A word as people write it; a space alone stays one, and what has no text is shown as its pieces."""
    text = tokenizer.decode(ids)
    return text.strip() or text or "".join(pieces)
