"""What configs are checked for before anything is built: names out of a list, sizes from 1, shares below 1."""

from __future__ import annotations

from typing import Any, get_args

from regard.errors import ConfigError


def check_names(config: Any, **allowed: Any) -> None:
    """Refuse a name that its `Literal` does not list."""
    for name, names in allowed.items():
        if getattr(config, name) not in get_args(names):
            raise ConfigError(f"{name} is {getattr(config, name)!r}; allowed: {', '.join(get_args(names))}")


def check_sizes(config: Any, *names: str) -> None:
    """Refuse a size below 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} is at least 1, not {getattr(config, name)}")


def check_shares(config: Any, *names: str) -> None:
    """Refuse a share that is negative, or all of it."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ConfigError(f"{name} is from 0 up to, but not including, 1; not {getattr(config, name)}")


def check_shared_vocabulary(config: Any) -> None:
    """Refuse one embedding for two vocabularies of different sizes."""
    if config.tied == "all" and config.n_source != config.n_target:
        raise ConfigError(
            f"one shared embedding needs one vocabulary, got {config.n_source} source and {config.n_target} target ids",
            hint='learn a joint tokenizer, or set model.tied="output"',
        )
