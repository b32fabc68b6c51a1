"""What stands below a head: which model, and how texts are put before it. Labels and answers share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.checkpoints.spec import Pretrained
from regard.config.recipe import Recipe
from regard.data.text.tokenizers import Tokenizer
from regard.models.registry import entry
from regard.tasks.templates import TextTemplate


def template_for(tokenizer: Tokenizer, options: Mapping[str, Any], recipe: Recipe) -> TextTemplate:
    """How texts are put between special tokens for this backbone; no longer than it can read."""
    backbone = options["backbone"]
    longest = min(recipe.data.max_tokens, backbone.get("n_positions", recipe.data.max_tokens))
    return TextTemplate(tokenizer, max_tokens=longest, closing=entry(backbone["name"]).continues)


def longest(pretrained: Pretrained) -> dict[str, int]:
    """The `max_tokens` of a model of others, where it has a limit."""
    limit = pretrained.options["backbone"].get("n_positions")
    return {} if limit is None else {"max_tokens": int(limit)}
