"""Weights, gradients and the optimizer's state in parts: each process holds a share of them (FSDP2, `fully_shard`).

    train.shard=full                     every process holds 1/N of everything
    train.shard=full train.replicas=R    R groups of N/R processes; each group holds everything once
    train.shard=auto                     on GPUs, where a copy each would take much of their memory; else a copy each

Blocks are put together one by one: before a block computes, its weights are gathered from all processes, and afterwards
they are dropped; its gradients are summed and shared out while the backward pass goes on below. What is not in a block
(embeddings, last norms) is gathered once a pass. With bf16 the blocks' weights travel and compute in bf16; what is
held, summed and updated is in single precision.

A task evaluates a plain model: the first process gathers the weights into one, and the others wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from regard.checkpoints.shards import gather, local_part
from regard.config.training import TrainConfig
from regard.errors import ConfigError
from regard.training.distributed import ProcessGroup, together
from regard.training.parallel import Parallel, Pass
from regard.training.protocol import Batch, Losses, Trainable
from regard.training.recompute import blocks_of
from regard.training.reduction import Replicated

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_BYTES = 16  # a parameter takes in single precision: its weight, gradient and two averages of AdamW
_SHARE = 0.3  # of a device's memory that these may take in every process


def choose_parallel(
    task: Trainable, model: nn.Module, config: TrainConfig, *, group: ProcessGroup, device: torch.device, bf16: bool
) -> Parallel:
    """How the processes hold a model, by its recipe and its size."""
    if shards(model, config, group=group, device=device):
        return Sharded(task, model, group, device=device, replicas=config.replicas, bf16=bf16)
    model.to(device)
    return Parallel(task, model) if group.size == 1 else Replicated(task, model, group)


def shards(model: nn.Module, config: TrainConfig, *, group: ProcessGroup, device: torch.device) -> bool:
    """Whether a model is held in parts; what cannot be done so is refused."""
    if config.shard == "auto":
        needed = _BYTES * sum(p.numel() for p in model.parameters())
        large = device.type == "cuda" and needed > _SHARE * torch.cuda.get_device_properties(device).total_memory
        sharded = group.size > 1 and (large or config.replicas > 1)
    else:
        sharded = config.shard == "full"
    check_parallel(config, group, sharded=sharded)
    return sharded


def check_parallel(config: TrainConfig, group: ProcessGroup, *, sharded: bool) -> None:
    """Refuse what several processes, or one that holds its weights in parts, cannot do."""
    if sharded and group.size % config.replicas:
        fitting = [n for n in range(1, group.size + 1) if group.size % n == 0]
        raise ConfigError(
            f"train.replicas is {config.replicas}, and {group.size} processes cannot be shared out evenly over them",
            hint=f"set train.replicas to one of {', '.join(map(str, fitting))}",
        )
    if sharded and config.compile == "on":
        raise ConfigError(
            "train.compile=on fuses a loss whose weights are whole, and train.shard=full holds them in parts",
            hint="set train.compile=off, or train.shard=off",
        )
    if config.cuda_graphs == "on" and (sharded or group.size > 1):
        raise ConfigError(
            "train.cuda_graphs=on captures the steps of one process, and this one has to speak with others",
            hint="set train.cuda_graphs=auto",
        )


class _Loss(nn.Module):
    """A task's loss as a module: whatever of a model it calls, its weights are gathered first."""

    def __init__(self, task: Trainable, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, batch: Any) -> Losses:
        losses = self.task.loss(self.model, batch)
        return losses._replace(total=losses.total.clone())  # no view: what gathers weights again hangs on it


class Sharded(Parallel):
    """Each process has a part of the model, and its share of every batch."""

    def __init__(
        self,
        task: Trainable,
        model: nn.Module,
        group: ProcessGroup,
        *,
        device: torch.device,
        replicas: int = 1,
        bf16: bool = False,
    ) -> None:
        super().__init__(task, deepcopy(model))
        self.plain, self.group, self.device = model, group, device
        self._shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        _release(model)
        model.to(device)
        self.mesh = make_mesh(group, device, replicas)
        self.writes = self.mesh.ndim == 1 or self.mesh.get_local_rank("replicate") == 0
        self._root = _Loss(task, self.model)
        self._spare: Batch | None = None
        _shard(self._root, self.mesh, device=device, bf16=bf16)

    def passes(self, batches: Sequence[Batch]) -> Iterator[Pass]:
        """Every batch, also where this process has no share of it: the others need its part of the weights."""
        for number, batch in enumerate(batches, start=1):
            self._root.set_requires_gradient_sync(number == len(batches))  # type: ignore[operator]
            yield Pass(batch) if batch.n_tokens else Pass(self._stand_in(), counts=False)

    def loss(self, batch: Any) -> Losses:
        """The summed loss of a batch."""
        with together(computing=True):
            losses: Losses = self._root(batch)
        return losses

    def clip(self, max_norm: float) -> None:
        """Scale all gradients down together to a norm of at most `max_norm`."""
        gradients = [local_part(p.grad) for p in self.model.parameters() if p.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients))
        total = norms.square().sum()
        with together():
            dist.all_reduce(total, group=self.mesh.get_group("shard"))
        share = (max_norm / (total.sqrt() + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, share)

    @contextmanager
    def gathered(self) -> Iterator[nn.Module]:
        """The plain model with the weights of now, in the first process; in the others it has none."""
        own = dict(self.plain.named_parameters())
        with torch.no_grad(), together(computing=True):
            for name, parameter in self.model.named_parameters():
                full = gather(parameter)
                if self.group.first:
                    own[name].data = torch.empty_like(full)
                    own[name].copy_(full)
        try:
            yield self.plain
        finally:
            _release(self.plain)

    def close(self) -> None:
        """Leave a plain model that weights can be loaded into, in the first process."""
        if self.group.first:
            for name, parameter in self.plain.named_parameters():
                parameter.data = torch.empty(self._shapes[name], dtype=parameter.dtype, device=self.device)

    def _stand_in(self) -> Batch:
        """A batch that gradients of zero are made of."""
        if self._spare is None:
            from regard.data.batching.plan import Position

            self._spare = next(iter(self.task.batches(Position())))[1]
        return self._spare


def make_mesh(group: ProcessGroup, device: torch.device, replicas: int) -> DeviceMesh:
    """The processes in a row that weights are shared out over, or in a table of several such rows."""
    from torch._C._distributed_c10d import HashStore
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", store=HashStore(), rank=0, world_size=1)
    if group.handle is not None:
        return DeviceMesh.from_group(group.handle, device.type, mesh_dim_names=("shard",))
    if replicas == 1:
        return init_device_mesh(device.type, (group.size,), mesh_dim_names=("shard",))
    shape = (replicas, group.size // replicas)
    return init_device_mesh(device.type, shape, mesh_dim_names=("replicate", "shard"))


def _shard(root: nn.Module, mesh: DeviceMesh, *, device: torch.device, bf16: bool) -> None:
    """Share the weights out, block by block, then all others; gradients are summed, not averaged."""
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard  # takes seconds to import

    narrow = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    policy = narrow if bf16 and device.type == "cuda" else MixedPrecisionPolicy(cast_forward_inputs=False)
    for block in _separate(blocks_of(root), root):
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(root, mesh=mesh, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False))
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def _separate(blocks: Sequence[nn.Module], root: nn.Module) -> list[nn.Module]:
    """The blocks that share no weight with anything outside of them."""
    users: dict[int, int] = {}
    for module in root.modules():
        for parameter in module.parameters(recurse=False):
            users[id(parameter)] = users.get(id(parameter), 0) + 1

    def alone(block: nn.Module) -> bool:
        inside: dict[int, int] = {}
        for module in block.modules():
            for parameter in module.parameters(recurse=False):
                inside[id(parameter)] = inside.get(id(parameter), 0) + 1
        return all(users[key] == n for key, n in inside.items())

    return [block for block in blocks if alone(block)]


def _release(model: nn.Module) -> None:
    """Give the memory of a model's weights back."""
    for parameter in model.parameters():
        parameter.data = parameter.data.new_empty(0)
