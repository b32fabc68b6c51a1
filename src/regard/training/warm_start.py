"""What a run starts from: nothing, or a model that was trained before, by us or by others.

    [model]
    start = "runs/bert"          a run folder, a Hugging Face folder, a llama2.c `.bin` or a `.gguf` file

The start gives the tokenizer, the architecture and the weights; options given beside it change what they name. A model
that starts from nothing may begin at word vectors, see `vectors`.

Word vectors as a beginning for text models.

    [model]
    vectors = "runs/words"       a run for words, or a file in word2vec's formats or GloVe's

The embedding of every piece that is a word with a vector begins there, at the scale the model was made for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoints.foreign.word2vec import NamedVectors, read_word2vec
from regard.checkpoints.opening import open_model, open_run
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec, Pretrained, with_defaults
from regard.checkpoints.weights import load_weights, weights_of
from regard.config.process import seed_torch
from regard.config.recipe import Recipe
from regard.data.io.paths import find_data
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, ConfigError, UsageError
from regard.models.registry import build, entry
from regard.models.word_vectors import start_embedding
from regard.training.setup import RunContext

BACKBONE = {"name": "bert", "size": "small"}  # below a head, unless the recipe says otherwise
TASK, MODEL = "words", "word-vectors"


def open_start(recipe: Recipe, root: Path | None) -> Pretrained | None:
    """The model that `[model] start` names, found here or under the data root."""
    named = recipe.model.get("start")
    return None if named is None else open_model(find_data(str(named), root))


def start_for(recipe: Recipe, root: Path | None) -> Pretrained | None:
    """The same, which has to be the model that the recipe names."""
    start, name = open_start(recipe, root), recipe.model["name"]
    if start is not None and start.model != name:
        alike = start.task == recipe.task
        raise ConfigError(
            f"{start.origin} is a {start.model}; model.name says {name!r}",
            hint=f"set model.name={start.model}" if alike else f"start from a model for {recipe.task}",
        )
    return start


def refuse_start(recipe: Recipe, what: str) -> None:
    """A model that begins anew has no start."""
    if "start" in recipe.model:
        raise ConfigError(f"model.start is for models of texts; {what} begins anew")


def own_options(recipe: Recipe) -> dict[str, Any]:
    """The model's own options: all but what it is called and where it begins."""
    return {key: value for key, value in recipe.model.items() if key not in ("name", "start", "vectors")}


def begin_model(
    recipe: Recipe, options: Mapping[str, Any], *, labels: tuple[str, ...] | None = None
) -> tuple[nn.Module, ModelSpec]:
    """The recipe's model with these options, its weights as the seed draws them."""
    spec = with_defaults(ModelSpec(recipe.task, recipe.model["name"], options, labels))
    seed_torch(recipe.train.seed, torch.device("cpu"))
    return build(spec.model, spec.options), spec


def begin_text_model(
    recipe: Recipe, tokenizer: Tokenizer, start: Pretrained | None, context: RunContext, *, forced: Mapping[str, Any]
) -> tuple[nn.Module, ModelSpec]:
    """A model of one text for this tokenizer, with the weights of its start if it has one.

    `forced` are options that follow from the data and hold unless the recipe or the start says otherwise.
    """
    vocabulary = {"n_tokens": len(tokenizer), "pad_id": tokenizer.pad_id}
    options = dict(forced) | own_options(recipe) | vocabulary
    if start is not None:
        options = dict(start.options) | own_options(recipe)
    model, spec = begin_model(recipe, options)
    if start is not None:
        load_known(model, start.tensors, origin=start.origin)
    begin_at_vectors(recipe, model, tokenizer, context)
    return model, spec


def begin_with_backbone(
    recipe: Recipe,
    tokenizer: Tokenizer,
    start: Pretrained | None,
    context: RunContext,
    *,
    forced: Mapping[str, Any],
    labels: tuple[str, ...] | None = None,
) -> tuple[nn.Module, ModelSpec]:
    """A head on a backbone: a fresh one that the recipe describes, or that of a model trained before."""
    options = dict(forced) | own_options(recipe)
    given = dict(options.pop("backbone", {}))
    if start is None:
        backbone = given or dict(BACKBONE)
        backbone |= {"n_tokens": len(tokenizer), "pad_id": tokenizer.pad_id}
        if "n_positions" in entry(backbone["name"]).options:
            backbone = {"n_positions": recipe.data.max_tokens} | backbone
    else:
        backbone = _backbone_of(start) | given
    backbone |= dict(entry(backbone["name"]).as_backbone(options))
    model, spec = begin_model(recipe, options | {"backbone": backbone}, labels=labels)
    if start is not None:
        prefix = "backbone." if "backbone" in start.options else ""
        tensors = {name.removeprefix(prefix): t for name, t in start.tensors.items() if name.startswith(prefix)}
        load_known(model.get_submodule("backbone"), tensors, origin=start.origin)
    begin_at_vectors(recipe, model, tokenizer, context)
    return model, spec


def backbone_name(recipe: Recipe, start: Pretrained | None) -> str:
    """The name of the model below the head."""
    given = dict(recipe.model.get("backbone", {}))
    return str(given.get("name") or (BACKBONE if start is None else _backbone_of(start))["name"])


def load_known(module: nn.Module, tensors: Mapping[str, torch.Tensor], *, origin: str) -> None:
    """Load what the module has a place for; heads that it does without are left aside, and BERT's pooler may be new."""
    own = weights_of(module)
    fresh = {name: tensor for name, tensor in own.items() if name.startswith("pooler.") and name not in tensors}
    load_weights(module, {name: t for name, t in tensors.items() if name in own} | fresh, origin=origin)


def _backbone_of(start: Pretrained) -> dict[str, Any]:
    if "backbone" in start.options:
        return dict(start.options["backbone"])
    if "n_tokens" not in start.options:
        raise CheckpointError(
            f"{start.origin}: a {start.model} cannot carry a head", hint="start from a model that reads one text"
        )
    return {"name": start.model, **start.options}


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


def vectors_of(path: Path | str, *, check: bool = True) -> NamedVectors:
    """Words and their vectors: of a run for words, or of a file in word2vec's formats or GloVe's."""
    run = RunFolder(path, check=check)
    if not run.exists():
        return read_word2vec(path)
    pretrained = open_run(run)
    if pretrained.model != MODEL or pretrained.tokenizer is None:
        raise CheckpointError(
            f"{run.path}: a model for {pretrained.task}; vectors of words come from a run for {TASK}",
            hint="train one: regard train words --train TEXT --out RUN",
        )
    names = sorted(pretrained.tokenizer.core.get_vocab().items(), key=lambda item: item[1])
    first = int(pretrained.options["n_reserved"])
    return NamedVectors(tuple(word for word, _ in names[first:]), pretrained.tensors["input"][first:])
