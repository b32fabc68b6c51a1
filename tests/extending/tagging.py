"""A task from outside the package: every word of a sentence gets a tag. A BERT reads the words, and tags are words too.

[data]  train = ["sentences.tsv"]          a line each: words, a tab, as many tags
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Rows
from regard.config.recipe import Recipe
from regard.config.training import TuningConfig
from regard.data.batching.plan import example_plan, pad
from regard.data.batching.tensors import TensorBatch
from regard.data.io.lines import hash_file, read_lines
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.metrics.cross_entropy import Losses
from regard.metrics.scores import Metric
from regard.tasks.base import Predictor, ScoreData, one_or_many, random_texts, refuse_target, tokenizer_of
from regard.tasks.files import DataFiles
from regard.tasks.measuring import Scores, measure
from regard.tasks.registry import NoOptions, TaskSpec, register_task
from regard.tasks.use import Use
from regard.training.batching import BatchPlanMixin
from regard.training.setup import RunContext, TaskSetup
from regard.training.warm_start import begin_text_model

Sentence = tuple[list[str], list[str]]


@dataclass(frozen=True, kw_only=True)
class TagData:
    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TagPieces:
    size: int = 1000


@dataclass(frozen=True)
class Tagged:
    words: list[str]
    tags: list[str]

    def plain(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))

    def record(self) -> dict[str, Any]:
        return {"words": self.words, "tags": self.tags}


class TagFiles(DataFiles[TagData]):
    def read(self, names: Sequence[str], what: str) -> list[Sentence]:
        lines = [line.split("\t") for name in self.find(names, what=what) for line in read_lines(name)]
        return [(words.split(), tags.split()) for words, tags in lines]

    def fingerprints(self) -> dict[str, str]:
        return {name: hash_file(self.find(files, what=name)[0]) for name, files in self.sets().items()}


@dataclass(frozen=True)
class TagBatch(TensorBatch):
    ids: Tensor
    lengths: Tensor
    tags: Tensor  # -1 behind the end
    n_tokens: int


@torch.inference_mode()
def tag(model: nn.Module, tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    ids, lengths = pad(tokenizer.encode_batch([" ".join(words) for words in sentences]), tokenizer.pad_id)
    device = next(model.parameters()).device
    best = model(Rows(ids.to(device), lengths.to(device))).argmax(-1).cpu()
    return [[tokenizer.decode([i]) for i in row[:n]] for row, n in zip(best.tolist(), lengths.tolist(), strict=True)]


def score(model: nn.Module, tokenizer: Tokenizer, examples: Sequence[Sentence]) -> Scores:
    found = tag(model, tokenizer, [words for words, _ in examples])
    right = np.array([float(tags == ours) for (_, tags), ours in zip(examples, found, strict=True)])

    def metrics() -> dict[str, Metric]:
        return {"accuracy": Metric("accuracy", float(right.mean()), "whole sentences", digits=4)}

    outputs = [" ".join(tags) for tags in found]
    return Scores(len(examples), "sentences", metrics, lambda drawn: {"accuracy": float(right[drawn].mean())}, outputs)


class TagTraining(BatchPlanMixin):
    objective = "accuracy"

    def __init__(
        self, tokenizer: Tokenizer, train: list[Sentence], valid: list[Sentence], config: TuningConfig
    ) -> None:
        self.tokenizer, self.valid = tokenizer, valid
        self.rows = [tokenizer.encode_batch([" ".join(words), " ".join(tags)]) for words, tags in train]
        lengths = np.array([len(words) for words, _ in self.rows])
        self.plan = example_plan(lengths, budget_tokens=config.batch_tokens, seed=config.seed)

    def batch(self, examples: Sequence[int]) -> TagBatch:
        ids, lengths = pad([self.rows[i][0] for i in examples], self.tokenizer.pad_id)
        tags, _ = pad([self.rows[i][1] for i in examples], -1)
        return TagBatch(ids, lengths, tags, int(lengths.sum()))

    def loss(self, model: nn.Module, batch: TagBatch) -> Losses:
        logits = model(Rows(batch.ids, batch.lengths)).float().flatten(0, 1)
        total = F.cross_entropy(logits, batch.tags.flatten(), ignore_index=-1, reduction="sum")
        return Losses(total, total.detach(), (batch.tags >= 0).sum())

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"accuracy": score(model, self.tokenizer, self.valid).metrics()["accuracy"].value}

    def samples(self, model: nn.Module, n: int) -> list[tuple[str, str, str]]:
        found = tag(model, self.tokenizer, [words for words, _ in self.valid[:n]])
        return [(" ".join(w), " ".join(t), " ".join(f)) for (w, t), f in zip(self.valid, found, strict=False)]


class TagSetup(TaskSetup):
    def __init__(self, recipe: Recipe, context: RunContext) -> None:
        super().__init__(recipe)
        self.files = TagFiles(recipe.data, context.data_root, context.data)
        self.sentences = {name: self.files.read(names, name) for name, names in self.files.sets().items()}
        texts = (" ".join(words + tags) for words, tags in self.sentences["train"])
        self.tokenizer = learn_tokenizer(texts, "words", size=recipe.tokenizer.size)
        context.keep(self.tokenizer.save)
        self.model, self.spec = begin_text_model(recipe, self.tokenizer, None, context, forced={"nsp": False})
        self.task = TagTraining(self.tokenizer, self.sentences["train"], self.sentences["valid"], recipe.train)

    def about(self) -> str:
        return f"{len(self.sentences['train']):,} sentences"

    def counts(self) -> dict[str, Any]:
        return {"sentences": len(self.sentences["train"])}

    def measure(self, say: Any) -> dict[str, dict[str, Any]]:
        return measure({"valid": self.sentences["valid"]}, lambda s: score(self.model, self.tokenizer, s), say=say)


class TagPredictor(Predictor[str, Tagged]):
    undecoded = "to a tagger: every word gets its best tag"

    def __init__(self, module: nn.Module, tokenizer: Tokenizer, config: Recipe) -> None:
        super().__init__(module, config)
        self.tokenizer = tokenizer

    @classmethod
    def open(cls, pretrained: Any, recipe: Recipe, module: nn.Module, *, precision: str) -> Self:
        return cls(module, tokenizer_of(pretrained), recipe)

    def predict(self, inputs: Sequence[str]) -> list[Tagged]:
        words = [text.split() for text in inputs]
        return [Tagged(w, t) for w, t in zip(words, tag(self.module, self.tokenizer, words), strict=True)]

    __call__ = one_or_many(predict)

    def case(self, input: str, target: str | None = None, **options: Any) -> Any:
        from regard.inspection.forward_case import text_case

        refuse_target(target)
        return text_case(self.module, self.tokenizer, self.tokenizer.encode(input))

    def given_examples(self, data: ScoreData) -> list[Sentence]:
        return TagFiles(self.config.data, data.root, data.made).read(data.files, "data")

    def recipe_tests(self, data: ScoreData) -> Mapping[str, list[Sentence]]:
        files = TagFiles(self.config.data, data.root, data.made)
        return {"valid": files.read(self.config.data.valid, "valid")}

    def score(self, examples: list[Sentence], options: NoOptions) -> Scores:
        return score(self.module, self.tokenizer, examples)

    def sample(self, examples: list[Sentence], n: int) -> list[str]:
        return [" ".join(words) for words, _ in examples[:n]]

    def random_sample(self, n: int) -> list[str]:
        return random_texts(self.tokenizer, n)

    def promises(self, sample: list[str]) -> Iterator[Any]:
        from regard.inspection.invariants import Given, Trial, measure_alone, measure_reading

        ids, lengths = pad(self.tokenizer.encode_batch(sample), self.tokenizer.pad_id)
        trial = Trial(self.module, Given((Rows(ids, lengths),)), limit=self.config.model.get("n_positions", 64))
        yield measure_alone(trial)
        yield from measure_reading(trial)


def add() -> None:
    sections = {"data": TagData, "tokenizer": TagPieces, "decode": NoOptions, "train": TuningConfig}
    parts = {"setup": TagSetup, "predictor": TagPredictor, "use": Use("says what kind of word each word is")}
    register_task(TaskSpec(name="tagging", models=("bert",), size="tiny", **sections, **parts))
