"""Word vectors: two for each word, one as the word itself and one as a word around others (Mikolov et al., 2013).

score(w, c) = ⟨input_w, output_c⟩      how likely c stands near w, before a sigmoid

WordVectors(ids (…)) → scores (…, V) of all words around; `vectors` (V, D) are the input ones, those that are used.
nearest      the words whose vectors point the same way: cosines
combine      sums and differences of unit vectors: king − man + woman
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.settings import Settings, setting
from regard.errors import ShapeError
from regard.models.entry import Entry

_SCORES = 2**24  # that are held at once when questions are answered


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig(Settings):
    """How many ids there are, reserved ones included, and how wide vectors are."""

    n_tokens: int = setting(2, "ids, reserved ones included", ge=0, derived=True)
    d_model: int = setting(100, "numbers of a vector", ge=1)
    n_reserved: int = setting(2, "the first ids, which are no words", ge=0, derived=True)

    def contradictions(self) -> Iterator[str]:
        """Reserved ids are among all."""
        if self.n_tokens < self.n_reserved:
            yield f"n_reserved is {self.n_reserved}, and there are {self.n_tokens} ids"


class WordVectors(nn.Module):
    """Input and output vectors: inputs begin small and random, outputs at zero; reserved rows stay zero."""

    def __init__(self, config: WordVectorsConfig) -> None:
        super().__init__()
        self.config = config
        begun = (torch.rand(config.n_tokens, config.d_model) - 0.5) / config.d_model
        begun[: config.n_reserved] = 0
        self.input = nn.Parameter(begun)
        self.output = nn.Parameter(torch.zeros(config.n_tokens, config.d_model))

    def forward(self, ids: Tensor) -> Tensor:
        """Scores of all words to stand near each of the ids."""
        return F.embedding(ids, self.input) @ self.output.T

    @property
    def vectors(self) -> Tensor:
        """The vectors of all ids (V, D)."""
        return self.input.detach()

    def unit(self) -> Tensor:
        """The vectors at length one (V, D); those of reserved ids are zero."""
        return F.normalize(self.vectors, dim=1)

    def combine(self, plus: Sequence[int], minus: Sequence[int] = ()) -> Tensor:
        """The unit vectors of some words, less those of others, at length one (D,)."""
        unit = self.unit()
        return F.normalize(unit[list(plus)].sum(0) - unit[list(minus)].sum(0), dim=0)

    def nearest(self, query: Tensor, k: int, *, without: Collection[int] = ()) -> list[tuple[int, float]]:
        """The `k` words nearest to a vector (D,) with their cosines, best first; some may be left out."""
        if query.shape != (self.config.d_model,):
            raise ShapeError(f"a query of shape {tuple(query.shape)}; vectors are ({self.config.d_model},)")
        cosines = self.unit() @ F.normalize(query, dim=0)
        cosines[: self.config.n_reserved] = -torch.inf
        cosines[list(without)] = -torch.inf
        left = int(torch.isfinite(cosines).sum())
        values, ids = cosines.topk(min(k, left))
        return list(zip(ids.tolist(), values.tolist(), strict=True))

    def answer(self, questions: Tensor) -> Tensor:
        """For each row (a, b, c) of (n, 3), the word d for which a is to b as c is to d; never a, b or c (n,)."""
        unit, answers = self.unit(), []
        for rows in questions.split(max(1, _SCORES // len(unit))):
            a, b, c = unit[rows].unbind(1)
            scores = (b - a + c) @ unit.T
            scores[:, : self.config.n_reserved] = -torch.inf
            answers.append(scores.scatter_(1, rows, -torch.inf).argmax(1))
        return torch.cat(answers) if answers else torch.zeros(0, dtype=torch.int64)

    def principal(self, ids: Sequence[int]) -> Tensor:
        """Places (n, 2) of some words in the plane in which their unit vectors differ most."""
        chosen = self.unit()[list(ids)]
        centred = chosen - chosen.mean(0)
        _, _, axes = torch.linalg.svd(centred, full_matrices=False)
        plane = centred @ axes[:2].T
        return F.pad(plane, (0, 2 - plane.shape[1]))  # a single dimension lies on a line


@torch.no_grad()
def start_embedding(weight: Tensor, pieces: Sequence[str], words: Sequence[str], vectors: Tensor) -> int:
    """Fill the rows of an embedding (V, D) whose pieces are words that have vectors (W, D); how many were filled.

    `pieces` are as a tokenizer's `tokens` shows them: ▁ stands for the space before a word. Vectors are brought to the
    spread of the rows that were there, so that a model begins at the scale it was made for.
    """
    if weight.shape[1] != vectors.shape[1]:
        raise ShapeError(
            f"the embedding is {weight.shape[1]} wide and the vectors are {vectors.shape[1]}",
            hint=f"train vectors with model.d_model={weight.shape[1]}",
        )
    rows = {word: row for row, word in enumerate(words)}
    matched = [(i, rows[word]) for i, piece in enumerate(pieces) if (word := _word(piece, rows)) is not None]
    if not matched:
        return 0
    places, chosen = (torch.tensor(column) for column in zip(*matched, strict=True))
    copied = vectors[chosen].to(weight)
    spread = copied.std()
    weight[places] = copied * (weight.std() / spread if spread > 0 else 1.0)
    return len(matched)


def _word(piece: str, rows: dict[str, int]) -> str | None:
    bare = piece.removeprefix("▁")
    return next((word for word in (bare, bare.lower()) if word in rows), None)


ENTRY = Entry(WordVectorsConfig, WordVectors)
