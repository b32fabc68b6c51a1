"""Languages, a corpus and models that fit in a moment."""

from pathlib import Path
from typing import Any

import torch

from regard.data.synthetic.dates import date_pairs
from regard.data.text.corpus import Corpus
from regard.data.text.pairs import Pair
from regard.data.text.vocabulary import learn_tokenizer
from regard.models.interfaces.text import Seq2SeqModel, offers
from regard.models.registry import build
from regard.tasks.translation.data import Languages, TextSide
from regard.tasks.translation.training import PairTraining

MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"d_model": 16, "n_heads": 2, "d_feedforward": 24, "n_encoder_layers": 2, "n_decoder_layers": 2},
    "recurrent": {"d_embedding": 12, "d_hidden": 12, "n_layers": 2, "input_feeding": True},
}


def some_pairs(n: int, *, split: str = "train") -> list[Pair]:
    return [Pair(source, target, i) for i, (source, target) in enumerate(date_pairs(n, 0, split=split))]


def learn(pairs: list[Pair], *, joint: bool = False) -> Languages:
    """BPE on both sides, with different ids for the same text unless they are joint."""
    source = learn_tokenizer((text for pair in pairs for text in pair[: 2 if joint else 1]), "bpe", size=300)
    target = source if joint else learn_tokenizer((pair.target for pair in pairs), "bpe", size=280)
    return Languages(TextSide(source), TextSide(target))


def make_task(folder: Path, *, n: int = 50, packed: bool = False, **options: Any) -> PairTraining:
    pairs = some_pairs(n)
    languages = learn(pairs)
    corpus = Corpus.build(pairs, languages.source.tokenizer, languages.target.tokenizer, folder / "corpus")
    settings = {"budget_tokens": 150, "seed": 3, "packed": packed} | options
    return PairTraining(languages, corpus, some_pairs(6, split="valid"), **settings)


def make_model(languages: Languages, name: str = "transformer", *, seed: int = 0, **options: Any) -> Seq2SeqModel:
    """In double precision, with weights large enough that what is said depends on what was read."""
    torch.manual_seed(seed)
    sizes = {"n_source": len(languages.source.tokenizer), "n_target": len(languages.target.tokenizer)}
    model = build(name, MODELS[name] | sizes | {"dropout": 0.0, "tied": "none"} | options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    assert offers(model, Seq2SeqModel)
    return model
