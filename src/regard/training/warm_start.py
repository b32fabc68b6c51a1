"""What a run starts from: nothing, or a model that was trained before, by us or by others.

    [model]
    start = "runs/bert"          a run folder, a Hugging Face folder, a llama2.c `.bin` or a `.gguf` file

The start gives the tokenizer, the architecture and the weights; options given beside it change what they name. A model
that starts from nothing may begin at word vectors, see `vectors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoints.opening import open_model
from regard.checkpoints.spec import ModelSpec, Pretrained, with_defaults
from regard.checkpoints.weights import load_weights, weights_of
from regard.config.recipe import Recipe
from regard.data.io.paths import find_data
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, ConfigError
from regard.models.registry import build, entry
from regard.training.setup import RunContext
from regard.training.word_vectors import begin_at_vectors

BACKBONE = {"name": "bert", "size": "small"}  # below a head, unless the recipe says otherwise


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
    torch.manual_seed(recipe.train.seed)
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
