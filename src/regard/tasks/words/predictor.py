"""Word vectors: which words are alike, and what is to one as another is to a third.

model = regard.load("runs/words")
model("king")                        → Neighbours: the nearest words with their cosines
model("king - man + woman")          → the nearest to a sum; the words of the question are left out
model.vector("king")                 → (D,)
model.map(["king", "queen", …])      → places in a plane (n, 2)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, Unpack

import torch
from torch import Tensor, nn

from regard.checkpoints.spec import Pretrained
from regard.checkpoints.weights import read_tensors, weights_of, write_tensors
from regard.config.recipe import Recipe
from regard.data.io.paths import find_data
from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError
from regard.models.word_vectors import WordVectors
from regard.tasks.base import Predictor, ScoreData, check_texts, one_or_many, tokenizer_of
from regard.tasks.decode_settings import GuessSettings
from regard.tasks.measuring import Scores
from regard.tasks.registry import GuessOptions
from regard.tasks.words.data import WordTest, known, read_test, score_words, word_tests

if TYPE_CHECKING:
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check

_NEAR = 50_000  # of the commonest words, those among which a mistyped one is looked for


@dataclass(frozen=True)
class Neighbours:
    """The words nearest to a query, with their cosines, best first."""

    query: str
    words: list[str] = field(default_factory=list)
    cosines: list[float] = field(default_factory=list)

    def plain(self) -> str:
        """Words and cosines in one line."""
        return "  ".join(f"{word} {cosine:.3f}" for word, cosine in zip(self.words, self.cosines, strict=True))

    def record(self) -> dict[str, Any]:
        """The query and its neighbours."""
        near = [{"word": word, "cosine": cosine} for word, cosine in zip(self.words, self.cosines, strict=True)]
        return {"query": self.query, "neighbours": near}


class WordsPredictor(Predictor[str, Neighbours]):
    """Word vectors with their words."""

    undecoded = "when vectors are measured"

    def __init__(self, module: nn.Module, tokenizer: Tokenizer, config: Recipe) -> None:
        super().__init__(module, config)
        assert isinstance(module, WordVectors)
        self.vectors, self.tokenizer = module, tokenizer
        first = module.config.n_reserved
        vocabulary = tokenizer.core.get_vocab()
        self.words = tuple(sorted(vocabulary, key=vocabulary.__getitem__))[first:]
        self.ids: Mapping[str, int] = {word: first + i for i, word in enumerate(self.words)}

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        return cls(module, tokenizer_of(pretrained), recipe)

    def predict(self, inputs: Sequence[str], **options: Unpack[GuessSettings]) -> list[Neighbours]:
        """The `k` nearest words of each query: a word, or words with + and - between them."""
        k = self.options(options).k
        return [self._near(text, k) for text in inputs]

    __call__ = one_or_many(predict)

    def vector(self, word: str) -> Tensor:
        """The vector of a word (D,)."""
        return self.vectors.vectors[self._id(word)]

    def cosine(self, one: str, other: str) -> float:
        """How alike two words are, from -1 to 1."""
        unit = self.vectors.unit()
        return float(unit[self._id(one)] @ unit[self._id(other)])

    def map(self, words: Sequence[str]) -> Tensor:
        """Places of words in the plane in which they differ most (n, 2); `inspection.plots_words` draws them."""
        check_texts(words)
        if not words:
            raise UsageError("no words were given", hint="name those that the map should show")
        return self.vectors.principal([self._id(word) for word in words])

    def case(self, input: str, target: str | None = None, **options: Any) -> ForwardCase:
        """Word vectors attend to nothing: this is an error that says so."""
        raise UsageError(
            "word vectors look at nothing: each word has one vector, whatever stands around it",
            hint="ask for its neighbours: regard predict RUN WORD",
        )

    def test_sets(self, data: ScoreData) -> Mapping[str, WordTest]:
        """The questions and pairs to score on, by name; of files given, each is a set of its own."""
        return self.given_examples(data) if data.files else super().test_sets(data)

    def given_examples(self, data: ScoreData) -> Mapping[str, WordTest]:
        """The questions and pairs of each file."""
        return {file: read_test(find_data(file, data.root)) for file in data.files}

    def recipe_tests(self, data: ScoreData) -> Mapping[str, WordTest]:
        """The questions and pairs of the recipe."""
        return word_tests(self.config.data, data.root)

    @torch.inference_mode()
    def score(self, examples: WordTest, options: GuessOptions) -> Scores:
        """Accuracy on analogies, or rank correlation with people's judgements, and how much was known."""
        return score_words(self.vectors, self.ids, examples, lowercase=self.config.tokenizer.lowercase)

    def shared(self, other: Self, name: str, examples: WordTest, data: ScoreData) -> tuple[WordTest, WordTest]:
        """What both are asked; for that they need to know the same."""
        lowercase = (p.config.tokenizer.lowercase for p in (self, other))
        mine, yours = (known(examples, p.ids, lowercase=each) for p, each in zip((self, other), lowercase, strict=True))
        if mine != yours:
            raise UsageError(
                f"{name}: of {len(examples.words):,} the models know {len(mine):,} and {len(yours):,}, so they are not "
                "asked the same",
                hint="train both on the same text with the same data.min_count",
            )
        return examples, examples

    def checks(self, data: ScoreData, *, n: int) -> Iterator[Check]:
        """What is written to disk and read back is the same; a word asked alone comes out as among others."""
        words = self.random_sample(n)
        self.say(f"on the {len(words)} commonest words")
        yield from self.promises(words)

    def sample(self, examples: WordTest, n: int) -> list[str]:
        """The commonest words, whatever is tested."""
        return self.random_sample(n)

    def random_sample(self, n: int) -> list[str]:
        """The commonest words."""
        return list(self.words[:n])

    def promises(self, sample: list[str]) -> Iterator[Check]:
        """Saving and batching."""
        from regard.inspection.invariants import Check

        with TemporaryDirectory() as folder:
            write_tensors(Path(folder) / "saved.safetensors", weights_of(self.vectors))
            back = read_tensors(Path(folder) / "saved.safetensors")["input"]
        gap = float((back - self.vectors.vectors.cpu()).abs().max())
        yield Check("saved and read back", gap, 0.0)
        among, alone = self.predict(sample), [self.predict([word])[0] for word in sample]
        yield Check("alone as among others", 0.0, 0.0, sum(a != b for a, b in zip(among, alone, strict=True)))

    def _near(self, text: str, k: int) -> Neighbours:
        plus, minus = self._asked(text)
        nearest = self.vectors.nearest(self.vectors.combine(plus, minus), k, without={*plus, *minus})
        first = self.vectors.config.n_reserved
        return Neighbours(text, [self.words[i - first] for i, _ in nearest], [cosine for _, cosine in nearest])

    def _asked(self, text: str) -> tuple[list[int], list[int]]:
        """The ids that a query adds up, and those that it takes away; a hyphen inside a word is part of it."""
        asked: tuple[list[int], list[int]] = ([], [])
        sign = "+"
        for part in re.sub(r"(^|\s)([+\-−])(?=\S)", r"\1\2 ", text).split():
            if part in ("+", "-", "−"):
                sign = part
                continue
            asked[sign != "+"].append(self._id(part))
            sign = "+"
        if not any(asked):
            raise UsageError(f"{text!r} names no word", hint='ask for one, or for a sum: "king - man + woman"')
        return asked

    def _id(self, word: str) -> int:
        spelled = word.lower() if self.config.tokenizer.lowercase else word
        if spelled in self.ids:
            return self.ids[spelled]
        near = get_close_matches(spelled, self.words[:_NEAR], n=3)
        raise UsageError(
            f"{word!r} is not among the {len(self.words):,} words that have a vector",
            hint=f"did you mean {', '.join(near)}?" if near else "it was rare in the training text, or not there",
        )
