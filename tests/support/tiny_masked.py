"""A toy language that is all rule: in each document one creature does everything, in a fixed order."""

from pathlib import Path
from typing import Any

import torch

from regard.data.text.documents import Document
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.models.bert import Bert, BertConfig
from regard.tasks.masked.config import MaskedData
from regard.tasks.masked.sentences import SentenceCorpus
from regard.tasks.masked.training import MaskedTraining

WHO = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
DOES = ["eats", "sees", "hears", "finds", "takes", "leaves"]


def document(creature: int, first: int, *, n: int = 6) -> str:
    """Sentences that tell who it is about twice, and what comes next for sure."""
    name = WHO[creature % len(WHO)]
    return " ".join(f"{name} {DOES[(first + i) % len(DOES)]} {name} ." for i in range(n))


def documents(n: int, *, seed: int = 0) -> list[Document]:
    return [Document(document(i + seed, i // len(WHO) + seed), f"toy:{i}") for i in range(n)]


def toy_tokenizer() -> Tokenizer:
    return learn_tokenizer([d.text for d in documents(60)], "words", size=60, mask=True)


def toy_corpus(folder: Path, tokenizer: Tokenizer, *, n: int = 48, seed: int = 0) -> SentenceCorpus:
    return SentenceCorpus.build(documents(n, seed=seed), tokenizer, folder)


def make_task(folder: Path, *, n: int = 48, packed: bool = False, seed: int = 3, **options: Any) -> MaskedTraining:
    tokenizer = toy_tokenizer()
    train, valid = (toy_corpus(folder / str(i), tokenizer, n=k, seed=i) for i, k in enumerate((n, 24)))
    settings = {"length": 20} | options
    budget = settings.pop("budget_tokens", 100)
    return MaskedTraining(
        tokenizer, train, valid, data=MaskedData(**settings), budget_tokens=budget, seed=seed, packed=packed
    )


def make_model(tokenizer: Tokenizer, *, seed: int = 0, spread: float = 3.0, **options: Any) -> Bert:
    """In double precision, with weights large enough that what is said depends on what was read."""
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "n_heads": 2, "d_feedforward": 32, "n_layers": 2, "n_positions": 64}
    quiet = {"dropout": 0.0, "attention_dropout": 0.0}
    model = Bert(BertConfig(**({"n_tokens": len(tokenizer)} | sizes | quiet | options))).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.mul_(spread)
        if model.output_bias is not None:
            model.output_bias.normal_()
    return model
