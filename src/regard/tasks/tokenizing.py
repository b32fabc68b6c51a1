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
from regard.data.text.vocabulary import learn_tokenizer
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
        made = _tokenizer(recipe, context, start, texts)
        context.keep(made.save)
        return made

    return context.first(prepare)


def with_tokenizer(pieces: Pieces, start: Pretrained | None, context: RunContext) -> Pieces:
    """The `[tokenizer]` section, changed to name the start's tokenizer where there is one."""
    if start is None:
        return pieces
    context.keep(_start_tokenizer(start).save)
    context.group.wait()
    return replace(pieces, file=str(context.run.path / "tokenizer.json"))


def _start_tokenizer(start: Pretrained) -> Tokenizer:
    if start.tokenizer is None:
        raise CheckpointError(f"{start.origin}: there is no tokenizer beside the weights")
    return start.tokenizer


def _tokenizer(
    recipe: Recipe, context: RunContext, start: Pretrained | None, texts: Callable[[], Iterable[str]]
) -> Tokenizer:
    pieces = recipe.tokenizer
    if start is not None:
        return _start_tokenizer(start)
    if pieces.file is not None:
        return Tokenizer.load(find_data(pieces.file, context.data_root))
    return learn_tokenizer(
        texts(), pieces.kind, size=pieces.size, lowercase=pieces.lowercase, min_frequency=pieces.min_frequency
    )
