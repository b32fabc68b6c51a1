"""Word vectors as a beginning for text models.

    [model]
    vectors = "runs/words"       a run for words, or a file in word2vec's formats or GloVe's

The embedding of every piece that is a word with a vector begins there, at the scale the model was made for.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from regard.checkpoints.foreign.word2vec import NamedVectors, read_word2vec
from regard.checkpoints.opening import open_run
from regard.checkpoints.run import RunFolder
from regard.config.recipe import Recipe
from regard.data.io.paths import find_data
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, ConfigError, UsageError
from regard.models.word_vectors import start_embedding
from regard.training.setup import RunContext

TASK, MODEL = "words", "word-vectors"


def begin_at_vectors(recipe: Recipe, model: nn.Module, tokenizer: Tokenizer, context: RunContext) -> None:
    """Let the embedding begin at what `[model] vectors` names, where it names something."""
    named = recipe.model.get("vectors")
    if named is None:
        return
    if "start" in recipe.model:
        raise ConfigError(
            "model.start and model.vectors are both given; a model that was trained before has an embedding",
            hint="leave one of them out",
        )
    n = start_from_vectors(model, tokenizer, find_data(str(named), context.data_root))
    if not n:
        raise ConfigError(
            f"model.vectors = {named}: none of its words is a piece of this text", hint="try tokenizer.kind=words"
        )
    context.say(f"{named}: {n:,} of {len(tokenizer):,} pieces begin at its vectors")


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
