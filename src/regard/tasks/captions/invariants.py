"""What a captioner promises, measured on images and captions: nothing depends on the neighbours, on caches, on fused
kernels, on being saved, or on what stands in the padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn

from regard.attention import Rows
from regard.data.batching.plan import pad
from regard.data.images.arrays import Array
from regard.data.text.tokenizers import Tokenizer
from regard.decoding.scoring import force_decode
from regard.inspection.invariants import (
    DRAWN,
    Check,
    Given,
    Trial,
    compare_alone,
    compare_cached,
    compare_draws,
    measure_reading,
    strategies,
)
from regard.models.interfaces.captions import as_captioner
from regard.tasks.captions.writer import CaptionWriter


@torch.inference_mode()
def measure_captions(
    module: nn.Module, tokenizer: Tokenizer, *, pixels: Array, captions: Sequence[Sequence[int]]
) -> Iterator[Check]:
    """Every promise on images (n, 3, H, W) with a caption each, as ids, one check after another."""
    model = as_captioner(module)
    write = CaptionWriter([model], tokenizer)
    for name, options in strategies(24).items():
        together = write(pixels, options)
        alone = [write(pixels[i : i + 1], options)[0] for i in range(len(pixels))]
        yield compare_alone(together, alone, strategy=name)
    drawn = replace(strategies(24)["sampling"], n_samples=DRAWN)
    yield compare_draws(lambda places: write(pixels[places], drawn), len(pixels))
    images = torch.tensor(pixels, device=model.output_weight.device)
    ids, lengths = pad([[tokenizer.bos_id, *ids] for ids in captions], tokenizer.pad_id)
    labels, _ = pad([[*ids, tokenizer.eos_id] for ids in captions], tokenizer.pad_id)
    target = Rows(ids.to(images.device), lengths.to(images.device))
    terms = module(images, target).float().log_softmax(-1).gather(-1, labels.to(images.device)[..., None])[..., 0]
    stepper = model.start(images, capacity=ids.shape[1])
    special = {"bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id, "pad_id": tokenizer.pad_id}
    steps = force_decode(stepper, captions, **special)
    yield compare_cached(steps, [row[: len(step)] for row, step in zip(terms.tolist(), steps, strict=True)])
    run = lambda module, given: module(images, given.rows[0])  # noqa: E731
    yield from measure_reading(Trial(module, Given((target,)), run, limit=ids.shape[1], rounded=True))
