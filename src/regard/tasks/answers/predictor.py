"""A reader that points at the answer to a question in a passage.

model = regard.load("runs/squad")
model("Who wrote it?\tIt was written by Ada Lovelace in 1843.")     → Answered: text, probability, start, end
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from torch import nn

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.errors import UsageError
from regard.models.precision import in_precision
from regard.models.span_reader import SpanReader
from regard.tasks.answers.answerer import Answered, Answerer
from regard.tasks.answers.config import AnswerOptions
from regard.tasks.answers.data import AnswerFiles
from regard.tasks.answers.metrics import score_answers
from regard.tasks.answers.squad import Question
from regard.tasks.answers.windows import Windows
from regard.tasks.backbones import longest
from regard.tasks.base import Predictor, ScoreData, one_or_many, random_texts, refuse_target, tokenizer_of, varied
from regard.tasks.files import report_sets
from regard.tasks.measuring import Scores
from regard.tasks.templates import Text, measure_texts

if TYPE_CHECKING:
    from regard.inspection.forward_case import ForwardCase
    from regard.inspection.invariants import Check


class AnswerSettings(TypedDict, total=False):
    """The fields of `AnswerOptions`, as a call takes them."""

    n_best: int
    max_answer: int
    no_answer: bool
    threshold: float


class AnswerPredictor(Predictor[str, Answered]):
    """A reader with its tokenizer."""

    parts = ("question", "passage")
    verified_on = ("questions", "questions of random pieces")

    def __init__(self, module: nn.Module, windows: Windows, config: Recipe, *, precision: str = "auto") -> None:
        super().__init__(module, config)
        quick = in_precision(module, precision)
        assert isinstance(quick, SpanReader)
        self.windows, self.answerer = windows, Answerer(quick, windows)

    @classmethod
    def open(cls, pretrained: Pretrained, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        """The predictor of an opened model."""
        windows = Windows.of(tokenizer_of(pretrained), pretrained.options, recipe)
        return cls(module, windows, recipe, precision=precision)

    @classmethod
    def reading(cls, pretrained: Pretrained) -> dict[str, Any]:
        """How long its rows may be."""
        return longest(pretrained)

    def predict(self, inputs: Sequence[str], **options: Unpack[AnswerSettings]) -> list[Answered]:
        """Answer each question, which stands before a tab and its passage; `options` are those of `AnswerOptions`."""
        return self.answerer([_parts(text) for text in inputs], self.options(options))

    __call__ = one_or_many(predict)

    def case(self, input: str, target: str | None = None, **options: Any) -> ForwardCase:
        """A question and its passage, ready to be looked at."""
        from regard.inspection.forward_case import text_case

        refuse_target(target)
        template = self.windows.template
        framed = template([_parts(input)])[0]
        return text_case(self.module, template.tokenizer, framed.ids, segments=framed.segments, says="span")

    def given_examples(self, data: ScoreData) -> Sequence[Question]:
        """The questions of the files given."""
        return AnswerFiles(self.config.data, data.root).questions(data.files)

    def recipe_tests(self, data: ScoreData) -> Mapping[str, Sequence[Question]]:
        """The questions of every test set of the recipe, else those held out."""
        return report_sets(AnswerFiles(self.config.data, data.root))

    def score(self, examples: Sequence[Question], options: AnswerOptions) -> Scores:
        """Exact match and F1 of the answers to a test set."""
        return score_answers(self.answerer, examples, options)

    def sample(self, examples: Sequence[Question], n: int) -> list[Text]:
        """The first questions, every second passage cut in half."""
        passages = varied([question.context for question in examples[:n]])
        return [(question.question, text) for question, text in zip(examples, passages, strict=False)]

    def random_sample(self, n: int) -> list[Text]:
        """Random pieces for questions and passages."""
        sides = [random_texts(self.windows.template.tokenizer, n, seed=seed) for seed in (1, 2)]
        return list(zip(*sides, strict=True))

    def promises(self, sample: list[Text]) -> Iterator[Check]:
        """Batching, fused kernels, saving and padding."""
        limit = self.answerer.model.config.backbone.get("n_positions")
        return measure_texts(self.module, self.windows.template, sample, limit=limit)


def _parts(text: str) -> tuple[str, str]:
    question, tab, passage = text.partition("\t")
    if not tab:
        raise UsageError(
            f"there is no passage to {question[:40]!r}", hint="write the question, a tab, and the passage to look in"
        )
    return question, passage
