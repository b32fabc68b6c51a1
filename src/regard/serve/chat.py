"""Conversations as the text that a model was trained to go on with: the tokenizer's chat template, in a sandbox.

A template is a small program of the model's makers, and what it is given comes from anybody. It runs in jinja2's
immutable sandbox, with the filters that such templates use and no others, with bounds on time, on what it writes and on
every product on the way.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, DataError, RegardError, UsageError

SECONDS, CHARACTERS = 1.0, 400_000  # what a template may take, and write
_FILTERS = frozenset(
    [
        "capitalize",
        "count",
        "default",
        "d",
        "dictsort",
        "first",
        "int",
        "items",
        "join",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "replace",
        "reverse",
        "round",
        "select",
        "selectattr",
        "sort",
        "string",
        "sum",
        "title",
        "tojson",
        "trim",
        "unique",
        "upper",
    ]
)
_ROLES = ("bos", "eos", "unk", "pad")
_GROWING = frozenset(("ljust", "rjust", "center", "zfill", "expandtabs", "format", "format_map", "translate"))


class _Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox in which nothing gets large."""

    intercepted_binops = frozenset(("*", "**", "%", "+"))

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        self.filters = {name: one for name, one in self.filters.items() if name in _FILTERS} | {
            "tojson": _tojson,
            "replace": _replace,
            "join": _join,
        }
        self.globals = {
            "range": self.globals["range"],
            "namespace": self.globals["namespace"],
            "dict": dict,
            "raise_exception": _refuse,
            "strftime_now": lambda form: datetime.now().strftime(str(form)[:100]),
        }

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """A product of texts or lists is bounded, a power is not computed, and texts are not formatted."""
        if operator == "**" or (operator == "%" and not isinstance(left, int | float)):
            raise TemplateError(f"the template uses {operator}")
        if operator == "*" and not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise TemplateError("the template multiplies texts")
        made = super().call_binop(context, operator, left, right)
        if isinstance(made, str | list | tuple) and len(made) > CHARACTERS:
            raise TemplateError("the template makes too much")
        if isinstance(made, int) and abs(made) > 2**63:
            raise TemplateError("the template counts too far")
        return made

    def call(self, context: Any, called: Any, /, *args: Any, **named: Any) -> Any:
        """Call what the template calls, unless it could make too much."""
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        if isinstance(owner, str) and name in ("replace", "join"):
            _check_growth(owner, *args)
        return super().call(context, called, *args, **named)

    def wrap_str_format(self, value: Any) -> None:
        """Nothing stands in for `str.format`, which is not allowed."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """What the sandbox allows, without methods that fill texts up."""
        return super().is_safe_attribute(obj, attr, value) and not (isinstance(obj, str) and attr in _GROWING)


@dataclass(frozen=True)
class ChatTemplate:
    """A template, and the special tokens that it may name."""

    source: str
    tokens: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def beside(cls, place: Path, tokenizer: Tokenizer | None = None) -> ChatTemplate | None:
        """The template that lies in a model's folder, or in its file, if there is one."""
        settings = {} if place.is_file() else _settings(place / "tokenizer_config.json")
        source: Any = _in_gguf(place) if place.suffix == ".gguf" else settings.get("chat_template")
        if (place / "chat_template.jinja").is_file():
            source = (place / "chat_template.jinja").read_text(encoding="utf-8")
        if isinstance(source, list):  # several, by name
            named = {one.get("name"): one.get("template") for one in source if isinstance(one, dict)}
            source = named.get("default")
        if not isinstance(source, str):
            return None
        tokens = {f"{role}_token": _content(settings.get(f"{role}_token")) for role in _ROLES}
        known = _of_tokenizer(tokenizer) | {name: token for name, token in tokens.items() if token}
        return cls(source, known)

    def prompt(self, messages: Sequence[Mapping[str, Any]], tokenizer: Tokenizer) -> list[int]:
        """The ids that the model has to go on with: special tokens are the template's, never those of a message."""
        special = {token.content: i for i, token in tokenizer.core.get_added_tokens_decoder().items() if token.special}
        guard = next(chr(code) for code in range(0xE000, 0xF8FF) if not any(chr(code) in str(one) for one in messages))
        text = self.render([_guarded(one, special, guard) for one in messages])
        parts = re.split("(" + "|".join(map(re.escape, sorted(special, key=len, reverse=True))) + ")", text)
        if not special:
            parts = [text]
        ids: list[int] = []
        for part in parts:
            ids += [special[part]] if part in special else tokenizer.encode(part.replace(guard, "")) if part else []
        if not ids:
            raise UsageError("the chat template makes nothing of these messages")
        return ids

    def render(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The text that the model has to go on with."""
        facts = dict(self.tokens) | {"messages": [dict(one) for one in messages], "add_generation_prompt": True}
        pieces: list[str] = []
        try:
            with _bounded(SECONDS):
                template = _Sandbox().from_string(self.source)
                n = 0
                for piece in template.generate(facts):
                    n += len(piece)
                    if n > CHARACTERS:
                        raise TemplateError("it writes too much")
                    pieces.append(piece)
        except RegardError:
            raise
        except Exception as problem:  # whatever a template does, it is the template's or the messages' fault
            told = str(problem)[:200] or type(problem).__name__
            raise UsageError(f"the chat template does not take these messages: {told}") from None
        return "".join(pieces)


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """Let this thread's Python code run for so long, and no longer."""
    until, before = time.monotonic() + seconds, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if time.monotonic() > until:
            raise TemplateError("it takes too long")
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _guarded(message: Mapping[str, Any], special: Mapping[str, int], guard: str) -> dict[str, Any]:
    """A message in which no special token is spelled: what looks like one is parted, until it is a text again."""

    def parted(text: str) -> str:
        for token in special:
            text = text.replace(token, token[:1] + guard + token[1:])
        return text

    return {name: parted(value) if isinstance(value, str) else value for name, value in message.items()}


def _refuse(message: object = "") -> None:
    raise TemplateError(str(message)[:200])


def _check_growth(text: str, *args: Any) -> None:
    """Refuse what could make a text many times as long."""
    sizes = [len(text) + 1, *(_length(one) + 1 for one in args)]
    if max(sizes) * sorted(sizes)[-2] > 16 * CHARACTERS:
        raise TemplateError("the template makes too much")


def _length(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(len(str(one)) + 1 for one in value)
    return len(value) if isinstance(value, str) else 0


def _replace(text: Any, old: Any, new: Any) -> str:
    _check_growth(str(text), str(old), str(new))
    return str(text).replace(str(old), str(new))


def _join(values: Any, between: Any = "", attribute: str | None = None) -> str:
    several = [one.get(attribute, "") if attribute and isinstance(one, dict) else one for one in values]
    _check_growth(str(between), several)
    return str(between).join(map(str, several))


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=None if indent is None else max(0, min(8, int(indent))))


def _in_gguf(path: Path) -> str | None:
    """The template in a GGUF file, if there is one."""
    from regard.checkpoints.foreign.gguf import reading

    with reading(path) as reader:
        field = reader.fields.get("tokenizer.chat_template")
        return None if field is None else str(field.contents())


def _of_tokenizer(tokenizer: Tokenizer | None) -> dict[str, str]:
    """The special tokens that a tokenizer knows by their roles."""
    present = {} if tokenizer is None else tokenizer.special_tokens.present()
    named = {role: tokenizer.core.id_to_token(i) for role, i in present.items() if role in _ROLES} if tokenizer else {}
    return {f"{role}_token": token for role, token in named.items() if token}


def _settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise CheckpointError(f"{path}: cannot be read: {problem}") from None
    if not isinstance(table, dict):
        raise DataError(f"{path}: is no JSON object")
    return table


def _content(token: Any) -> str:
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else ""
