"""A text, a tokenizer and a language model that fit in a moment."""

from pathlib import Path
from typing import Any

import torch

from regard.data.text.documents import Document
from regard.data.text.streams import TokenStream
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.models.gpt import GPT, GPTConfig
from regard.tasks.language.training import LanguageTraining

TEXT = "The dog runs.\nThe cat sits, and the dog\truns  on.\n\nWho runs? 😀 The dog!\n" * 6


def documents(*texts: str) -> list[Document]:
    return [Document(text, f"x:{i}") for i, text in enumerate(texts)]


def learn(kind: str = "bpe", **options: Any) -> Tokenizer:
    return learn_tokenizer([TEXT], kind, **{"size": 300, "verbatim": True} | options)


def make_model(tokenizer: Tokenizer, *, seed: int = 0, **options: Any) -> GPT:
    """In double precision, with weights large enough that what is said depends on what was read."""
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 2, "n_positions": 24, "dropout": 0.0, "tied": False}
    model = GPT(GPTConfig(**{"n_tokens": len(tokenizer)} | sizes | options)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    return model


def make_task(folder: Path, tokenizer: Tokenizer, **options: Any) -> LanguageTraining:
    train = TokenStream.build(documents(TEXT, TEXT), tokenizer, folder / "train")
    valid = TokenStream.build(documents(TEXT[:100], TEXT[100:180]), tokenizer, folder / "valid")
    settings: dict[str, Any] = {"context": 12, "budget_tokens": 40, "seed": 3} | options
    return LanguageTraining(tokenizer, train, valid, **settings)
