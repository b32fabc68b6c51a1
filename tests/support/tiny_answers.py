"""Questions that can be learnt in seconds, and a stand-in for a model that knows where to look."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Rows
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.models.registry import build
from regard.models.span_reader import SpanLogits, SpanReader
from regard.tasks.answers.squad import Answer, Question
from regard.tasks.answers.windows import Windows
from regard.tasks.templates import TextTemplate

ANIMALS, COLOURS = ("dog", "cat", "horse", "snow owl"), ("red", "green", "light blue")
FILLERS = ("here", "runs", "under", "some", "trees", ",", "and", "then", "it", "sleeps")


def tokenizer(kind: str = "words") -> Tokenizer:
    words = " ".join((*ANIMALS, *COLOURS, *FILLERS, "which animal colour"))
    return learn_tokenizer([words], kind, size=330)


def questions(n: int, seed: int = 0, *, unanswerable: bool = False, longest: int = 40) -> list[Question]:
    """Which animal, or which colour, is in the context? Some contexts are longer than a window."""
    random = np.random.default_rng(seed)
    found = []
    for i in range(n):
        words = list(random.choice(FILLERS, random.integers(5, longest)))
        kind, choices = (("animal", ANIMALS), ("colour", COLOURS))[i % 2]
        other = str(random.choice((COLOURS, ANIMALS)[i % 2]))  # type: ignore[arg-type]
        answer = str(random.choice(choices))
        hidden = unanswerable and random.random() < 0.4
        for word in (other, *(() if hidden else (answer,))):
            words.insert(int(random.integers(len(words) + 1)), word)
        context = " ".join(words)
        answers = () if hidden else (Answer(answer, context.index(answer)),)
        found.append(Question(str(i), f"which {kind}", context, answers, f"article {i % 5}"))
    return found


def windows(kind: str = "words", *, max_tokens: int = 24, overlap: int = 8, **options: Any) -> Windows:
    return Windows(TextTemplate(tokenizer(kind), max_tokens=max_tokens), overlap=overlap, **options)


def make_model(pieces: Tokenizer, *, seed: int = 0, name: str = "recurrent-encoder") -> SpanReader:
    torch.manual_seed(seed)
    options: dict[str, dict[str, Any]] = {
        "recurrent-encoder": {"d_embedding": 24, "d_hidden": 16, "cell": "gru"},
        "bert": {"d_model": 16, "n_heads": 2, "d_feedforward": 32, "n_layers": 2, "n_positions": 64,
                 "attention_dropout": 0.0, "mlm": False, "nsp": False, "pooler": False},
    }  # fmt: skip
    section = {"name": name, "n_tokens": len(pieces), "dropout": 0.0} | options[name]
    model = build("span-reader", {"backbone": section, "dropout": 0.0})
    assert isinstance(model, SpanReader)
    return model


class Knowing(nn.Module):
    """Scores tokens by their ids: those of `starts` as starts, those of `ends` as ends; [CLS] gets `none`."""

    def __init__(self, *, starts: dict[int, float], ends: dict[int, float], none: float = -9.0) -> None:
        super().__init__()
        self.output = nn.Linear(1, 1)
        self.starts, self.ends, self.none = starts, ends, none

    def forward(self, rows: Rows, *, segments: Tensor | None = None) -> SpanLogits:
        scores = []
        for table in (self.starts, self.ends):
            score = torch.zeros(rows.ids.shape)
            for index, value in table.items():
                score[rows.ids == index] = value
            score[:, 0] = self.none
            scores.append(score)
        return SpanLogits(*scores)
