"""What a transcriber promises, measured on recordings: nothing depends on the neighbours, on caches, on fused kernels,
on being saved, or on what stands behind a recording's end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention import Rows, watch
from regard.data.audio.files import Samples
from regard.inspection.invariants import DRAWN, TOLERANCE, Check, compare_draws, measure_saved
from regard.models.interfaces.speech import Frames
from regard.tasks.speech.config import SpeechOptions
from regard.tasks.speech.prompting import prompt_ids
from regard.tasks.speech.transcriber import Transcriber


def measure_speech(
    transcriber: Transcriber, recordings: Sequence[Samples], *, texts: Sequence[Sequence[int]], prompt: tuple[str, ...]
) -> Iterator[Check]:
    """Every promise on recordings with a text each, as ids, one check after another."""
    drawn = SpeechOptions(strategy="sample", n_samples=DRAWN, top_k=10, seed=7, max_length=24, prompt=prompt, vad=False)
    strategies = {
        "greedy": SpeechOptions(max_length=24, prompt=prompt, vad=False),
        "beam": SpeechOptions(strategy="beam", beam=3, max_length=24, prompt=prompt, vad=False),
        "sampling": drawn,
    }
    for name, options in strategies.items():
        together = [best_first[0].ids for best_first in transcriber(recordings, options)]
        alone = [transcriber([one], options)[0][0].ids for one in recordings]
        different = sum(one != other for one, other in zip(together, alone, strict=True))
        yield Check(f"a batch of one = a batch of {len(recordings)}, {name}", 0.0, 0.0, different)
    yield compare_draws(lambda places: transcriber([recordings[i] for i in places], drawn), len(recordings))
    opening = prompt_ids(transcriber.tokenizer, prompt)
    width = min(map(len, texts))
    yield from _measure_logits(transcriber, recordings, [[*opening, *ids[:width]] for ids in texts])


@torch.inference_mode()
def _measure_logits(
    transcriber: Transcriber, recordings: Sequence[Samples], targets: Sequence[Sequence[int]]
) -> Iterator[Check]:
    """Logits of the whole against the row alone, the steps, the explicit attention, and the copy on disk."""
    module: Any = transcriber.model
    frames, heard = transcriber.hear(recordings)
    target = torch.tensor(targets, device=heard.memory.device)
    together: Tensor = module(frames, target)
    allowed = TOLERANCE * min(1.0, float(together.abs().max()))

    def apart(other: Tensor) -> float:
        return float((together - other).abs().max())

    alone = [module(transcriber.hear([one])[0], target[i : i + 1]) for i, one in enumerate(recordings)]
    yield Check(f"a batch of one = a batch of {len(together)}", apart(torch.cat(alone)), allowed)
    stepper = transcriber.model.start(heard, capacity=target.shape[1])
    steps = torch.stack([stepper.step(target[:, t]) for t in range(target.shape[1])], 1)
    yield Check("cached = uncached", apart(steps), allowed)
    with watch(module, through=True):
        yield Check("fused = explicit", apart(module(frames, target)), allowed)
    yield measure_saved(module, lambda again: apart(again(frames, target)), allowed=allowed)
    real = torch.arange(frames.values.shape[1], device=frames.lengths.device) < frames.lengths[:, None]
    louder = Frames(frames.values.masked_fill(~real[..., None], 9.0), frames.lengths)
    lengths = torch.full((len(target),), target.shape[1], device=target.device)
    yield Check("what stands behind the end does not matter", apart(module(louder, Rows(target, lengths))), allowed)
