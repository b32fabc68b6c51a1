"""What turns gradients into better weights: AdamW, or Muon for the matrices inside blocks and AdamW for the rest.

    optimizer = make_optimizer(model, name="muon", lr=…)
    optimizer.step(rate)                         the rate comes from outside, step by step
    optimizer.state_tensors()                    flat names, so that a checkpoint is a plain table of tensors

Biases, norms and embeddings are not decayed. Shared parameters are updated once, and appear under their first name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.checkpoints.sharded import StoredTensor
from regard.checkpoints.shards import as_stored, part_like, placed_like, whole
from regard.config.training import OptimizerName
from regard.errors import ConfigError
from regard.layers import DecoderBlock, Embedding, EncoderBlock, GatedFeedForward
from regard.training.averaging import State, Stored, check_tensors
from regard.training.muon import Muon

_FUSED_ON = {"cpu", "cuda", "mps", "xpu"}
_STATE = {torch.optim.AdamW: ("step", "exp_avg", "exp_avg_sq"), Muon: ("momentum",)}


class JointOptimizer:
    """One or two optimizers that share out a model's parameters, stepped and stored as one."""

    def __init__(self, named: Mapping[str, nn.Parameter], optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.optimizers = list(optimizers)
        held = {id(p): o for o in self.optimizers for group in o.param_groups for p in group["params"]}
        self._owners = {name: (p, held[id(p)]) for name, p in named.items()}

    def step(self, lr: float) -> None:
        """Update the parameters at this rate."""
        self.set_rate(lr)
        self.apply()

    def set_rate(self, lr: float) -> None:
        """The rate of the updates to come."""
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        for group in groups:
            if not isinstance(group["lr"], Tensor):
                group["lr"] = lr
        for rate in {id(group["lr"]): group["lr"] for group in groups if isinstance(group["lr"], Tensor)}.values():
            rate.fill_(lr)

    def apply(self) -> None:
        """Update the parameters at the rate that is set."""
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def state_tensors(self) -> State:
        """All that the next step depends on besides weights and rate; the tensors themselves, not copies."""
        return {
            f"{name}.{key}": as_stored(value)
            for name, (parameter, optimizer) in self._owners.items()
            for key, value in optimizer.state.get(parameter, {}).items()
        }

    def load_state_tensors(self, tensors: Stored) -> None:
        """Go on from a stored state. A parameter that had no gradient yet has none."""
        self._check(tensors)
        for name, (parameter, optimizer) in self._owners.items():
            keys = [key for key in _STATE[type(optimizer)] if f"{name}.{key}" in tensors]
            optimizer.state.pop(parameter, None)
            if keys:
                state = {key: _placed(key, tensors[f"{name}.{key}"], parameter, optimizer) for key in keys}
                optimizer.state[parameter] = state

    def _check(self, tensors: Stored) -> None:
        expected: dict[str, torch.Size] = {}
        for name, (parameter, optimizer) in self._owners.items():
            shapes = {key: torch.Size() if key == "step" else parameter.shape for key in _STATE[type(optimizer)]}
            if any(f"{name}.{key}" in tensors for key in shapes):
                expected |= {f"{name}.{key}": shape for key, shape in shapes.items()}
        check_tensors(tensors, expected, what="optimizer")


def make_optimizer(
    model: nn.Module,
    *,
    name: OptimizerName = "adamw",
    lr: float,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.98),
    epsilon: float = 1e-9,
    momentum: float = 0.95,
    recordable: bool = False,
) -> JointOptimizer:
    """The optimizer a config names, for all parameters that are trained. `momentum` is Muon's.

    A `recordable` one keeps its rate on the device, where recorded work finds it.
    """
    if name not in ("adamw", "muon"):
        raise ConfigError(f"no optimizer is called {name!r}; there are ['adamw', 'muon']")
    named = {key: p for key, p in model.named_parameters() if p.requires_grad}
    matrices = _matrices(model) if name == "muon" else {}
    if name == "muon" and not matrices:
        raise ConfigError(
            f"muon is for the matrices inside attention blocks, and {type(model).__name__} has none",
            hint="use train.optimizer=adamw",
        )
    embeddings = _embeddings(model)
    rest = [p for p in named.values() if id(p) not in matrices]
    decayed = [p for p in rest if p.ndim > 1 and id(p) not in embeddings]
    spared = [p for p in rest if p.ndim <= 1 or id(p) in embeddings]
    rate = torch.tensor(lr, device=rest[0].device) if recordable else lr
    adamw = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}],
        lr=rate,
        betas=betas,
        eps=epsilon,
        capturable=recordable,
        fused=all(p.device.type in _FUSED_ON for p in rest),
    )
    if not matrices:
        return JointOptimizer(named, [adamw])
    groups = [{"params": [p], "splits": matrices[id(p)]} for p in named.values() if id(p) in matrices]
    return JointOptimizer(named, [Muon(groups, lr=rate, weight_decay=weight_decay, momentum=momentum), adamw])


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients down together to a norm of at most `max_norm`; the norm they had, still on the device."""
    return nn.utils.clip_grad_norm_(parameters, max_norm)


def _matrices(model: nn.Module) -> dict[int, tuple[int, ...] | None]:
    """The trained matrices of linear layers inside blocks, by id, each with the rows of its parts."""
    blocks = [module for module in model.modules() if isinstance(module, (EncoderBlock, DecoderBlock))]
    layers = [module for block in blocks for module in block.modules() if isinstance(module, nn.Linear)]
    shared, splits = _embeddings(model), _splits(model)
    weights = [layer.weight for layer in layers if layer.weight.requires_grad and min(layer.weight.shape) > 1]
    return {id(weight): splits.get(id(weight)) for weight in weights if id(weight) not in shared}


def _splits(model: nn.Module) -> dict[int, tuple[int, ...]]:
    """How many rows each part of a joint projection has."""
    splits: dict[int, tuple[int, ...]] = {}
    for module in model.modules():
        if isinstance(module, GatedFeedForward):
            splits[id(module.gate_inner.weight)] = (module.gate_inner.out_features // 2,) * 2
        elif isinstance(module, MultiHeadAttention):
            queries, keys = module.n_heads * module.d_head, module.n_kv_heads * module.d_head
            if module.tap.kind == "cross":
                splits[id(module.key_value.weight)] = (keys, keys)
            else:
                splits[id(module.query_key_value.weight)] = (queries, keys, keys)
    return splits


def _embeddings(model: nn.Module) -> set[int]:
    """Parameters that are looked up by id somewhere, whatever else they are shared with."""
    return {id(module.weight) for module in model.modules() if isinstance(module, (Embedding, nn.Embedding))}


def _placed(key: str, stored: Tensor | StoredTensor, parameter: Tensor, optimizer: torch.optim.Optimizer) -> Tensor:
    """A copy of a stored tensor where the optimizer wants it: AdamW counts steps on the processor unless fused."""
    group: dict[str, Any] = optimizer.param_groups[0]
    device = torch.device("cpu") if key == "step" and not group["fused"] else parameter.device
    if key == "step":
        return whole(stored).detach().to(device, copy=True)
    return placed_like(part_like(stored, parameter).detach().to(device, copy=True), parameter)
