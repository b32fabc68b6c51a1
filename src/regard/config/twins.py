"""Where a faster twin may stand in for the textbook, and the way to it.

    if (fast := twin("attend")) is not None and (output := fast(query, key, value, ...)) is not None:
        return output
    ...                                          the textbook goes on

The core knows no twin by name: it asks this table, whose entries are paths in `regard.fast`. They are resolved at the
first use, all at once, and each decides for itself whether it fits the call: None means that it does not. With
`REGARD_FAST=0` in the environment there are no twins, and nothing of `regard.fast` is ever imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

SWITCH = "REGARD_FAST"
Twin = Callable[..., Any]

TABLE = {
    "attend": "regard.fast.select.attend",  # few queries on a CPU; packed documents
    "encoder": "regard.fast.select.encoder",  # a stack of encoder blocks
    "prefill": "regard.fast.select.prefill",  # the caches that a decoder's faster step needs
    "prefill_each": "regard.fast.select.prefill_each",  # the same for several decodings, made together
    "past": "regard.fast.select.past",  # the kind of caches that a faster step reads
    "causal_step": "regard.fast.select.causal_step",  # one step of a stack that looks back only
    "look_back": "regard.fast.select.look_back",  # attention of a step, of several decodings
    "joint_threads": "regard.fast.select.joint_threads",  # who gets the processors while several decodings step
    "decoder_step": "regard.fast.select.decoder_step",  # one step of a stack of decoder blocks
    "decoder_steps": "regard.fast.select.decoder_steps",  # one step of several decodings, each with its own caches
    "walk_together": "regard.fast.select.walk_together",  # one step of greedy decodings, from tokens to tokens
    "walkers": "regard.fast.select.walkers",  # such decodings that go on by themselves, in a thread of their own
    "rows_independent": "regard.fast.select.rows_independent",  # whether a model's products leave rows alone
    "packed_length": "regard.fast.select.packed_length",  # how long what a packed row leaves alone may be
    "stepper": "regard.fast.select.stepper",  # a model's decoding steps as CUDA graphs
    "shared_model": "regard.fast.select.shared_model",  # a model whose decodings share rows on a GPU
    "search": "regard.fast.select.search",  # greedy and beam search on a GPU
    "restricted_output": "regard.fast.select.restricted_output",  # the scores of some tokens of a vocabulary
    "top_k": "regard.fast.select.top_k",  # the largest scores of a vocabulary
    "log_sum_exp": "regard.fast.select.log_sum_exp",  # what a vocabulary's scores sum up to
    "in_precision": "regard.fast.select.in_precision",  # packed and quantised linear layers
    "keeps_blocks": "regard.fast.select.keeps_blocks",  # whether weights in blocks are multiplied as they are
    "cross_entropy": "regard.fast.select.cross_entropy",  # the loss over a vocabulary
    "symmetric_kl": "regard.fast.select.symmetric_kl",  # how far two predictions are apart
    "drop": "regard.fast.select.drop",  # dropout, from its draws
    "residual": "regard.fast.select.residual",  # dropout, a shortcut and the norm behind it
    "feedforward": "regard.fast.select.feedforward",  # two linear layers with ReLU between them
    "without_padding": "regard.fast.select.without_padding",  # rows of what is trained, without their padding
    "training_kernels": "regard.fast.select.training_kernels",  # kernels of our own for training on a CPU
    "training_step": "regard.fast.select.training_step",  # a whole training step as a CUDA graph
}

_resolved: dict[str, Twin | None] = {}


def twin(place: str) -> Twin | None:
    """What may stand in at a place of the table; None where nothing does. It is cheap enough for every call."""
    if not _resolved:
        resolve()
    return _resolved[place]


def resolve() -> None:
    """Read the switch and look all twins up, if that is still to do: before a compiler traces the calls, say."""
    if _resolved:
        return
    for place, path in TABLE.items():
        module, _, name = path.rpartition(".")
        _resolved[place] = getattr(import_module(module), name) if enabled() else None


def enabled() -> bool:
    """Whether `REGARD_FAST` lets twins stand in."""
    return os.environ.get(SWITCH, "1").lower() not in ("0", "off", "no", "false")


def reset() -> None:
    """Forget what was looked up, so that the switch is read again."""
    _resolved.clear()
