"""Trainings in one, two, three and four processes, with every random draw on; a program of its own.

    python process_jobs.py FOLDER [JOB ...]

Everything is imported once; the four are forks. All four join once; a training in fewer is done by a subgroup. Rank 0
writes FOLDER/results.json: the loss of each step by the name of the training, the digest of the examples that it has
seen, and what else was measured.
"""

import faulthandler
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor
from torch.utils import tensorboard  # noqa: F401 - imported before the forks, like all that a training imports

import tiny_images
import tiny_tasks
from regard.checkpoints.headers import outline
from regard.checkpoints.run import RunFolder
from regard.checkpoints.shards import local_part
from regard.config.training import TrainConfig
from regard.data.batching.plan import EpochPlan, Indices
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.registry import resolve, task_spec
from regard.training.distributed import ProcessGroup
from regard.training.progress import Window
from regard.training.setup import RunContext, TaskSetup
from regard.training.sharding import Sharded, _Loss, _shard, make_mesh
from regard.training.trainer import Trainer

CPU = torch.device("cpu")
STEPS = int(os.environ.get("STEPS", "60"))
TRANSLATION = """translation data.synthetic="dates" data.n_train=90 data.n_valid=6 data.n_test=4 tokenizer.size=300
model.d_model=16 model.n_heads=2 model.d_feedforward=32 model.n_encoder_layers=1 model.n_decoder_layers=1
model.dropout=0.1 model.attention_dropout=0.1 model.activation="gelu" tokenizer.dropout=0.1
train.batch_tokens=60 decode.max_length=12"""
EVERY = {"lr": 0.003, "warmup": 4, "clip": 1.0, "epsilon": 1e-4, "steps": 1000, "device": "cpu", "save_every": 1000}
SAME = {"same_draws": True, "precision": "fp64"}
BERT = "n_layers = 1, d_model = 16, n_heads = 2, d_feedforward = 32, dropout = 0.1, attention_dropout = 0.1"
SMALL = ["model.d_model=16", "model.n_heads=2", "model.d_feedforward=32"]
DROPPED = ["model.dropout=0.1", "model.attention_dropout=0.1"]
MIXED_IMAGES = ["model.n_layers=1", "model.stochastic_depth=0.1", "train.mixup=0.3", "train.cutmix=1.0"]


def labels(folder: Path) -> list[str]:
    """A classifier on a small BERT."""
    return [*tiny_tasks.labels(folder), f'model.backbone={{ name = "bert", {BERT} }}', "model.dropout=0.1"]


SETUPS: dict[str, Callable[[Path], list[str]]] = {
    "translation": lambda _: TRANSLATION.split(),
    "language": lambda folder: [*tiny_tasks.language(folder), *SMALL[:2], *DROPPED],
    "labels": labels,
    "images": lambda folder: [*tiny_images.images(folder), *SMALL, *DROPPED, *MIXED_IMAGES],
}


@dataclass(frozen=True)
class Place:
    """Where trainings take place: this process, and the groups that it may be in."""

    rank: int
    folder: Path
    groups: dict[int, tuple[dist.ProcessGroup, dist.ProcessGroup]]
    made: dict[str, TaskSetup] = field(default_factory=dict)

    def group(self, size: int, *, all_there_are: bool = False) -> ProcessGroup:
        handle, background = self.groups[size]
        return ProcessGroup(self.rank, size, None if all_there_are else handle, background)

    def setup(self, task: str) -> TaskSetup:
        """What is trained; the data is prepared by the first process, for all, and once."""
        if task not in self.made:
            self.made[task] = self._make(task)
        return self.made[task]

    def _make(self, task: str) -> TaskSetup:
        made = self.folder / task
        made.mkdir(exist_ok=True)
        self.wait()
        if self.rank == 0:
            (made / "given.json").write_text(json.dumps(SETUPS[task](made)))
        self.wait()
        name, *given = json.loads((made / "given.json").read_text())
        recipe = make_recipe(find_recipe(name), given)
        context = RunContext(RunFolder(made / "run"), group=ProcessGroup(self.rank, 4))
        setup: TaskSetup = resolve(task_spec(task).setup)(recipe, context)
        self.wait()
        return setup

    def wait(self) -> None:
        dist.barrier()


def trainer_for(place: Place, setup: TaskSetup, name: str, group: ProcessGroup, **options: Any) -> Trainer:
    run = RunFolder(place.folder / "runs" / name)
    run.path.mkdir(parents=True, exist_ok=True)
    config = TrainConfig(**EVERY | SAME | options)
    return Trainer(setup.task, deepcopy(setup.model), config, RunContext(run, group=group))


def seen(trainer: Trainer) -> str:
    """The digest of the examples of all processes; JSON's numbers would lose some of its digits elsewhere."""
    return f"{trainer.progress.examples_of_all(trainer.group.total):016x}"


def losses(trainer: Trainer, n: int, batches: Iterator[Any] | None = None) -> list[float]:
    """The loss a token of so many steps, over all processes."""
    trainer.model.train()
    batches = trainer._batches() if batches is None else batches
    found = []
    for _ in range(n):
        window = Window(0.0)
        trainer._step(batches, window)
        total, _, count = trainer.group.totals(window.total())
        found.append(total / count)
    trainer._feed.close()
    return found


def equal_losses(place: Place, results: dict[str, Any]) -> None:
    """Each task, sharded and not, in one to four processes; and in single precision in one and four."""
    for task in SETUPS:
        setup = place.setup(task)
        cases = [
            (size, shard, "fp64") for size in (1, 2, 3, 4) for shard in ("off", "full") if size > 1 or shard == "off"
        ]
        for size, shard, precision in [*cases, (1, "off", "fp32"), (4, "full", "fp32")]:
            if place.rank < size:
                name = f"{task} {shard} {size} {precision}"
                options = {"shard": shard, "weight_decay": 0.1, "precision": precision}
                trainer = trainer_for(place, setup, name, place.group(size), **options)
                results[name] = losses(trainer, STEPS)
                results[f"{name} seen"] = seen(trainer)
        place.wait()


MIXED = {"optimizer": "muon", "ema": 0.9, "accumulate": 2, "checkpointing": "blocks", "weight_decay": 0.1, "lr": 0.01}


def everything_at_once(place: Place, results: dict[str, Any]) -> None:
    """Muon, a moving average, accumulation, clipping, recomputed blocks, and meshes of two dimensions."""
    setup = place.setup("translation")
    cases: dict[str, tuple[int, dict[str, Any]]] = {
        "mixed plain 1": (1, {"checkpointing": "off"}),
        "mixed off 3": (3, {"shard": "off"}),
        "mixed full 3": (3, {"shard": "full"}),
        "mixed mesh 4": (4, {"shard": "full", "replicas": 2}),
    }
    for name, (size, options) in cases.items():
        if place.rank < size:
            group = place.group(size, all_there_are=size == 4)
            trainer = trainer_for(place, setup, name, group, **MIXED | options)
            results[name] = losses(trainer, 12)
            results[f"{name} seen"] = seen(trainer)
            results[f"{name} score"] = evaluated(trainer)
        place.wait()


def evaluated(trainer: Trainer) -> list[float]:
    trainer._evaluate()
    return list(trainer.progress.best.values())


def saved_and_resumed(place: Place, results: dict[str, Any]) -> None:
    """Saved by four that hold parts, gone on with by other numbers, in parts and not; and the other way round."""
    setup = place.setup("translation")
    for kind in ("ema", "average"):
        options = {"optimizer": "muon", kind: 0.9 if kind == "ema" else 2, "shard": "full"}
        first = trainer_for(place, setup, f"saved {kind}", place.group(4), **options)
        batches = first._batches()
        begun = losses(first, 5, batches)
        if first.averager:
            first.averager.snapshot(first.model)
        first._save(Window(0.0))
        results[f"saved {kind}"] = begun + losses(first, 5, batches)  # while the checkpoint is written
        results[f"saved {kind} seen"] = seen(first)
        first._saver.wait()
        place.wait()
        for size, shard in ((4, "full"), (3, "full"), (2, "full"), (1, "off"), (3, "off")):
            name = f"resumed {kind} {shard} {size}"
            if place.rank == 0:
                shutil.copytree(place.folder / "runs" / f"saved {kind}", place.folder / "runs" / name)
            place.wait()
            if place.rank < size:
                trainer = trainer_for(place, setup, name, place.group(size), **options | {"shard": shard})
                assert trainer.restore()
                results[name] = losses(trainer, 5)
                results[f"{name} seen"] = seen(trainer)
                if size == 1:  # and back: saved by one, in one piece
                    trainer._save(Window(0.0))
                    trainer._saver.wait()
            place.wait()
        again = trainer_for(place, setup, f"resumed {kind} off 1", place.group(4), **options)
        assert again.restore()
        results[f"back {kind}"] = losses(again, 3)
        place.wait()


def bytes_held(place: Place, results: dict[str, Any]) -> None:
    """What each process holds of a GPT-2 of 124M parameters and of AdamW's averages."""
    model = outline("gpt", {"size": "gpt2", "n_tokens": 50257})
    whole = sum(parameter.nbytes for parameter in model.parameters())
    mesh = make_mesh(ProcessGroup(place.rank, 4), CPU, 1)
    _shard(_Loss(None, model), mesh, device=CPU, bf16=False)  # type: ignore[arg-type]
    held = [local_part(parameter) for parameter in model.parameters()]
    states = [torch.zeros_like(part) for part in held for _ in range(2)]
    mine = torch.tensor([sum(part.nbytes for part in (*held, *states)) / (3 * whole)], dtype=torch.float64)
    shares = [torch.zeros_like(mine) for _ in range(4)]
    dist.all_gather(shares, mine)
    results["shares"] = [float(share) for share in shares]
    results["parameters"] = sum(p.numel() for p in model.parameters())
    setup = place.setup("language")
    trainer = trainer_for(place, setup, "held", place.group(4), shard="full")
    losses(trainer, 1)
    assert isinstance(trainer.parallel, Sharded)
    states = [local_part(v) for o in trainer.optimizer.optimizers for s in o.state.values() for v in s.values()]
    total = sum(p.nbytes for p in setup.model.double().parameters())
    results["state share"] = sum(one.nbytes for one in states if one.ndim) / (2 * total)


def empty_shares(place: Place, results: dict[str, Any]) -> None:
    """Batches of fewer examples than there are processes: who has none goes along."""
    setup = place.setup("labels")
    few: Any = copy(setup)
    few.task = copy(setup.task)
    few.task.plan = TwoAndOne()
    for size, shard in ((1, "off"), (4, "off"), (4, "full")):
        if place.rank < size:
            name = f"empty shares {shard} {size}"
            options = {"shard": shard, "accumulate": 2}
            trainer = trainer_for(place, few, name, place.group(size), **options)
            results[name] = losses(trainer, 4)
            results[f"{name} seen"] = seen(trainer)
        place.wait()


class TwoAndOne(EpochPlan):
    """Batches of two examples and of one, in turn."""

    def epoch(self, number: int) -> list[Indices]:
        return [np.arange(2 * batch, 2 * batch + 2 - batch % 2) for batch in range(20)]


JOBS = [equal_losses, everything_at_once, saved_and_resumed, empty_shares, bytes_held]


def work(rank: int, folder: Path, names: list[str]) -> None:
    """What one of the four processes does."""
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(240, exit=True)
    store = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=4, timeout=timedelta(seconds=240))
    ranks = {size: list(range(size)) for size in (1, 2, 3, 4)}
    groups = {size: (dist.new_group(ranks[size]), dist.new_group(ranks[size])) for size in ranks}
    place, results = Place(rank, folder, groups), dict[str, Any]()
    for job in JOBS:
        if not names or job.__name__ in names:
            job(place, results)
    if rank == 0:
        (folder / "results.json").write_text(json.dumps(results))
    place.wait()
    dist.destroy_process_group()


def start(rank: int, folder: Path, names: list[str]) -> int:
    """Fork one of them."""
    pid = os.fork()
    if pid:
        return pid
    os.dup2(os.open(folder / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    try:
        work(rank, folder, names)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    place, chosen = Path(sys.argv[1]), sys.argv[2:]
    children = [start(rank, place, chosen) for rank in range(4)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(map(abs, codes)))
