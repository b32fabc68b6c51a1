"""Which ids stand for something other than text: padding, the unknown, ends, masks.

    pad   fills up short rows          bos, eos   begin and end a text
    unk   what has no piece            cls, sep   head a text for a classifier, and part two texts
    mask  a hidden word

Tokenizers of our making begin with <pad> <unk> <s> </s>, then <mask> where it was asked for; cls is <s> and sep </s>.
Those of others name theirs otherwise, and lack some. Which token plays which part is kept inside `tokenizer.json`: an
entry of its `added_tokens` carries one more field, `"roles": ["bos", "eos"]`, which the `tokenizers` library skips.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Core

from regard.errors import UsageError

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
MASK = "<mask>"


@dataclass(frozen=True)
class SpecialTokens:
    """The id of each role, or None where a tokenizer has none for it; one id may play several."""

    pad: int | None = None
    unk: int | None = None
    bos: int | None = None
    eos: int | None = None
    mask: int | None = None
    cls: int | None = None
    sep: int | None = None

    @classmethod
    def ours(cls, *, mask: bool) -> SpecialTokens:
        """The roles of a tokenizer of our making."""
        return cls(pad=0, unk=1, bos=2, eos=3, mask=len(SPECIALS) if mask else None, cls=2, sep=3)

    @staticmethod  # "cls" is a role here, so it cannot be the class as well
    def named(core: Core, **tokens: str | None) -> SpecialTokens:
        """The roles of tokens given by their text: `SpecialTokens.named(core, pad="[PAD]", cls="[CLS]")`.

        None, or a token that the tokenizer does not have, leaves its role empty.
        """
        known = {field.name for field in fields(SpecialTokens)}
        for role in tokens:
            if role not in known:
                raise UsageError(f"'{role}' is not a role of a token; allowed: {', '.join(sorted(known))}")
        return SpecialTokens(**{role: core.token_to_id(token) for role, token in tokens.items() if token is not None})

    def present(self) -> dict[str, int]:
        """The roles that are played, and by which id."""
        return {role: index for role, index in asdict(self).items() if index is not None}


def make_special(core: Core, special_tokens: SpecialTokens) -> None:
    """Let the tokenizer know every token with a role as a special one, so that decoding leaves it out.

    Their ids stay as they are.
    """
    special = {index for index, token in core.get_added_tokens_decoder().items() if token.special}
    for role, index in special_tokens.present().items():
        content = core.id_to_token(index)
        if content is None:
            raise UsageError(f"role '{role}' is id {index}, but the tokenizer has {core.get_vocab_size()} ids")
        if index not in special:
            core.add_special_tokens([AddedToken(content, special=True, normalized=False)])


def write_special_tokens(description: dict[str, Any], special_tokens: SpecialTokens) -> dict[str, Any]:
    """A tokenizer's JSON with the roles noted beside the tokens that play them."""
    added = []
    for token in description["added_tokens"]:
        roles = [role for role, index in special_tokens.present().items() if index == token["id"]]
        added.append({**token, "roles": roles} if roles else token)
    return {**description, "added_tokens": added}


def read_special_tokens(description: dict[str, Any]) -> SpecialTokens | None:
    """The roles noted in a tokenizer's JSON; None where there are none, as in ours and in untouched foreign files."""
    played = {role: token["id"] for token in description.get("added_tokens") or [] for role in token.get("roles") or []}
    return SpecialTokens(**played) if played else None


def describe(core: Core) -> dict[str, Any]:
    """A tokenizer's own JSON."""
    description: dict[str, Any] = json.loads(core.to_str())
    return description
