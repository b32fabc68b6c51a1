"""How the weights of another library are called, as data that is read in both directions.

    rules = (
        Rule("bert.encoder.layer.{i}.output.dense.weight", "encoder.blocks.{i}.feedforward.outer.weight"),
        Rule(("q.{i}.weight", "k.{i}.weight", "v.{i}.weight"), "blocks.{i}.attention.query_key_value.weight"),
    )
    bert = NameMap(rules, prefixes=("bert.",), ignored=("bert.position_ids",), tied={"decoder.weight": "emb.weight"})
    bert.read(theirs, shapes, origin="model.safetensors")     their tensors → ours, in single precision
    bert.write(ours)                                          our tensors → theirs

`{i}` stands for a layer's number. Several of theirs in one rule are joined along their first dimension, in order.
Whatever is missing, unknown or misshapen is said in one message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.checkpoints.weights import weights_of
from regard.errors import CheckpointError
from regard.models.registry import build

Change = Callable[[Tensor], Tensor]
Made = TypeVar("Made")


@dataclass(frozen=True)
class Rule:
    """One weight of ours and what it is made of.

    `transposed`: theirs is the transpose (of each part). `rows`: how many of our rows each of several parts fills;
    equal shares when absent. `taken` and `given` turn the joined tensor into ours, and back, where more than that
    differs; without `given` the shape stays as it is.
    """

    theirs: str | tuple[str, ...]
    ours: str
    transposed: bool = False
    rows: tuple[int, ...] | None = None
    taken: Change | None = None
    given: Change | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """Their names, one or several."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    def numbered(self, layer: str) -> Rule:
        """The rule of one layer."""
        parts = tuple(part.replace("{i}", layer) for part in self.parts)
        return replace(self, theirs=parts, ours=self.ours.replace("{i}", layer))

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The shape of each of their parts, when ours has this one."""
        return [tuple(part.shape) for part in self.split(torch.empty(shape, device="meta")).values()]

    def join(self, parts: Iterable[Tensor]) -> Tensor:
        """Their parts → our tensor."""
        straight = [part.t() if self.transposed else part for part in parts]
        joined = straight[0] if len(straight) == 1 else torch.cat(straight)
        return (self.taken(joined) if self.taken else joined).contiguous()

    def split(self, tensor: Tensor) -> dict[str, Tensor]:
        """Our tensor → their parts by name."""
        tensor = self.given(tensor) if self.given else tensor
        rows = list(self.rows or (len(tensor) // len(self.parts),) * len(self.parts)) if len(self.parts) > 1 else None
        parts = tensor.split(rows) if rows else (tensor,)
        straight = [(part.t() if self.transposed else part).contiguous() for part in parts]
        return dict(zip(self.parts, straight, strict=True))


@dataclass(frozen=True)
class NameMap:
    """The rules of a family, and what its files may have more or less than these.

    `prefixes` may be absent from the front of names (a bare backbone was saved). `tied` weights, by name, are copies
    of another one of theirs: either of the two may be absent, and they are not written. `ignored` are buffers without
    meaning to us. `respelled` are old endings of names.
    """

    rules: tuple[Rule, ...]
    prefixes: tuple[str, ...] = ()
    tied: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    respelled: Mapping[str, str] = field(default_factory=dict)

    def canonical(self, names: Iterable[str]) -> dict[str, str]:
        """Their names as the rules spell them → as the file does."""
        parts = (part for rule in self.rules for part in rule.parts)
        known = re.compile("|".join(_pattern(name) for name in (*parts, *self.tied, *self.ignored)))
        return {self._spelling(name, known): name for name in names}

    def read(
        self, tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], *, origin: str
    ) -> dict[str, Tensor]:
        """Our tensors in single precision, made of theirs; `shapes` are those of our model, by our names."""
        return self.read_with(_in_single, tensors, shapes, origin=origin)

    def read_with(
        self,
        make: Callable[[Rule, list[Any]], Made],
        tensors: Mapping[str, Any],
        shapes: Mapping[str, tuple[int, ...]],
        *,
        origin: str,
    ) -> dict[str, Made]:
        """What `make` makes of a rule and of the parts that it needs, for each weight of ours; all have a shape."""
        problems: list[str] = []
        theirs = {spelt: tensors[name] for spelt, name in self.canonical(tensors).items()}
        self._untie(theirs, problems)
        rules = {name: self._rule_of(name) for name in shapes}
        ours: dict[str, Made] = {}
        for name, rule in rules.items():
            if rule is None:
                problems.append(f"{name}: the model has it, this format does not")
            elif fitting := _fitting(rule, theirs, shapes[name], problems):
                ours[name] = make(rule, fitting)
        used = {part for rule in rules.values() if rule for part in rule.parts}
        problems += [f"{name}: unknown" for name in theirs if name not in used and not self._ignores(name)]
        _refuse(problems, origin, hint="the weights and their config do not belong together, or the model is another")
        return ours

    def write(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors, made of ours."""
        problems: list[str] = []
        theirs: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            rule = self._rule_of(name)
            if rule is None:
                problems.append(f"{name}: this format has no place for it")
            else:
                theirs |= rule.split(tensor.detach())
        _refuse(problems, "export", hint="the model has parts that this format cannot hold")
        return theirs

    def _spelling(self, name: str, known: re.Pattern[str]) -> str:
        for old, new in self.respelled.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        spellings = [name, *(prefix + name for prefix in self.prefixes)]
        return next((spelling for spelling in spellings if known.fullmatch(spelling)), name)

    def _rule_of(self, ours: str) -> Rule | None:
        for rule in self.rules:
            if match := re.fullmatch(_pattern(rule.ours), ours):
                return rule.numbered(match[1] if match.groups() else "")
        return None

    def _ignores(self, name: str) -> bool:
        return any(re.fullmatch(_pattern(ignored), name) for ignored in self.ignored)

    def _untie(self, theirs: dict[str, Tensor], problems: list[str]) -> None:
        for copy, main in self.tied.items():
            if copy not in theirs:
                continue
            tensor = theirs.pop(copy)
            if not torch.equal(theirs.setdefault(main, tensor), tensor):
                problems.append(f"{copy}: differs from {main}, which it has to equal")


def affine(
    theirs: str | tuple[str, ...], ours: str, *, transposed: bool = False, rows: tuple[int, ...] | None = None
) -> tuple[Rule, Rule]:
    """The rules of a layer's weight and bias, from the names of the layers."""
    layers = (theirs,) if isinstance(theirs, str) else theirs
    weights, biases = (tuple(f"{layer}.{part}" for layer in layers) for part in ("weight", "bias"))
    return Rule(weights, f"{ours}.weight", transposed, rows), Rule(biases, f"{ours}.bias", rows=rows)


# What a Transformer's block is made of, as far as all have it.
_BLOCK = (
    "attention.query_key_value", "attention.out", "around_attention.norm",
    "feedforward.inner", "feedforward.outer", "around_feedforward.norm",
)  # fmt: skip


def block_rules(
    theirs: str, ours: str, parts: Sequence[str | tuple[str, ...] | None], *, transposed: bool = False
) -> list[Rule]:
    """The rules of a block, from what its parts are called behind `theirs`; None: a part that has rules of its own.

    Parts are queries with keys and values, what mixes the heads, and their norm; then the two layers of the
    feed-forward, and its norm. `transposed` says so of all but norms.
    """
    rules: list[Rule] = []
    for part, name in zip(parts, _BLOCK, strict=True):
        layers = () if part is None else (part,) if isinstance(part, str) else part
        turned = transposed and not name.endswith("norm")
        rules += (
            affine(tuple(theirs + layer for layer in layers), f"{ours}.{name}", transposed=turned) if layers else ()
        )
    return rules


def shapes_of(model: str, options: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of a registered model's weights by name, without making the weights."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in weights_of(build(model, options)).items()}


def _in_single(rule: Rule, parts: Sequence[Tensor]) -> Tensor:
    return rule.join(part.to(torch.float32) for part in parts)


def _pattern(name: str) -> str:
    """A name as a regular expression; the number of a layer is its group."""
    return re.escape(name).replace(re.escape("{i}"), r"(\d+)")


def _fitting(rule: Rule, theirs: Mapping[str, Any], shape: tuple[int, ...], problems: list[str]) -> list[Any] | None:
    """The parts that a rule needs, if all are there and have their shapes."""
    wrong = []
    for part, needed in zip(rule.parts, rule.shapes(shape), strict=True):
        if part not in theirs:
            wrong.append(f"{part}: missing")
        elif tuple(theirs[part].shape) != needed:
            wrong.append(f"{part}: {list(theirs[part].shape)}, the model has {list(needed)}")
    problems += wrong
    return None if wrong else [theirs[part] for part in rule.parts]


def _refuse(problems: list[str], origin: str, *, hint: str) -> None:
    if problems:
        count = f"{len(problems)} weight{'s do' if len(problems) > 1 else ' does'} not fit"
        raise CheckpointError(f"{origin}: {count}:\n  " + "\n  ".join(problems), hint=hint)
