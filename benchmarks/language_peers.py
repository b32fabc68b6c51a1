"""The other sides of the language benchmarks: nanoGPT's own model where its file is at hand, and transformers' GPT-2.

nanogpt(Path("nanoGPT/model.py"), Shape(...))          its GPT, read from where it lies; no part of this repository
trainer = PeerTrainer(gpt2(Shape(...)), device="cuda", compiled=True)
trainer.train_step(ids, labels)                        forward, backward, clipping, fused AdamW; the loss
NanoGPT(CPU_SETTINGS, train, valid).fit()              its schedule, its batches, its evaluations on random batches
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """A GPT-2 and its batch."""

    d_model: int
    n_heads: int
    n_layers: int
    context: int
    vocabulary: int
    rows: int


def gpt2(shape: Shape, *, dropout: float = 0.0) -> nn.Module:
    """transformers' GPT-2 with random weights, from its configuration alone: nothing is fetched."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=shape.vocabulary, n_positions=shape.context, n_embd=shape.d_model, n_layer=shape.n_layers,
        n_head=shape.n_heads, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, bos_token_id=0,
        eos_token_id=0, attn_implementation="sdpa", use_cache=False,
    )  # fmt: skip
    model: nn.Module = GPT2LMHeadModel(config)
    return model


def nanogpt(file: Path, shape: Shape, *, dropout: float = 0.0) -> nn.Module:
    """nanoGPT's GPT with random weights and its own choice of no biases."""
    spec = importlib.util.spec_from_file_location("nanogpt_model", file)
    if spec is None or spec.loader is None or not file.exists():
        raise SystemExit(f"{file}: nanoGPT's model.py is not there; give its place with --nanogpt or REGARD_NANOGPT")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up
    with contextlib.redirect_stdout(io.StringIO()):  # it says how many parameters it has
        spec.loader.exec_module(module)
        config = module.GPTConfig(
            block_size=shape.context, vocab_size=shape.vocabulary, n_layer=shape.n_layers, n_head=shape.n_heads,
            n_embd=shape.d_model, dropout=dropout, bias=False,
        )  # fmt: skip
        model: nn.Module = module.GPT(config)
    return model


class PeerTrainer:
    """One model, its fused AdamW and its loss, compiled whole if asked; bf16 autocast on CUDA."""

    def __init__(self, model: nn.Module, *, device: str, compiled: bool, beta2: float = 0.95) -> None:
        self.device, self.model = device, model.to(device).train()
        matrices = [p for p in model.parameters() if p.ndim > 1]
        rest = [p for p in model.parameters() if p.ndim < 2]
        groups: list[dict[str, Any]] = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0}]
        self.optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, beta2), fused=device == "cuda")
        self.loss: Callable[[Tensor, Tensor], Tensor] = torch.compile(self._loss) if compiled else self._loss

    def _loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.logits(ids).flatten(0, 1), labels.flatten())

    def logits(self, ids: Tensor) -> Tensor:
        """What the model says at every position."""
        found: Tensor = self.model(ids).logits
        return found

    def train_step(self, ids: Tensor, labels: Tensor, *, lr: float = 6e-4) -> Tensor:
        """One update; the loss stays on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        with self.autocast():
            loss = self.loss(ids, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """bf16 autocast on CUDA, nothing elsewhere."""
        return torch.autocast("cuda", torch.bfloat16) if self.device == "cuda" else contextlib.nullcontext()


class NanoGPTTrainer(PeerTrainer):
    """The same around nanoGPT's own model: its loss, its optimizer, compiled whole as its train.py does."""

    def __init__(self, model: nn.Module, *, device: str, compiled: bool, beta2: float = 0.95) -> None:
        super().__init__(model, device=device, compiled=compiled, beta2=beta2)
        configure: Any = model.configure_optimizers
        with contextlib.redirect_stdout(io.StringIO()):
            self.optimizer = configure(0.1, 6e-4, (0.9, beta2), device)

    def _loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.model(ids, labels.contiguous())[1]  # it views them
        return loss

    def logits(self, ids: Tensor) -> Tensor:
        """Its forward pass gives all positions only where it is given labels."""
        found: Tensor = self.model(ids, ids.contiguous())[0]
        return found


@dataclass(frozen=True)
class Settings:
    """What nanoGPT's config/train_shakespeare_char.py and its README set."""

    shape: Shape
    steps: int
    dropout: float
    eval_batches: int
    eval_every: int = 250
    lr: float = 1e-3
    final_lr: float = 1e-4
    warmup: int = 100
    beta2: float = 0.99

    def rate(self, step: int) -> float:
        """nanoGPT's schedule; its first update is step 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / (self.warmup + 1)
        along = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        return self.final_lr + 0.5 * (1 + math.cos(math.pi * along)) * (self.lr - self.final_lr)


CPU_SETTINGS = Settings(Shape(128, 4, 4, 64, 65, 12), steps=2000, dropout=0.0, eval_batches=20)
GPU_SETTINGS = Settings(Shape(384, 6, 6, 256, 65, 64), steps=5000, dropout=0.2, eval_batches=200)


class NanoGPT:
    """nanoGPT's training loop over a text of ids: the weights that its own estimate likes best are kept."""

    def __init__(
        self, settings: Settings, train: Tensor, valid: Tensor, *, device: str, seed: int = 1337,
        file: Path | None = None,
    ) -> None:  # fmt: skip
        torch.manual_seed(seed)
        self.settings, self.data, self.device = settings, {"train": train, "valid": valid}, device
        how = {"device": device, "compiled": device == "cuda", "beta2": settings.beta2}
        if file is None:
            self.trainer = PeerTrainer(gpt2(settings.shape, dropout=settings.dropout), **how)
        else:
            self.trainer = NanoGPTTrainer(nanogpt(file, settings.shape, dropout=settings.dropout), **how)

    def fit(self, say: Callable[[str], None]) -> None:
        """Train, and leave the best weights in the model."""
        best, kept = math.inf, {}
        for step in range(self.settings.steps + 1):
            if step % self.settings.eval_every == 0:
                found = {part: self._estimate(part) for part in self.data}
                say(f"  peer, iteration {step}: train {found['train']:.4f}  valid {found['valid']:.4f}")
                if found["valid"] < best:
                    best = found["valid"]
                    kept = {name: tensor.clone() for name, tensor in self.trainer.model.state_dict().items()}
            self.trainer.train_step(*self._batch("train"), lr=self.settings.rate(step))
        self.trainer.model.load_state_dict(kept)

    @torch.no_grad()
    def measure(self, ids: Tensor) -> float:
        """Nats a token over a whole text, in windows that do not overlap, the last one counted where it is new."""
        model, T = self.trainer.model.eval(), self.settings.shape.context
        n, total = len(ids) - 1, 0.0
        full = n // T * T
        rows = [ids[:full].view(-1, T), ids[1 : full + 1].view(-1, T)]
        for some in zip(*(side.split(128) for side in rows), strict=True):
            total += self._summed(*some)
        if n > full:  # what is left over sees a whole window, and counts for what is new
            labels = ids[-T:].clone()
            labels[: T - (n - full)] = -100
            total += self._summed(ids[None, -T - 1 : -1], labels[None])
        model.train()
        return total / n

    def _summed(self, ids: Tensor, labels: Tensor) -> float:
        with self.trainer.autocast():
            logits = self.trainer.logits(ids.to(self.device)).float()
        return float(F.cross_entropy(logits.flatten(0, 1), labels.flatten().to(self.device), reduction="sum"))

    @torch.no_grad()
    def _estimate(self, part: str) -> float:
        model = self.trainer.model.eval()
        losses = []
        for _ in range(self.settings.eval_batches):
            with self.trainer.autocast():
                losses.append(self.trainer.loss(*self._batch(part)))
        model.train()
        return float(torch.stack(losses).float().mean())

    def _batch(self, part: str) -> tuple[Tensor, Tensor]:
        text, shape = self.data[part], self.settings.shape
        starts = torch.randint(len(text) - shape.context, (shape.rows,))
        rows = torch.stack([text[start : start + shape.context + 1] for start in starts.tolist()])
        return rows[:, :-1].to(self.device), rows[:, 1:].to(self.device)
