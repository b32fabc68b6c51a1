"""A language model that goes on with texts.

model = regard.load("runs/shakespeare")
model("ROMEO:", max_length=200)            → Written: text, log_prob, tokens, alternatives
for piece in model.stream("ROMEO:"): …     as it comes
model.log_probs("To be, or not to be")     what it thinks of a text, piece by piece
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.data import Tokenizer
from regard.inspection.look import Look, look_at_text
from regard.predictors.base import Evaluation, Predictor, TestData, check_texts, test_sets
from regard.predictors.precision import in_precision
from regard.tasks.perplexity import measure_text
from regard.tasks.texts import TextFiles
from regard.tasks.writing import Continuation, Writer
from regard.training.recipe import Recipe


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
        self,
        module: nn.Module,
        tokenizer: Tokenizer,
        config: Recipe,
        *,
        context: int,
        precision: str = "auto",
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(module, config)
        self.tokenizer, self.context = tokenizer, context
        quick: Any = in_precision(module, precision)
        self.writer = Writer([quick], tokenizer, context=context, separated=config.data.separated, say=say)

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
        found = self.writer(texts, self.options(options), stop=stops, keys=keys)
        return [Written.of(text, several) for text, several in zip(texts, found, strict=True)]

    def stream(self, text: str, *, stop: Sequence[str] | str = (), key: int = 0, **options: Any) -> Iterator[str]:
        """Go on with one text, piece by piece as it comes."""
        check_texts([text])
        stops = [stop] if isinstance(stop, str) else list(stop)
        return self.writer.stream(text, self.options(options), stop=stops, key=key)

    @torch.inference_mode()
    def log_probs(self, text: str) -> list[tuple[str, float]]:
        """The log-probability of each piece of a text, given all before it; of the first, where a mark opens texts."""
        check_texts([text])
        marks = self.writer.marks
        ids = [*(marks.opening or marks.nothing), *self.tokenizer.encode(text)]
        logits = self.module(torch.tensor([ids], device=next(self.module.parameters()).device))[0].float()
        terms = logits[:-1].log_softmax(-1).gather(-1, torch.tensor(ids[1:], device=logits.device)[:, None])[:, 0]
        return list(zip(self.tokenizer.tokens(ids[1:]), terms.tolist(), strict=True))

    def look(self, text: str, **options: Any) -> Look:
        """Where each piece of a text looked."""
        check_texts([text])
        return look_at_text(self.module, self.tokenizer, self.writer.prompt(text))

    def evaluate(self, data: TestData, *, stride: int | None = None, **options: Any) -> Iterator[Evaluation]:
        """Loss, perplexity and bits per character of each test text."""
        files = TextFiles(self.config.data, data.root, data.made)
        given = {"data": files.source(tuple(data.files), what="data")} if data.files else None
        found = given or files.tests or ({"valid": files.valid} if files.valid is not None else {})
        for name, source in test_sets(found).items():
            documents = list(source.documents())
            measure = measure_text(
                self.module,  # type: ignore[arg-type]  # the task's models are language models
                self.tokenizer,
                documents,
                context=self.context,
                stride=stride,
                separated=self.config.data.separated,
            )
            label = data.files[0] if data.files else name
            n = sum(not document.more for document in documents)
            yield Evaluation(label, n, "documents", measure.metrics(), [])
