"""The tokenizer of a task on single texts: the start's, one that is named, or one learnt from the training texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from regard.checkpoints.spec import Pretrained
from regard.config.data import TokenizerConfig
from regard.config.recipe import Recipe
from regard.data.io.paths import find_data
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_pieces
from regard.errors import CheckpointError
from regard.training.setup import RunContext, Say

Pieces = TypeVar("Pieces", bound=TokenizerConfig)


def tokenizer_for(
    recipe: Recipe, context: RunContext, start: Pretrained | None, texts: Callable[[], Iterable[str]]
) -> Tokenizer:
    """Find or learn the tokenizer, and keep it in the run."""
    kept = context.run.path / "tokenizer.json"

    def prepare(say: Say) -> Tokenizer:
        if kept.exists():
            return Tokenizer.load(kept)
        if not context.group.first:
            raise CheckpointError(f"{kept}: the first process wrote none")
        if start is not None:
            made = start_tokenizer(start)
        elif recipe.tokenizer.file is not None:
            made = Tokenizer.load(find_data(recipe.tokenizer.file, context.data_root))
        else:
            made = learn_pieces(texts(), recipe.tokenizer)
        context.keep(made.save)
        return made

    return context.first(prepare)


def with_tokenizer(pieces: Pieces, start: Pretrained | None, context: RunContext) -> Pieces:
    """The `[tokenizer]` section, changed to name the start's tokenizer where there is one."""
    if start is None:
        return pieces
    context.keep(start_tokenizer(start).save)
    context.group.wait()
    return replace(pieces, file=str(context.run.path / "tokenizer.json"))


def start_tokenizer(start: Pretrained) -> Tokenizer:
    """The tokenizer that a start brings along."""
    if start.tokenizer is None:
        raise CheckpointError(f"{start.origin}: there is no tokenizer beside the weights")
    return start.tokenizer
