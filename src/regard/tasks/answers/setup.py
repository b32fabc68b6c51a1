"""Questions on passages to fine-tune a reader on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.config.recipe import Recipe
from regard.config.training import TuningConfig
from regard.metrics.verdict import Baseline
from regard.models.span_reader import SpanReader
from regard.tasks.answers.answerer import Answerer
from regard.tasks.answers.data import AnswerFiles, QuestionSets
from regard.tasks.answers.metrics import answer_figures, score_answers
from regard.tasks.answers.squad import Question
from regard.tasks.answers.training import AnswerTraining
from regard.tasks.answers.windows import Windows
from regard.tasks.measuring import Beside, measure
from regard.tasks.tokenizing import tokenizer_for
from regard.training.setup import RunContext, Say, TaskSetup
from regard.training.warm_start import begin_with_backbone, open_start


class AnswerSetup(TaskSetup):
    """Questions, their passages, and a reader that points at answers."""

    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.files = AnswerFiles(recipe.data, context.data_root)
        self.sets: QuestionSets = self.files.read(say=context.say if context.group.first else lambda _: None)
        start = open_start(recipe, context.data_root)
        self.tokenizer = tokenizer_for(
            recipe, context, start, lambda: (text for q in self.sets.train for text in (q.question, q.context))
        )
        self.model, self.spec = begin_with_backbone(recipe, self.tokenizer, start, context, forced={})
        self.windows = Windows.of(self.tokenizer, self.spec.options, recipe)
        train = recipe.train
        assert isinstance(train, TuningConfig)
        self.task = AnswerTraining(
            self.windows,
            self.sets.train,
            self.sets.valid,
            budget_tokens=train.batch_tokens,
            seed=train.seed,
            batch_examples=train.batch_examples,
            r_drop=train.r_drop,
            ambiguous=recipe.data.ambiguous,
            options=recipe.decode,
        )

    def about(self) -> str:
        """The questions."""
        return f"{len(self.sets.train):,} questions"

    def counts(self) -> dict[str, Any]:
        """How many questions."""
        return {"questions": len(self.sets.train)}

    def measure(self, say: Say) -> dict[str, dict[str, Any]]:
        """Exact match and F1 on the validation questions, and on every test set."""
        assert isinstance(self.model, SpanReader)
        answerer, sets = Answerer(self.model, self.windows), {"valid": self.sets.valid} | self.sets.tests
        hints = [] if "start" in self.recipe.model else ["model.start=FOLDER of a pretrained encoder"]
        beside = Beside("f1", _baselines, hints)
        decode = self.recipe.decode
        return measure(sets, lambda questions: score_answers(answerer, questions, decode), say=say, beside=beside)


def _baselines(name: str, questions: Sequence[Question]) -> list[Baseline]:
    from regard.tasks.answers.baselines import answer_baselines

    unanswerable = not all(question.answers for question in questions)
    return answer_baselines(questions, lambda said: answer_figures(said, questions), unanswerable=unanswerable)
