"""What two sides of a model have to agree on before anything is built."""

from __future__ import annotations

from typing import Any

from regard.errors import ConfigError


def check_shared_vocabulary(config: Any) -> None:
    """Refuse one embedding for two vocabularies of different sizes."""
    if config.tied == "all" and config.n_source != config.n_target:
        raise ConfigError(
            f"one shared embedding needs one vocabulary, got {config.n_source} source and {config.n_target} target ids",
            hint='learn a joint tokenizer, or set model.tied="output"',
        )
