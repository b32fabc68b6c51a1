"""Labelled texts that can be learnt in seconds, and models to learn them."""

from typing import Any

import numpy as np
import torch

from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.models.classifier import Classifier
from regard.models.registry import build
from regard.tasks.labels.training import LabelTraining
from regard.tasks.templates import TextTemplate

BACKBONES: dict[str, dict[str, Any]] = {
    "bert": {"d_model": 16, "n_heads": 2, "d_feedforward": 32, "n_layers": 2, "n_positions": 64,
             "attention_dropout": 0.0, "mlm": False, "nsp": False},
    "gpt": {"d_model": 16, "n_heads": 2, "n_layers": 2, "n_positions": 64},
    "recurrent-encoder": {"d_embedding": 16, "d_hidden": 8},
}  # fmt: skip
HEADS = {
    "bert": {"pooling": "first", "transform": "pooler"},
    "gpt": {"pooling": "last"},
    "recurrent-encoder": {"pooling": "attention", "score": "additive"},
}
WORDS = ["red", "green", "blue", "dog", "cat", "bird", "runs", "sleeps", "sings", "here", "there"]


def sentences(n: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(3, 9))) for _ in range(n)]


def classes(n: int, seed: int = 0) -> list[Example]:
    """Is there a dog in it?"""
    return [
        Example(text, None, "dog" if "dog" in text.split() else "none", i) for i, text in enumerate(sentences(n, seed))
    ]


def pairs(n: int, seed: int = 0) -> list[Example]:
    """Do both begin with the same word?"""
    random = np.random.default_rng(seed)
    found = []
    for i, (first, second) in enumerate(zip(sentences(n, 2 * seed), sentences(n, 2 * seed + 1), strict=True)):
        if random.random() < 0.5:
            second = f"{first.split()[0]} {second}"
        label = "same" if first.split()[0] == second.split()[0] else "other"
        found.append(Example(first, second, label, i))
    return found


def numbers(n: int, seed: int = 0) -> list[Example]:
    """How many words are there, in hundreds?"""
    return [Example(text, None, str(100 * len(text.split())), i) for i, text in enumerate(sentences(n, seed))]


KINDS = {"classes": classes, "pairs": pairs, "numbers": numbers}


def tokenizer() -> Tokenizer:
    return learn_tokenizer([" ".join(WORDS)], "words", size=30)


def make_task(kind: str = "classes", *, n: int = 40, closing: bool = False, **options: Any) -> LabelTraining:
    train, valid = KINDS[kind](n), KINDS[kind](200, seed=1)
    space = LabelSpace.of(train, numbers=kind == "numbers")
    template = TextTemplate(tokenizer(), max_tokens=options.pop("max_tokens", 32), closing=closing)
    return LabelTraining(template, space, train, valid, **{"budget_tokens": 120, "seed": 3} | options)


def make_model(task: LabelTraining, backbone: str = "bert", *, seed: int = 0, **options: Any) -> Classifier:
    torch.manual_seed(seed)
    section = {"name": backbone, "n_tokens": len(task.template.tokenizer), "dropout": 0.0} | BACKBONES[backbone]
    head = {"n_outputs": task.space.n_outputs, "dropout": 0.0} | HEADS[backbone] | options
    model = build("classifier", {"backbone": section} | head)
    assert isinstance(model, Classifier)
    return model
