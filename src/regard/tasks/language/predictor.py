"""A language model that goes on with texts.

model = regard.load("runs/shakespeare")
model("ROMEO:", max_length=200)            → Written: text, log_prob, tokens, alternatives
for piece in model.stream("ROMEO:"): …     as it comes
model.log_probs("To be, or not to be")     what it thinks of a text, piece by piece
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.text.documents import Document
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.errors import UsageError
from regard.inspection.forward_case import ForwardCase
from regard.inspection.invariants import Check
from regard.inspection.look import text_case
from regard.metrics.bootstrap import Drawn
from regard.metrics.comparing import Compared, Figures, paired
from regard.models.precision import in_precision
from regard.tasks.base import (
    Evaluation,
    Predictor,
    ScoreData,
    check_texts,
    first_of,
    random_texts,
    refuse_options,
    test_sets,
    tokenizer_of,
    varied,
)
from regard.tasks.language.invariants import measure_continuing
from regard.tasks.language.metrics import TextMeasure, measure_text
from regard.tasks.language.setup import context_of
from regard.tasks.language.writer import Continuation, Writer
from regard.tasks.texts import TextFiles

PASSAGE = 2000  # characters that are compared at once
_LOOKED_AT = 100_000  # of a document, where a few passages are enough


@dataclass(frozen=True)
class Written:
    """How a model went on: the text after the prompt, how sure it was, the pieces, and other ways to go on."""

    prompt: str
    text: str
    score: float = 0.0
    log_prob: float = 0.0
    tokens: list[str] = field(default_factory=list)
    finished: bool = True
    alternatives: list[Written] = field(default_factory=list)

    @classmethod
    def of(cls, prompt: str, several: Sequence[Continuation]) -> Written:
        """The first of several, with the others as its alternatives."""
        made = [cls(prompt, c.text, c.score, c.log_prob, c.tokens, c.finished) for c in several]
        made[0].alternatives.extend(made[1:])
        return made[0]

    def plain(self) -> str:
        """The prompt and how it goes on."""
        return self.prompt + self.text

    def record(self) -> dict[str, Any]:
        """Prompt, text, score and pieces, and those of the alternatives."""
        others = [other._facts() for other in self.alternatives]
        return {"prompt": self.prompt} | self._facts() | {"alternatives": others}

    def _facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("text", "score", "log_prob", "finished", "tokens")}


class LanguagePredictor(Predictor[Written]):
    """A language model with its tokenizer."""

    def __init__(
        self, module: nn.Module, tokenizer: Tokenizer, config: Recipe, *, context: int, precision: str = "auto"
    ) -> None:
        super().__init__(module, config)
        self.tokenizer, self.context = tokenizer, context
        self.writer = self._writer(in_precision(module, precision))

    multiline = True

    @classmethod
    def open(cls, found: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        context = context_of(found, recipe)
        return cls(module, tokenizer_of(found), recipe, context=context, precision=precision)

    def can_stream(self, **options: Any) -> bool:
        """Whether one text is written, token by token."""
        chosen = self.options({name: value for name, value in options.items() if name != "stop"})
        return bool(chosen.strategy != "beam" and chosen.n_samples == 1)

    def predict(
        self,
        texts: Sequence[str],
        *,
        keys: Sequence[int] | None = None,
        stop: Sequence[str] | str = (),
        **options: Any,
    ) -> list[Written]:
        """Go on with each text. `stop` are strings after which it is over, `options` fields of `DecodeOptions`."""
        stops = [stop] if isinstance(stop, str) else list(stop)
        found = self.writer(texts, self.decoding(options), stop=stops, keys=keys)
        return [Written.of(text, several) for text, several in zip(texts, found, strict=True)]

    def stream(self, text: str, *, stop: Sequence[str] | str = (), key: int = 0, **options: Any) -> Iterator[str]:
        """Go on with one text, piece by piece as it comes."""
        check_texts([text])
        stops = [stop] if isinstance(stop, str) else list(stop)
        return self.writer.stream(text, self.decoding(options), stop=stops, key=key)

    def decoding(self, overrides: Mapping[str, Any]) -> DecodeOptions:
        """How to go on; ids beyond the tokenizer's, which some models have to fill up, never come."""
        options: DecodeOptions = self.options(overrides)
        unused = range(len(self.tokenizer), len(self.module.output_weight))  # type: ignore[arg-type]
        return replace(options, banned=(*options.banned, *unused))

    @torch.inference_mode()
    def log_probs(self, text: str) -> list[tuple[str, float]]:
        """The log-probability of each piece of a text, given all before it; of the first, where a mark opens texts."""
        check_texts([text])
        marks = self.writer.marks
        ids = [*(marks.opening or marks.nothing), *self.tokenizer.encode(text)]
        self._check_fits(len(ids) - 1)
        logits = self.module(torch.tensor([ids], device=next(self.module.parameters()).device))[0].float()
        terms = logits[:-1].log_softmax(-1).gather(-1, torch.tensor(ids[1:], device=logits.device)[:, None])[:, 0]
        return list(zip(self.tokenizer.tokens(ids[1:]), terms.tolist(), strict=True))

    def case(self, text: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A text, ready to be looked at."""
        check_texts([text] if target is None else [text, target])
        ids = self.writer.prompt(text + (target or ""))
        self._check_fits(len(ids))
        return text_case(self.module, self.tokenizer, ids, says="next")

    def tests(self, data: ScoreData) -> Mapping[str, Callable[[], Iterable[Document]]]:
        """The texts to score on, by name: of the files given, else of the recipe's test sets, else held out."""
        files = TextFiles(self.config.data, data.root, data.made)
        if data.files:
            return {data.files[0]: files.source(tuple(data.files), what="data").documents}
        found = {name: source.documents for name, source in files.tests.items()}
        held_out = {"valid": files.valid_documents} if self.config.data.train else {}
        return test_sets(found or held_out)

    def evaluate(self, data: ScoreData, *, stride: int | None = None, **options: Any) -> Iterator[Evaluation]:
        """Loss, perplexity and bits per character of each test text."""
        refuse_options(options, "when a text is measured: nothing is decoded")
        for name, documents in self.tests(data).items():
            found = list(documents())
            measure = self._measure(found, stride=stride)
            yield Evaluation(name, sum(not one.more for one in found), "documents", measure.metrics(), [])

    def compare(
        self, other: Any, data: ScoreData, *, resamples: int = 1000, seed: int = 1, **options: Any
    ) -> Iterator[Compared]:
        """Bits per character of both models on the same passages; the loss a token, too, where tokens are the same.

        Documents are cut into passages, each read by itself.
        """
        refuse_options(options, "when a text is measured: nothing is decoded")
        self._check_same_task(other)
        same = self.tokenizer.fingerprint() == other.tokenizer.fingerprint()
        for name, documents in self.tests(data).items():
            texts = [text for document in documents() for text in passages(document.text)]
            texts = [text for text in texts if min(self._pieces(text), other._pieces(text)) > 1]
            systems = (_figures(self, texts, tokens=same), _figures(other, texts, tokens=same))
            found = paired(systems, len(texts), resamples=resamples, seed=seed)
            yield Compared(name, len(texts), "passages", found)

    def verify(self, data: ScoreData, *, n: int = 24) -> Iterator[Check]:
        """What this model promises, measured on passages of a test text, or on random pieces."""
        sets = lambda: {name: _short_passages(documents()) for name, documents in self.tests(data).items()}  # noqa: E731
        name, texts = first_of(sets, n)
        usable = [text for text in varied(texts) if self._pieces(text) > 1]
        if len(usable) < 2:
            name, usable = "random pieces", [t for t in random_texts(self.tokenizer, n) if self._pieces(t) > 1]
        self.say(f"on {len(usable)} passages of {name}")
        return measure_continuing(self.module, self._writer, texts=usable)

    def _writer(self, module: nn.Module) -> Writer:
        model: Any = module
        separated = self.config.data.separated
        return Writer([model], self.tokenizer, context=self.context, separated=separated, say=lambda t: self.say(t))

    def _measure(self, documents: Sequence[Document], *, stride: int | None = None) -> TextMeasure:
        return measure_text(
            self.module,  # type: ignore[arg-type]  # the task's models are language models
            self.tokenizer,
            documents,
            context=self.context,
            stride=stride,
            separated=self.config.data.separated,
        )

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


def _figures(predictor: LanguagePredictor, texts: Sequence[str], *, tokens: bool) -> Figures:
    found = [predictor._measure([Document(text, "")]) for text in texts]
    table = np.array([(one.nll, one.extent.characters, one.n_tokens) for one in found])

    def figures(drawn: Drawn) -> dict[str, float]:
        nll, characters, n_tokens = table[drawn].sum(0)
        bits = {"bits per character": float(nll / np.log(2) / characters)}
        return bits | ({"loss": float(nll / n_tokens)} if tokens else {})

    return figures
