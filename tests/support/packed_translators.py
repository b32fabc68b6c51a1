"""A small translator of packed weights, sentences for it, and plain greedy paths through it."""

from __future__ import annotations

import pytest
import torch

from regard.decoding import DecodeOptions
from regard.decoding.plan import make_plan
from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.packed_linear import pack_linears
from regard.models.registry import build

CPU = torch.device("cpu")
IDS = {"bos_id": 2, "eos_id": 3, "pad_id": 0}


def packed_translator(precision="fp32", **options):
    """The model; where there are no kernels the test is skipped."""
    if loaded() is None:
        pytest.skip(why())
    sizes = {"d_model": 44, "n_heads": 4, "d_feedforward": 33, "n_encoder_layers": 1, "n_decoder_layers": 2}
    torch.manual_seed(0)
    made = build("transformer", {"n_source": 60, "n_target": 60, **sizes, **options}).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return pack_linears(made, precision)


def sentences():
    """Ids (1, T) of several lengths."""
    draw = torch.Generator().manual_seed(4)
    return [torch.randint(4, 60, (1, n), generator=draw) for n in (1, 9, 4, 30, 2, 17, 5, 6)]


def plan_of(limit=12, *, n_rows=1, prefixes=None, eos_id=3, **options):
    """A greedy plan of so many steps at most."""
    made = DecodeOptions(max_length=limit, **options)
    return make_plan(made, CPU, n_rows=n_rows, bos_id=2, eos_id=eos_id, pad_id=0, prefixes=prefixes)
