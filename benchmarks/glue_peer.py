"""The other side of fine-tuning: a BERT of transformers with its own head, in the loop that its `Trainer` runs.

`Trainer` itself needs `accelerate`; this is what it does by default, written out: AdamW without decay on biases and
norms, a straight fall of the rate to zero after the warm-up, gradients clipped, batches at random padded to their
longest, the last one smaller, and the final weights are what counts. float32, with TF32 products on a GPU.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.config.training import TuningConfig
from regard.data.text.label_space import LabelSpace
from regard.data.text.labelled import Example
from regard.tasks.labels.data import LabelledSets
from regard.tasks.labels.metrics import class_figures, number_figures

_TESTED_AT_ONCE = 64


def fine_tune_labels(
    folder: str, sets: LabelledSets, train: TuningConfig, *, max_tokens: int, device: str
) -> dict[str, float]:
    """Fine-tune `BertForSequenceClassification` and measure it on the validation examples."""
    from transformers import AutoTokenizer, BertForSequenceClassification

    seed_all(train.seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = BertForSequenceClassification.from_pretrained(folder, num_labels=sets.space.n_outputs)
    model.float().to(device)  # whatever precision the file has

    def batch(examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        pairs = None if examples[0].pair is None else [example.pair for example in examples]
        found = tokenizer(
            [e.text for e in examples], pairs, truncation=True, max_length=max_tokens, padding=True, return_tensors="pt"
        )
        return dict(found) | {"labels": _labels(sets.space, examples)}

    fit(model, sets.train, batch, train=train, device=device)
    return _measure(model, sets, batch, device=device)


def fit(
    model: nn.Module,
    examples: Sequence[Any],
    batch: Callable[[Sequence[Any]], dict[str, torch.Tensor]],
    *,
    train: TuningConfig,
    device: str,
) -> None:
    """The loop: epochs over shuffled examples; the model computes its own loss."""
    torch.set_float32_matmul_precision("high")
    optimizer = torch.optim.AdamW(
        groups(model, train.weight_decay), lr=train.lr, betas=train.betas, eps=train.epsilon, fused=device == "cuda"
    )
    size = train.batch_examples
    steps = round(train.epochs * -(-len(examples) // size))
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share(step, warmup=train.warmup, steps=steps))
    model.train()
    drawn = _drawn(len(examples), size, seed=train.seed)
    for _ in range(steps):
        inputs = {name: tensor.to(device) for name, tensor in batch([examples[i] for i in next(drawn)]).items()}
        model(**inputs).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), train.clip)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
    model.eval()


def groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """As `Trainer` groups parameters: no decay on biases and norms."""
    named = list(model.named_parameters())
    spared = [p for name, p in named if name.endswith("bias") or "LayerNorm" in name]
    kept = [p for name, p in named if not (name.endswith("bias") or "LayerNorm" in name)]
    return [{"params": kept, "weight_decay": decay}, {"params": spared, "weight_decay": 0.0}]


def share(step: int, *, warmup: int, steps: int) -> float:
    """The share of the rate at a step, from 0 on: `get_linear_schedule_with_warmup`."""
    return step / max(1, warmup) if step < warmup else max(0.0, (steps - step) / max(1, steps - warmup))


def seed_all(seed: int) -> None:
    """What `set_seed` does."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _drawn(n: int, size: int, *, seed: int) -> Iterator[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(n, generator=generator).tolist()
        yield from (order[start : start + size] for start in range(0, n, size))


def _labels(space: LabelSpace, examples: Sequence[Example]) -> torch.Tensor:
    if space.numeric:
        return torch.tensor([float(example.label) for example in examples])
    return torch.tensor([int(space.encode(example.label)) for example in examples])


@torch.inference_mode()
def _measure(
    model: nn.Module, sets: LabelledSets, batch: Callable[[Sequence[Example]], dict[str, torch.Tensor]], *, device: str
) -> dict[str, float]:
    outputs = []
    for start in range(0, len(sets.valid), _TESTED_AT_ONCE):
        inputs = batch(sets.valid[start : start + _TESTED_AT_ONCE])
        inputs.pop("labels")
        outputs.append(model(**{name: tensor.to(device) for name, tensor in inputs.items()}).logits.float().cpu())
    said = torch.cat(outputs).double().numpy()
    if sets.space.numeric:
        return number_figures([float(example.label) for example in sets.valid], said[:, 0])
    truth = _labels(sets.space, sets.valid).numpy()
    return class_figures(truth, said.argmax(1), n_classes=len(sets.space.names))
