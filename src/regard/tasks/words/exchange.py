"""Word vectors from and to others: word2vec's files, runs of ours, and the embeddings of text models.

export_vectors("runs/words", "words.vec")                       what gensim and word2vec open; binary=True for .bin
import_vectors("GoogleNews.bin", Path("runs/news"))             a run for `predict` and `evaluate`
start_from_vectors(model, tokenizer, "runs/words")              the embedding of a text model begins at the vectors
"""

from __future__ import annotations

from pathlib import Path

import torch

from regard.checkpoints.foreign.word2vec import read_word2vec, write_word2vec
from regard.checkpoints.provenance import versions
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec
from regard.checkpoints.weights import weights_of
from regard.errors import UsageError
from regard.models.flops import count_parameters
from regard.models.word_vectors import WordVectors, WordVectorsConfig
from regard.tasks.recipes import make_recipe
from regard.tasks.words.skipgrams import RESERVED, word_tokenizer
from regard.training.warm_start import MODEL, TASK, start_from_vectors, vectors_of

__all__ = ["export_vectors", "import_vectors", "start_from_vectors", "vectors_of"]


def export_vectors(run: Path | str, out: Path | str, *, binary: bool = False, check: bool = True) -> int:
    """Write the vectors of a run, its hashes compared with `check`, as word2vec does; how many there are."""
    if Path(out).exists():
        raise UsageError(f"{out}: there is something already", hint="give another --out")
    named = vectors_of(run, check=check)
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
    run.write_model(ModelSpec(TASK, MODEL, options))
    run.write_weights(weights_of(model))
    run.write_facts({"task": TASK, "origin": str(path), "parameters": count_parameters(model), "versions": versions()})
    run.write_config(recipe.resolved())
    return len(words)
