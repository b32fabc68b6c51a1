"""A language model that goes on with texts.

model = regard.load("runs/shakespeare")
model("ROMEO:", max_length=200)            → Continuation: text, log_prob, tokens, alternatives
for piece in model.stream("ROMEO:"): …     as it comes
model.log_probs("To be, or not to be")     what it thinks of a text, piece by piece
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import torch
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.text.markers import Markers
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.errors import UsageError
from regard.models.precision import in_precision
from regard.tasks.base import (
    Evaluation,
    Predictor,
    ScoreData,
    TestData,
    check_texts,
    one_or_many,
    random_texts,
    tokenizer_of,
    varied,
)
from regard.tasks.decode_settings import DecodeSettings
from regard.tasks.language.detokenizer import IncrementalDetokenizer
from regard.tasks.language.writer import Continuation, Prompt, StreamEnd, Writer, context_of, never_written
from regard.tasks.measuring import Scores

if TYPE_CHECKING:  # what only measuring, looking and exporting need
    from regard.checkpoints.usage import Usage
    from regard.data.text.documents import Document
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check
    from regard.tasks.language.metrics import Passages
    from regard.tasks.texts import Documents, TextFiles

PASSAGE = 2000  # characters that are compared at once
_LOOKED_AT = 100_000  # of a document, where a few passages are enough


class LanguagePredictor(Predictor[Prompt, Continuation]):
    """A language model with its tokenizer."""

    multiline = True
    undecoded = "when a text is measured: nothing is decoded"
    verified_on = ("passages", "passages of random pieces")

    def __init__(
        self, module: nn.Module, tokenizer: Tokenizer, config: Recipe, *, context: int, precision: str = "auto"
    ) -> None:
        super().__init__(module, config)
        self.tokenizer, self.context, self.model = tokenizer, context, cast(Any, module)
        self._reading: Any = {"context": context, "separated": config.data.separated}
        self.writer = self._writer(in_precision(module, precision))

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        context = context_of(pretrained, recipe)
        return cls(module, tokenizer_of(pretrained), recipe, context=context, precision=precision)

    @classmethod
    def usage(cls, pretrained: Pretrained, recipe: Recipe) -> Usage:
        """With the marks before a prompt, and without pieces that mean nothing to a model of text."""
        tokenizer, usual = tokenizer_of(pretrained), super().usage(pretrained, recipe)
        marks = Markers.of(tokenizer, separated=recipe.data.separated)
        unused = range(len(tokenizer), int(pretrained.options["n_tokens"]))
        banned = {*usual.banned, *never_written(tokenizer, marks), *unused}
        return replace(usual, opening=marks.opening, banned=tuple(sorted(banned)), ends=marks.end is not None)

    def can_stream(self, **options: Any) -> bool:
        """Whether one text is written, token by token."""
        chosen = self.options({name: value for name, value in options.items() if name != "stop"})
        return bool(chosen.strategy != "beam" and chosen.n_samples == 1)

    def with_models(self, wrap: Callable[[Any], Any]) -> Self:
        """The same, writing with what `wrap` makes of its models."""
        other = copy(self)
        other.writer = copy(self.writer)
        other.writer.models = [wrap(model) for model in self.writer.models]
        return other

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Inputs are texts, or lists of ids, start marks included."""
        for number, one in enumerate(inputs):
            if not isinstance(one, list):
                check_texts([*[""] * number, one])  # which counts them
            elif not one or not all(type(index) is int and 0 <= index < len(self.tokenizer) for index in one):
                raise UsageError(
                    f"input {number} is a list; allowed are texts, and lists of ids from 0 to {len(self.tokenizer) - 1}"
                )

    def predict(
        self,
        inputs: Sequence[Prompt],
        *,
        stop: Sequence[str] | str = (),
        **options: Unpack[DecodeSettings],
    ) -> list[Continuation]:
        """Go on with each text, or its ids.

        `stop` are strings after which it is over, `options` fields of `DecodeOptions`.
        """
        written = self.writer(inputs, self.decoding(options), stop=_listed(stop))
        texts = [one if isinstance(one, str) else self.tokenizer.decode(one) for one in inputs]
        pairs = zip(texts, written, strict=True)
        return [Continuation.of(best_first, prompt=text) for text, best_first in pairs]

    __call__ = one_or_many(predict)

    def stream(
        self, text: Prompt, *, stop: Sequence[str] | str = (), **options: Unpack[DecodeSettings]
    ) -> Generator[str, None, StreamEnd]:
        """Go on with one text, piece by piece as it comes."""
        self.check_inputs([text])
        return self.writer.stream(text, self.decoding(options), stop=_listed(stop))

    def stream_ids(
        self, text: Prompt, *, stop: Sequence[str] | str = (), **options: Unpack[DecodeSettings]
    ) -> Generator[list[int], None, StreamEnd]:
        """The tokens of what `stream` says, for `detokenizer` to spell elsewhere."""
        self.check_inputs([text])
        return self.writer.stream_ids(text, self.decoding(options), stop=_listed(stop))

    def detokenizer(
        self, text: Prompt, *, stop: Sequence[str] | str = (), **options: Unpack[DecodeSettings]
    ) -> IncrementalDetokenizer:
        """What spells the tokens of `stream_ids` as they come."""
        self.check_inputs([text])
        return self.writer.detokenizer(text, self.decoding(options), stop=_listed(stop))

    def decoding(self, overrides: Mapping[str, Any]) -> DecodeOptions:
        """How to go on; ids beyond the tokenizer's, which some models have to fill up, never come."""
        options: DecodeOptions = self.options(overrides)
        unused = range(len(self.tokenizer), len(self.module.output_weight))  # type: ignore[arg-type]
        return options.varied(banned=(*options.banned, *unused)) if unused else options

    @torch.inference_mode()
    def log_probs(self, text: str) -> list[tuple[str, float]]:
        """The log-probability of each piece of a text, given all before it; of the first, where a mark opens texts."""
        check_texts([text])
        marks = self.writer.marks
        ids = [*(marks.opening or marks.nothing), *self.tokenizer.encode(text)]
        self._check_fits(len(ids) - 1)
        logits = self.module(torch.tensor([ids], device=self.device))[0].float()
        terms = logits[:-1].log_softmax(-1).gather(-1, torch.tensor(ids[1:], device=logits.device)[:, None])[:, 0]
        return list(zip(self.tokenizer.tokens(ids[1:]), terms.tolist(), strict=True))

    def case(self, input: Prompt, target: str | None = None, **options: Any) -> ForwardCase:
        """A text, ready to be looked at."""
        from regard.inspection.forward_case import text_case

        text = input if isinstance(input, str) else self.tokenizer.decode(input)
        check_texts([text] if target is None else [text, target])
        ids = self.writer.prompt(text + (target or ""))
        self._check_fits(len(ids))
        return text_case(self.module, self.tokenizer, ids, says="next")

    def evaluate(
        self, data: TestData = None, *, data_root: Path | str | None = None, stride: int | None = None, **options: Any
    ) -> list[Evaluation]:
        """Loss, perplexity and bits per character of each test text; `stride` is by how much the window moves."""
        self.scoring_options(options)
        return self.evaluations(self.score_data(data, data_root), lambda documents: self._score(documents, stride))

    def given_examples(self, data: ScoreData) -> Documents:
        """The documents of the files given."""
        return self._files(data).source(tuple(data.files), what="data").documents

    def recipe_tests(self, data: ScoreData) -> Mapping[str, Documents]:
        """The documents of the recipe's test sets, else those held out."""
        return self._files(data).test_documents()

    def score(self, examples: Documents, options: DecodeOptions) -> Scores:
        """How well the model expects documents."""
        return self._score(examples, None)

    def shared(self, other: Self, name: str, examples: Documents, data: ScoreData) -> tuple[Passages, Passages]:
        """Passages of the documents that both can read; tokens are compared, too, where they are the same."""
        from regard.tasks.language.metrics import Passages

        texts = [text for document in examples() for text in passages(document.text)]
        texts = [text for text in texts if min(self._pieces(text), other._pieces(text)) > 1]
        both = Passages(texts, self.tokenizer.fingerprint() == other.tokenizer.fingerprint())
        return both, both

    def score_compared(self, examples: Passages, options: DecodeOptions) -> Scores:
        """Bits per character of passages, each read by itself; the loss a token, too, where tokens are the same."""
        from regard.tasks.language.metrics import score_passages

        return score_passages(examples, self.model, self.tokenizer, **self._reading)

    def sample(self, examples: Documents, n: int) -> list[str]:
        """Short passages of the documents."""
        return self._readable(varied(list(islice(_short_passages(examples()), n))))

    def random_sample(self, n: int) -> list[str]:
        """Random pieces."""
        return self._readable(random_texts(self.tokenizer, n))

    def promises(self, sample: list[str]) -> Iterator[Check]:
        """Batching, caching, fused kernels, saving and padding."""
        from regard.tasks.language.invariants import measure_continuing

        return measure_continuing(self.module, self._writer, texts=sample)

    def _writer(self, module: nn.Module) -> Writer:
        return Writer([cast(Any, module)], self.tokenizer, say=lambda text: self.say(text), **self._reading)

    def _files(self, data: ScoreData) -> TextFiles:
        from regard.tasks.texts import TextFiles

        return TextFiles(self.config.data, data.root, data.made)

    def _score(self, documents: Documents, stride: int | None) -> Scores:
        from regard.tasks.language.metrics import score_documents

        return score_documents(documents, self.model, self.tokenizer, stride=stride, **self._reading)

    def _readable(self, texts: Iterable[str]) -> list[str]:
        return [text for text in texts if self._pieces(text) > 1]

    def _pieces(self, text: str) -> int:
        return len(self.writer.marks.opening) + len(self.tokenizer.encode(text))

    def _check_fits(self, n: int) -> None:
        if n > self.context:
            raise UsageError(
                f"the text has {n:,} tokens and the model reads {self.context:,} at once", hint="give a shorter text"
            )


def passages(text: str, *, longest: int = PASSAGE) -> Iterator[str]:
    """A text in pieces of at most `longest` characters, cut at the last line end, else at the last space."""
    while text.strip():
        if len(text) <= longest:
            yield text
            return
        ends = (text.rfind(mark, longest // 2, longest) for mark in ("\n", " "))
        end = next((place for place in ends if place >= 0), longest - 1) + 1
        if text[:end].strip():
            yield text[:end]
        text = text[end:]


def _short_passages(documents: Iterable[Document]) -> Iterator[str]:
    return (text for document in documents for text in passages(document.text[:_LOOKED_AT], longest=200))


def _listed(stop: Sequence[str] | str) -> list[str]:
    return [stop] if isinstance(stop, str) else list(stop)
