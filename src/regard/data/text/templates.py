"""How a model wants one text, or two, set between special tokens: its frame.

    ours, BERT-like     <s> a </s>      <s> a </s> b </s>          segments  0 0 0  1 1
    Llama               <s> a           GPT-2: a, and nothing else

A frame is a template of fixed ids and of slots for the texts. That of a foreign tokenizer is read off its own
post-processor, by letting it frame a word and looking where the word went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tokenizers import Tokenizer as Core

from regard.data.text.special_tokens import SpecialTokens


class TemplatedIds(NamedTuple):
    """Ids with their special tokens, the segment of each (0 or 1), and where each text begins among them."""

    ids: list[int]
    segments: list[int]
    starts: tuple[int, ...]


class Part(NamedTuple):
    """One part of a template: a fixed `id`, or the slot of text `text` (0 or 1)."""

    id: int | None
    text: int | None
    segment: int


@dataclass(frozen=True)
class Template:
    """The templates for one text and for two."""

    one: tuple[Part, ...]
    two: tuple[Part, ...]

    def __call__(self, first: Sequence[int], second: Sequence[int] | None = None) -> TemplatedIds:
        """Set the ids of one text or two between their special tokens."""
        texts = (first,) if second is None else (first, second)
        ids: list[int] = []
        segments: list[int] = []
        starts = [0] * len(texts)
        for part in self.one if second is None else self.two:
            if part.text is not None:
                starts[part.text] = len(ids)
            ids += [part.id] if part.id is not None else texts[part.text or 0]
            segments += [part.segment] * (len(ids) - len(segments))
        return TemplatedIds(ids, segments, tuple(starts))


def template_of(special_tokens: SpecialTokens) -> Template:
    """cls a sep, and cls a sep b sep; whatever role is missing is left out."""

    def marked(index: int | None, segment: int) -> tuple[Part, ...]:
        return () if index is None else (Part(index, None, segment),)

    one = (*marked(special_tokens.cls, 0), Part(None, 0, 0), *marked(special_tokens.sep, 0))
    return Template(one, (*one, Part(None, 1, 1), *marked(special_tokens.sep, 1)))


def read_template(core: Core, special_tokens: SpecialTokens) -> Template:
    """The frame of a foreign tokenizer: its post-processor's, or that of its roles where it adds nothing."""
    word, other = (core.encode("a", add_special_tokens=False) for _ in range(2))
    if core.post_processor is None or not word.ids:
        return template_of(special_tokens)
    n = len(word.ids)
    frame = Template(_template(core.post_process(word), n), _template(core.post_process(word, other), n))
    adds = any(part.id is not None for part in (*frame.one, *frame.two))
    return frame if adds else template_of(special_tokens)


def _template(encoding: Any, n: int) -> tuple[Part, ...]:
    """The parts of a framed encoding whose texts have n pieces each; the mask says which ids were put around them."""
    parts: list[Part] = []
    seen = 0
    for index, special, segment in zip(encoding.ids, encoding.special_tokens_mask, encoding.type_ids, strict=True):
        if special:
            parts.append(Part(index, None, segment))
            continue
        if seen % n == 0:
            parts.append(Part(None, seen // n, segment))
        seen += 1
    return tuple(parts)
