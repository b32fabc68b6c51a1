"""Which pieces CTranslate2 takes for the beginning and the end of a text, and for the unknown."""

from __future__ import annotations

from typing import Any

from regard.data.text.tokenizers import Tokenizer

_ROLES = ("unk", "bos", "eos")


def set_special_tokens(config: Any, tokenizer: Tokenizer, pieces: list[str]) -> None:
    """Name them in a model's config; a role that nobody plays is the end's."""
    ids = tokenizer.special_tokens.present()
    for role in _ROLES:
        setattr(config, f"{role}_token", pieces[ids.get(role, ids.get("eos", tokenizer.pad_id))])
