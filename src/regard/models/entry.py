"""How a model presents itself: its config, its module, its named sizes, and what others may want to know of it.

ENTRY = Entry(GPTConfig, GPT, SIZES, continues=True)        at the end of every model's file
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from torch import nn


@dataclass(frozen=True)
class Entry:
    """A model that has a name.

    tasks                   the tasks it can be trained for, beside those that list it: for models from outside
    packs                   whether it reads packed rows, without padding
    continues               whether it reads forward and predicts the next word
    separate_vocabularies   options that hold where source and target do not share their words
    head, as_backbone       what suits a head on top of it, and its own options below such a head
    """

    config: type[Any]
    module: Callable[[Any], nn.Module]
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    packs: bool = False
    continues: bool = False
    separate_vocabularies: Mapping[str, Any] = field(default_factory=dict)
    head: Mapping[str, Any] = field(default_factory=dict)
    as_backbone: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda head: {}

    @property
    def options(self) -> tuple[str, ...]:
        """What can be set."""
        return tuple(field.name for field in fields(self.config))
