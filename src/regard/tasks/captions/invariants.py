"""What a captioner promises, measured on images and captions: nothing depends on the neighbours, on caches, on fused
kernels, on being saved, or on what stands in the padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from regard.attention import Rows, watch
from regard.attention.taps import Tap
from regard.data.batching.plan import pad
from regard.data.images.arrays import Array
from regard.data.text.tokenizers import Tokenizer
from regard.decoding import DecodeOptions
from regard.decoding.scoring import force_decode
from regard.inspection.invariants import TOLERANCE, Check, measure_saved
from regard.models.interfaces.captions import as_captioner
from regard.tasks.captions.writer import CaptionWriter

STRATEGIES = {
    "greedy": DecodeOptions(max_length=24),
    "beam": DecodeOptions(strategy="beam", beam=4, max_length=24),
    "sampling": DecodeOptions(strategy="sample", top_k=10, seed=7, max_length=24),
}


@torch.inference_mode()
def measure_captions(
    module: nn.Module, tokenizer: Tokenizer, *, pixels: Array, captions: Sequence[Sequence[int]]
) -> Iterator[Check]:
    """Every promise on images (n, 3, H, W) with a caption each, as ids, one finding after another."""
    model = as_captioner(module)
    write = CaptionWriter([model], tokenizer)
    for name, options in STRATEGIES.items():
        together = write(pixels, options)
        alone = [write(pixels[i : i + 1], options, keys=[i])[0] for i in range(len(pixels))]
        different = sum(
            [a.ids for a in one] != [b.ids for b in many] for one, many in zip(alone, together, strict=True)
        )
        apart = max(abs(one[0].score - many[0].score) for one, many in zip(alone, together, strict=True))
        yield Check(f"a batch of one = a batch of {len(pixels)}, {name}", apart, TOLERANCE, different)
    images = torch.tensor(pixels, device=model.output_weight.device)
    target, labels = _rows(captions, tokenizer, images.device)
    whole = module(images, target)
    terms = whole.float().log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    stepper = model.start(images, capacity=target.ids.shape[1])
    marks = {"bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id, "pad_id": tokenizer.pad_id}
    steps = force_decode(stepper, captions, **marks)
    apart = max(
        float((torch.tensor(row, device=terms.device) - terms[i, : len(row)]).abs().max())
        for i, row in enumerate(steps)
    )
    yield Check("cached = uncached", apart, TOLERANCE)
    yield from _reading(module, images, target, whole)


def _reading(module: nn.Module, images: Tensor, target: Rows, whole: Tensor) -> Iterator[Check]:
    assert target.lengths is not None
    real = torch.arange(target.ids.shape[1], device=images.device) < target.lengths[:, None]
    allowed = TOLERANCE * min(1.0, float(whole.abs().max()))

    def apart(other: Tensor) -> float:
        return float((whole - other)[real].abs().max())

    if any(isinstance(part, Tap) for part in module.modules()):
        with watch(module, through=True):
            yield Check("fused = explicit", apart(module(images, target)), allowed)
    yield measure_saved(module, lambda again: apart(again(images, target)), allowed=allowed)
    other = Rows(torch.where(real, target.ids, whole.shape[-1] - 1), target.lengths)
    yield Check("what padding holds does not matter", apart(module(images, other)), 0.0)


def _rows(captions: Sequence[Sequence[int]], tokenizer: Tokenizer, device: torch.device) -> tuple[Rows, Tensor]:
    ids, lengths = pad([[tokenizer.bos_id, *ids] for ids in captions], tokenizer.pad_id)
    labels, _ = pad([[*ids, tokenizer.eos_id] for ids in captions], tokenizer.pad_id)
    return Rows(ids.to(device), lengths.to(device)), labels.to(device)
