"""A model and one input of it, with the names of everything: ready to be looked at, as often as one likes.

case = text_case(module, tokenizer, ids, says="next")             one text; tasks have cases of their own
look_at(case, layers=[3])    roll_out(…)    weigh_by_gradient(case, …)    ablate_heads(case, …)

A case runs its model the same way every time; what looks at it decides what is kept on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.taps import Kind, Tap
from regard.data.text.tokenizers import Tokenizer
from regard.errors import UsageError
from regard.inspection.record import Axis, Look, MapKind, Says
from regard.inspection.words import Words

Sides = Mapping[Kind, tuple[MapKind, str, str]]
PAIR_SIDES: Sides = {  # of what is read, and of what is written after it
    "self": ("self", "source", "source"),
    "masked": ("masked", "target", "fed"),
    "cross": ("cross", "target", "source"),
}
TEXT_SIDES: Sides = {
    "self": ("self", "text", "text"),
    "masked": ("masked", "text", "text"),
    "cross": ("pool", "label", "text"),
}


@dataclass(frozen=True)
class OutputNames:
    """What a model's outputs are called: places along an `axis`, each with scores (T, V) of what `name` calls them.

    `given` are the ids that did come at each place, where they are known.
    """

    axis: str
    says: Says
    name: Callable[[int], str]
    given: Sequence[int | None] = ()


@dataclass(frozen=True)
class ForwardCase:
    """What is to be looked at: a module, what it is called with, and the axes its attention is between."""

    module: nn.Module
    inputs: tuple[Any, ...]
    axes: Mapping[str, Axis]
    sides: Sides
    output_names: OutputNames | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    kinds: tuple[str, ...] | None = None  # what is looked at unless something else is asked for

    def __post_init__(self) -> None:
        if not any(isinstance(part, Tap) for part in self.module.modules()):
            raise UsageError(
                "this model has no attention to look at",
                hint="train one that has: model.attention=additive, for example",
            )

    @property
    def speaks(self) -> bool:
        """Whether the output can be read as probabilities."""
        return self.output_names is not None and _has_output(self.module)

    @property
    def given(self) -> Sequence[int | None]:
        """The ids that did come at each place, where they are known."""
        return () if self.output_names is None else self.output_names.given

    def finish(self, seen: Look) -> Look:
        """The record of what was looked at, with what a task has to add to it."""
        return seen

    def run(self) -> Any:
        """Run the model."""
        call = self.module if _has_output(self.module) else self.module.encode
        return call(*self.inputs, **self.options)  # type: ignore[operator]

    def log_probs(self, output: Any) -> Tensor:
        """What `run` gave as log-probabilities (places, choices)."""
        if not self.speaks:
            raise UsageError(
                "this model gives no probabilities", hint="a classifier, a translator or a language model does"
            )
        scores = torch.cat(tuple(output)) if isinstance(output, tuple) else output.flatten(0, -2)
        return scores.float().log_softmax(-1)


def text_case(
    module: nn.Module,
    tokenizer: Tokenizer,
    ids: Sequence[int],
    *,
    segments: Sequence[int] | None = None,
    says: Says | None = None,
    names: Sequence[str] = (),
) -> ForwardCase:
    """One text, or two in one row, as the ids a model reads.

    `says` is what the model's output is about: the "next" token, the token "here", a "label" out of `names`, or the
    "span" of an answer.
    """
    if not ids:
        raise UsageError("there is nothing to look at: the text is empty")
    device = device_of(module)
    options = {} if segments is None else {"segments": torch.tensor([list(segments)], device=device)}
    axes = {"text": Axis(tokenizer.tokens(ids), words=Words.of(tokenizer, ids))}
    output_names: OutputNames | None = None
    if says in ("next", "here"):
        given = [*ids[1:], None] if says == "next" else ids
        output_names = OutputNames("text", says, lambda index: tokenizer.tokens([index])[0], given)
    elif says == "label":
        axes["label"] = Axis(["label"], "labels")
        output_names = OutputNames("label", says, lambda index: names[index]) if names else None
    elif says == "span":
        axes["answer"] = Axis(["begins", "ends"], "labels")
        output_names = OutputNames("answer", says, lambda index: axes["text"].shown[index])
    return ForwardCase(module, (torch.tensor([list(ids)], device=device),), axes, TEXT_SIDES, output_names, options)


def _has_output(module: nn.Module) -> bool:
    """A BERT may be without the head that fills masks; its vectors can be looked at all the same."""
    return getattr(module, "mlm", True) is not None


def device_of(module: nn.Module) -> torch.device:
    """Where a model is."""
    return next(module.parameters()).device
