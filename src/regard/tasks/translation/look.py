"""A sentence and its translation, ready to be looked at."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from regard.errors import UsageError
from regard.inspection.forward_case import PAIR_SIDES, ForwardCase, OutputNames, device_of
from regard.inspection.record import Axis
from regard.inspection.words import Words
from regard.tasks.translation.batches import batch_of
from regard.tasks.translation.data import Languages


def pair_case(module: nn.Module, languages: Languages, *, source: Sequence[int], target: Sequence[int]) -> ForwardCase:
    """A sentence and its translation, as ids without marks."""
    if not source:
        raise UsageError("there is nothing to look at: the text is empty")
    batch = batch_of(languages, [source], [target]).to(device_of(module))
    read, write = languages.source.tokenizer, languages.target.tokenizer
    end, start = write.tokens([write.eos_id]), write.tokens([write.bos_id])
    pieces, words = write.tokens(target), Words.of(write, target)
    axes = {
        "source": Axis(read.tokens([*source, read.eos_id]), words=Words.of(read, source).with_mark()),
        "target": Axis(pieces + end, words=words.with_mark()),
        "fed": Axis(start + pieces, words=words.with_mark(first=True)),
    }
    output_names = OutputNames("target", "here", lambda index: write.tokens([index])[0], [*target, write.eos_id])
    return ForwardCase(module, batch.rows(), axes, PAIR_SIDES, output_names)
