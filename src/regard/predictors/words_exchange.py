"""Word vectors from and to others: word2vec's files, runs of ours, and the embeddings of text models.

export_vectors("runs/words", "words.vec")                       what gensim and word2vec open; binary=True for .bin
import_vectors("GoogleNews.bin", Path("runs/news"))             a run for `predict` and `evaluate`
start_from_vectors(model, tokenizer, "runs/words")              the embedding of a text model begins at the vectors
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from regard.checkpoints import Described, RunFolder, open_run, weights_of
from regard.checkpoints.foreign.word2vec import NamedVectors, read_word2vec, write_word2vec
from regard.data import Tokenizer
from regard.data.skipgrams import RESERVED, word_tokenizer
from regard.errors import CheckpointError, UsageError
from regard.models.account import count_parameters
from regard.models.word_vectors import WordVectors, WordVectorsConfig, start_embedding
from regard.training.provenance import versions
from regard.training.recipe import make_recipe

TASK, MODEL = "words", "word-vectors"


def export_vectors(run: Path | str, out: Path | str, *, binary: bool = False) -> int:
    """Write the vectors of a run as word2vec does; how many there are."""
    if Path(out).exists():
        raise UsageError(f"{out}: there is something already", hint="give another --out")
    named = vectors_of(run)
    write_word2vec(out, named, binary=binary)
    return len(named.words)


def import_vectors(path: Path | str, out: Path) -> int:
    """Write a run folder for vectors that others trained; how many there are. They have no output vectors."""
    run = RunFolder(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: there is something already", hint="give another --out")
    named = read_word2vec(path)
    kept = [i for i, word in enumerate(named.words) if word not in RESERVED]
    words, vectors = [named.words[i] for i in kept], named.vectors[kept]
    lowercase = not any(word != word.lower() for word in words)
    tokenizer = word_tokenizer(words, "spaces", lowercase=lowercase)
    config = WordVectorsConfig(n_tokens=len(tokenizer), d_model=vectors.shape[1], n_reserved=len(RESERVED))
    model = WordVectors(config)
    with torch.no_grad():
        model.input[len(RESERVED) :] = vectors
    options = {"n_tokens": config.n_tokens, "d_model": config.d_model, "n_reserved": config.n_reserved}
    recipe = make_recipe(
        {"task": TASK, "model": {"name": MODEL} | options, "tokenizer": {"kind": "spaces", "lowercase": lowercase}}
    )
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(out / "tokenizer.json")
    run.write_model(Described(TASK, MODEL, options))
    run.write_weights(weights_of(model))
    run.write_facts({"task": TASK, "origin": str(path), "parameters": count_parameters(model), "versions": versions()})
    run.write_config(recipe.resolved())
    return len(words)


def vectors_of(path: Path | str) -> NamedVectors:
    """Words and their vectors: of a run for words, or of a file in word2vec's formats or GloVe's."""
    run = RunFolder(path)
    if not run.exists():
        return read_word2vec(path)
    found = open_run(run)
    if found.model != MODEL or found.tokenizer is None:
        raise CheckpointError(
            f"{run.path}: a model for {found.task}; vectors of words come from a run for {TASK}",
            hint="train one: regard train words --train TEXT --out RUN",
        )
    names = sorted(found.tokenizer.core.get_vocab().items(), key=lambda item: item[1])
    first = int(found.options["n_reserved"])
    return NamedVectors(tuple(word for word, _ in names[first:]), found.tensors["input"][first:])


def start_from_vectors(model: nn.Module, tokenizer: Tokenizer, path: Path | str) -> int:
    """Let the embedding of a text model begin at the vectors of its pieces that are words; how many were found.

    `model` is any with an `embedding`: a GPT, a BERT, a recurrent one, or what stands on one of them.
    """
    below = getattr(model, "backbone", model)
    weight = getattr(getattr(below, "embedding", None), "weight", None)
    if not isinstance(weight, nn.Parameter):
        raise UsageError(f"{type(model).__name__} has no embedding of one text that could begin at word vectors")
    named = vectors_of(path)
    return start_embedding(weight, tokenizer.tokens(range(len(tokenizer))), named.words, named.vectors)
