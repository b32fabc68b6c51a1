"""Whether a model keeps the promises that make its numbers trustworthy, measured on sentences.

alone      a sentence decoded alone comes out as among others: greedy, beam search, sampling
cached     decoding step by step finds the log-probabilities of one pass over the whole target
explicit   attention computed step by step gives the logits of the fused kernels
saved      what is written to disk and read back computes the same bits
padding    what stands in the padding changes no bit; more of it changes nothing that matters
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from regard.attention import Rows, watch
from regard.attention.taps import Tap
from regard.checkpoints import load_weights, read_tensors, weights_of, write_tensors
from regard.decoding import DecodeOptions
from regard.decoding.forced import force_decode
from regard.models.protocol import Seq2SeqModel
from regard.tasks.given import given_log_probs
from regard.tasks.pair_training import PairBatch, batch_of
from regard.tasks.pairs import Languages
from regard.tasks.translation import Translator

TOLERANCE = 1e-3  # of logits and log-probabilities in single precision: rounding stays far below, mistakes far above
STRATEGIES = {
    "greedy": DecodeOptions(max_length=48),
    "beam": DecodeOptions(strategy="beam", beam=4, max_length=48),
    "sampling": DecodeOptions(strategy="sample", top_k=10, seed=7, max_length=48),
}


@dataclass(frozen=True)
class Finding:
    """One promise: what was compared, the largest difference, how many sentences came out different, and the verdict.

    `kept` where no sentence differs and the difference is within `allowed`.
    """

    promise: str
    difference: float
    allowed: float
    n_different: int = 0

    @property
    def kept(self) -> bool:
        """Whether the promise holds."""
        return self.n_different == 0 and self.difference <= self.allowed


@torch.inference_mode()
def measure_promises(
    module: nn.Module, languages: Languages, *, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[Finding]:
    """Measure every promise on these sentences and their translations, one finding after another."""
    assert isinstance(module, Seq2SeqModel)
    ids = languages.source.encode(sources), languages.target.encode(targets)
    for name, options in STRATEGIES.items():
        yield _alone(Translator([module], languages), sources, name=name, options=options)
    yield _cached(module, languages, *ids)
    batch = batch_of(languages, *ids).to(module.output_weight.device)
    if any(isinstance(part, Tap) for part in module.modules()):
        yield _explicit(module, batch)
    yield _saved(module, batch)
    yield from _padding(module, batch)


def _alone(translator: Translator, sources: Sequence[str], *, name: str, options: DecodeOptions) -> Finding:
    together = translator(sources, options)
    alone = [translator([text], options, keys=[i])[0] for i, text in enumerate(sources)]
    pairs = list(zip(together, alone, strict=True))
    different = sum([t.ids for t in many] != [t.ids for t in one] for many, one in pairs)
    apart = max(abs(many[0].score - one[0].score) for many, one in pairs)
    return Finding(f"a batch of one = a batch of {len(sources)}, {name}", apart, TOLERANCE, different)


def _cached(
    module: Seq2SeqModel, languages: Languages, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> Finding:
    tokenizer = languages.target.tokenizer
    capacity = max(map(len, targets)) + 1
    stepper = module.start(Translator([module], languages).source_rows(sources), capacity=capacity)
    steps = force_decode(stepper, targets, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id, pad_id=tokenizer.pad_id)
    whole = given_log_probs(module, languages, sources=sources, targets=targets)
    pairs = zip(steps, whole, strict=True)
    apart = max(abs(one - other) for a, b in pairs for one, other in zip(a, b, strict=True))
    return Finding("cached = uncached", apart, TOLERANCE)


def _explicit(module: nn.Module, batch: PairBatch) -> Finding:
    fused = module(*batch.rows())
    with watch(module, through=True):
        explicit = module(*batch.rows())
    return Finding("fused = explicit", _apart(fused, explicit, batch), TOLERANCE)


def _saved(module: nn.Module, batch: PairBatch) -> Finding:
    copy = deepcopy(module)
    for tensor in weights_of(copy).values():
        tensor.zero_()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_tensors(path, weights_of(module))
        load_weights(copy, read_tensors(path), origin=str(path))
    return Finding("saved and loaded = itself", _apart(module(*batch.rows()), copy(*batch.rows()), batch), 0.0)


def _padding(module: nn.Module, batch: PairBatch) -> Iterator[Finding]:
    """Other ids in the padding; then more padding."""
    plain = module(*batch.rows())
    other = [_refilled(rows) for rows in batch.rows()]
    yield Finding("what padding holds does not matter", _apart(plain, module(*other), batch), 0.0)
    wider = [_refilled(rows, extra=5) for rows in batch.rows()]
    more = module(*wider)[:, : plain.shape[1]]
    yield Finding("how much padding there is does not matter", _apart(plain, more, batch), TOLERANCE)


def _refilled(rows: Rows, *, extra: int = 0) -> Rows:
    """The same rows with another id in the padding, and with more padding."""
    assert rows.lengths is not None
    n_rows, length = rows.ids.shape
    ids = torch.full((n_rows, length + extra), int(rows.ids.max()), device=rows.ids.device, dtype=rows.ids.dtype)
    real = torch.arange(length, device=ids.device) < rows.lengths[:, None]
    ids[:, :length] = torch.where(real, rows.ids, ids[:, :length])
    return Rows(ids, rows.lengths)


def _apart(one: Tensor, other: Tensor, batch: PairBatch) -> float:
    """The largest difference of logits (B, T, V) at the real target positions."""
    real = torch.arange(one.shape[1], device=one.device) < batch.target_lengths[:, None]
    return float((one - other)[real].abs().max())
