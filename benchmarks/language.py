"""Language models against their peers: training speed, what the loss costs, and quality on Shakespeare.

    python benchmarks/language.py train       [--device cuda] [--profile] [--save]    GPT-2 124M beside transformers',
                                              with --nanogpt FILE (or REGARD_NANOGPT), beside nanoGPT's own model.py
    python benchmarks/language.py curve       [--device cuda]     half-precision residuals against single ones
    python benchmarks/language.py loss        [--device cuda]     output and cross-entropy alone, three ways
    python benchmarks/language.py shakespeare [--device cpu] [--seeds 1 2 3] [--nanogpt FILE] [--save] [key=value]

Training goes through the real loop, on a made-up text: batches cut, copied, loss, clipping, AdamW, reports. Shakespeare
is in `shakespeare.py`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from language_peers import NanoGPTTrainer, PeerTrainer, Shape, gpt2, nanogpt
from record import row, save
from regard.checkpoints.run import RunFolder
from regard.config.devices import computing
from regard.config.training import ReadingConfig
from regard.data.text.streams import StreamHeader, TokenStream
from regard.data.text.tokenizers import Tokenizer
from regard.data.text.vocabulary import learn_tokenizer
from regard.fast.loss import cross_entropy as losses
from regard.models.gpt import GPT, GPTConfig
from regard.tasks.language.training import LanguageTraining, language_loss
from regard.training.optimizers import make_optimizer
from regard.training.prefetch import Prefetcher
from regard.training.progress import Window
from regard.training.setup import RunContext
from regard.training.trainer import Trainer
from shakespeare import shakespeare

ANCHORS = {  # GPT-2 124M with its vocabulary padded; on a CPU a toy that shows that all of this runs
    "cuda": (Shape(768, 12, 12, 1024, 50_304, 64), 32),
    "cpu": (Shape(64, 2, 2, 64, 512, 4), 2),
}
PROFILED = 24  # steps


def say(text: str) -> None:
    print(text, flush=True)


def model_of(shape: Shape, **options: Any) -> GPT:
    return GPT(
        GPTConfig(
            n_tokens=shape.vocabulary, d_model=shape.d_model, n_heads=shape.n_heads, n_layers=shape.n_layers,
            n_positions=shape.context, dropout=0.0, **options,
        )
    )  # fmt: skip


def made_up_text(folder: Path, vocabulary: int, n_tokens: int) -> TokenStream:
    """A stream of random ids on disk, as a tokenised corpus lies there."""
    folder.mkdir()
    ids = np.random.default_rng(0).integers(4, vocabulary, n_tokens)
    ids.astype("<u2").tofile(folder / "stream.ids")
    np.array([0, n_tokens], "<i8").tofile(folder / "stream.offsets")
    counts = {"documents": 1, "tokens": n_tokens, "characters": n_tokens, "bytes": n_tokens, "words": n_tokens}
    header = StreamHeader(fingerprint="made up", dtype="<u2", **counts)
    (folder / "stream.json").write_text(json.dumps(asdict(header)))
    return TokenStream.open(folder)


@contextmanager
def trainer_of(
    shape: Shape, *, device: str, steps: int, train: Mapping[str, Any] | None = None, **options: Any
) -> Iterator[Trainer]:
    """The real trainer, on a made-up text, in a folder that goes away; `train` are settings of its section."""
    with tempfile.TemporaryDirectory() as folder:
        text = made_up_text(Path(folder) / "text", shape.vocabulary, max(2_000_000, 4 * shape.rows * shape.context))
        budget = shape.rows * shape.context
        task = LanguageTraining(_tokenizer(), text, text, context=shape.context, budget_tokens=budget, seed=1)
        config = ReadingConfig(
            steps=steps, batch_tokens=budget, device=device, lr=6e-4, betas=(0.9, 0.95), warmup=10, clip=1.0,
            log_every=max(1, steps // 6), eval_every=10**9, save_every=10**9, **(train or {}),
        )  # fmt: skip
        run = RunFolder(Path(folder) / "run")
        run.path.mkdir()
        torch.manual_seed(0)
        yield Trainer(task, model_of(shape, **options), config, RunContext.join(run, device=device))


def train_regard(shape: Shape, *, device: str, steps: int, **options: Any) -> dict[str, float]:
    """Tokens a second of the real loop, reports included: the middle one of the last windows."""
    _start_counting(device)
    with trainer_of(shape, device=device, steps=steps, **options) as trainer:
        trainer.fit()
        lines = [json.loads(line) for line in trainer.run.metrics.read_text().splitlines()]
    rates = sorted(line["tokens_per_second"] for line in lines[2:])
    return _facts(shape, rates[len(rates) // 2], device)


def train_peer(shape: Shape, *, device: str, steps: int, file: Path | None = None) -> dict[str, float]:
    """The same for transformers' GPT-2, or nanoGPT's, on batches that lie ready on the device."""
    _start_counting(device)
    compiled = device == "cuda"
    trainer = (
        PeerTrainer(gpt2(shape), device=device, compiled=compiled)
        if file is None
        else NanoGPTTrainer(nanogpt(file, shape), device=device, compiled=compiled)
    )
    rows = torch.randint(4, shape.vocabulary, (8, shape.rows, shape.context + 1), device=device)
    for i in range(6):
        trainer.train_step(rows[i % 8, :, :-1], rows[i % 8, :, 1:])
    _wait(device)
    begin = time.perf_counter()
    for i in range(steps):
        trainer.train_step(rows[i % 8, :, :-1], rows[i % 8, :, 1:])
    _wait(device)
    return _facts(shape, steps * shape.rows * shape.context / (time.perf_counter() - begin), device)


def train(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All contestants; nanoGPT's own model has no biases, GPT-2 and transformers' have."""
    device, (shape, peer_rows) = options.device, ANCHORS[options.device]
    shape = replace(shape, rows=options.rows or shape.rows)
    steps = options.steps or (90 if device == "cuda" else 12)
    bare = {"attention_bias": False, "feedforward_bias": False, "norm_bias": False}
    if options.profile:
        profile(shape, device=device, **bare)
        return []
    ways: dict[str, Callable[[], dict[str, float]]] = {
        "regard": lambda: train_regard(shape, device=device, steps=steps),
        "regard without biases": lambda: train_regard(shape, device=device, steps=steps, **bare),
        "transformers": lambda: train_peer(replace(shape, rows=peer_rows), device=device, steps=max(1, steps // 2)),
    }
    if options.nanogpt:
        ways["nanoGPT"] = lambda: train_peer(
            replace(shape, rows=ANCHORS[device][0].rows), device=device, steps=max(1, steps // 2), file=options.nanogpt
        )
    found = {}
    for name, way in ((name, way) for name, way in ways.items() if name not in options.without):
        say(f"{name}: compiling and training ...")
        found[name] = way()
        say(f"  {name:<24}" + "  ".join(f"{key} {value:,.1f}" for key, value in found[name].items()))
        torch._dynamo.reset()
    say(json.dumps(found))
    return _speed_rows(found, shape.rows, device, peer_rows)


PEERS = {  # each beside ours with the same parameters
    "regard": ("transformers", "transformers GPT-2, compiled"),
    "regard without biases": ("nanoGPT", "nanoGPT's model.py, compiled"),
}


def _speed_rows(found: dict[str, dict[str, float]], rows: int, device: str, peer_rows: int) -> list[dict[str, Any]]:
    """Ours beside the peer of the same parameters, where both were measured: tokens a second, and memory."""
    made = []
    for ours, (peer, title) in PEERS.items():
        if ours not in found or peer not in found or device != "cuda":
            continue
        usual = ANCHORS[device][0].rows
        theirs = peer_rows if peer == "transformers" else usual
        name = f"train GPT-2 124M, {ours}" + ("" if rows == usual else f", {rows} texts a step")
        unlike = None if rows == theirs else f"texts a step: ours {rows}, the peer {theirs}, each where it is fastest"
        facts: dict[str, Any] = {"peer": title, "seeds": [0], "unlike": unlike}
        for metric, digits in (("tokens/s", 0), ("GiB", 1)):
            mine, other = (round(found[who][metric], digits) for who in (ours, peer))
            shown = "GPU memory" if metric == "GiB" else metric
            made.append(row(name, shown, mine, peer_value=other, unit="GiB" if metric == "GiB" else None, **facts))
    return made


def profile(shape: Shape, *, device: str, **model: Any) -> None:
    """The speed of some steps of the real loop, and the kernels that three of them spend their time in."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with trainer_of(shape, device=device, steps=100, **model) as trainer:
        trainer.model.train()
        batches, window = Prefetcher(trainer._batches, pinned=device == "cuda"), Window(time.monotonic())
        for i in range(8 + PROFILED):
            if i == 8:
                _wait(device)
                begin = time.perf_counter()
            trainer._step(batches, window)
        _wait(device)
        seconds = (time.perf_counter() - begin) / PROFILED
        say(f"{seconds * 1000:.1f} ms a step, {shape.rows * shape.context / seconds:,.0f} tokens/s")
        with profile(activities=activities) as seen:
            for _ in range(3):
                trainer._step(batches, window)
            _wait(device)
        batches.close()
    by = f"self_{device}_time_total"
    say(seen.key_averages().table(sort_by=by, row_limit=40, max_name_column_width=90))


class PlainGPT(GPT):
    """The model as autocast alone would have it: norms and the residual stream in single precision."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        for module in list(self.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.LayerNorm):
                    setattr(module, name, nn.LayerNorm(config.d_model, eps=config.norm_epsilon))

    def embed(self, ids: Tensor, *, positions: Tensor | None = None, offset: int = 0) -> Tensor:
        assert self.positions is not None
        embedded: Tensor = self.positions(self.embedding(ids), positions=positions, offset=offset)
        return embedded


def curve(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The same training three times: single precision, autocast alone, and ours; what is left between the losses."""
    device = options.device
    steps = options.steps or (200 if device == "cuda" else 60)
    big = device == "cuda"
    shape = Shape(768, 12, 12, 512, 256, 16) if big else Shape(64, 2, 3, 64, 256, 8)
    text = torch.tensor(list(_shakespeare(options.data_root).encode()))
    curves = {}
    for name, kind, bf16 in (("single", PlainGPT, False), ("autocast", PlainGPT, True), ("regard", GPT, True)):
        torch.manual_seed(0)
        model = kind(model_of(shape).config).to(device)
        torch.manual_seed(0)
        model.reset()
        curves[name] = _curve(model, text, shape, device=device, steps=steps, bf16=bf16)
        say(f"  {name:<10}" + " ".join(f"{value:.4f}" for value in curves[name][:: max(1, steps // 10)]))
    later = slice(steps // 4, None)
    apart = {
        f"{one} and {other}": max(
            abs(a - b) for a, b in zip(curves[one][later], curves[other][later], strict=True)
        ) for one, other in (("single", "autocast"), ("autocast", "regard"))
    }  # fmt: skip
    ends = {name: sum(values[-steps // 4 :]) / len(values[-steps // 4 :]) for name, values in curves.items()}
    say("largest difference after the first quarter: " + ", ".join(f"{k} {v:.4f}" for k, v in apart.items()))
    say("mean of the last quarter: " + ", ".join(f"{k} {v:.4f}" for k, v in ends.items()))
    say(json.dumps({"apart": apart, "ends": ends}))
    return []


def _curve(model: GPT, text: Tensor, shape: Shape, *, device: str, steps: int, bf16: bool) -> list[float]:
    optimizer = make_optimizer(model, lr=6e-4, weight_decay=0.1, betas=(0.9, 0.95), epsilon=1e-8)
    draws = torch.Generator().manual_seed(1)
    found = []
    for step in range(steps):
        starts = torch.randint(len(text) - shape.context, (shape.rows,), generator=draws).tolist()
        rows = torch.stack([text[start : start + shape.context + 1] for start in starts]).to(device)
        with computing(torch.device(device), bf16=bf16):
            total, _, n = language_loss(model, rows[:, :-1], rows[:, 1:], 0.0)
        (total / n).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(6e-4 * min(1.0, (step + 1) / 20))
        optimizer.zero_grad()
        found.append((total / n).detach())
    return torch.stack(found).tolist()


def loss(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Milliseconds of output and cross-entropy, forward and backward, and the memory they take."""
    device, (shape, _) = options.device, ANCHORS[options.device]
    n = shape.rows * shape.context
    hidden = torch.randn(n, shape.d_model, device=device).bfloat16().requires_grad_()
    weight = torch.randn(shape.vocabulary, shape.d_model, device=device).mul_(0.02).requires_grad_()
    labels = torch.randint(0, shape.vocabulary, (n,), device=device)

    def plainly(h: Tensor, w: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(h, w), y, reduction="sum")

    def by_compiler(h: Tensor, w: Tensor, y: Tensor) -> Tensor:
        return losses._left_to_the_compiler(h, w, None, y, smoothing=0.0, ignore_id=-1)[0]

    def ours(h: Tensor, w: Tensor, y: Tensor) -> Tensor:
        return losses.chunked_cross_entropy(h, w, y, ignore_id=-1)[0]

    found = {}
    for name, way in {"F.cross_entropy": plainly, "left to the compiler": by_compiler, "regard": ours}.items():
        torch._dynamo.reset()
        call = torch.compile(way, dynamic=False) if device == "cuda" else way
        _start_counting(device)
        for i in range(25):
            if i == 5:
                _wait(device)
                begin = time.perf_counter()
            hidden.grad = weight.grad = None
            with torch.autocast(device, torch.bfloat16):
                value = call(hidden, weight, labels)
            (value / n).backward()
        _wait(device)
        memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
        found[name] = {
            "ms": (time.perf_counter() - begin) / 20 * 1000,
            "GiB": memory,
            "loss": float(value.detach()) / n,
        }
        say(f"  {name:<24}" + "  ".join(f"{key} {value:,.3f}" for key, value in found[name].items()))
    say(json.dumps(found))
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "curve", "loss", "shakespeare"])
    parser.add_argument("set", nargs="*", help="settings section.key=value that win over the recipe")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="as many steps for all, to try this out")
    parser.add_argument("--rows", type=int, help="train: texts a step, for us; their number is the peer's own choice")
    parser.add_argument(
        "--without", nargs="+", default=[], help="train: leave these out; without the peer nothing is saved"
    )
    parser.add_argument("--profile", action="store_true", help="train: show the kernels of three steps instead")
    parser.add_argument("--inductor", nargs="*", default=[], help="compiler settings to try, name=value")
    parser.add_argument("--peer", action="store_true", help="shakespeare on a GPU: train nanoGPT's settings too")
    parser.add_argument("--nanogpt", type=Path, default=os.environ.get("REGARD_NANOGPT"), help="nanoGPT's model.py")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="shakespeare: of both sides")
    parser.add_argument("--data-root", type=Path, default=os.environ.get("REGARD_DATA"))
    parser.add_argument("--save", action="store_true", help="write results/language.json")
    options = parser.parse_intermixed_args()
    options.nanogpt = options.nanogpt and Path(options.nanogpt)
    if options.device == "cpu":
        torch.set_num_threads(len(os.sched_getaffinity(0)))
    for setting in options.inductor:
        name, value = setting.split("=")
        setattr(torch._inductor.config, name, json.loads(value.lower()))
    rows = {"train": train, "curve": curve, "loss": loss, "shakespeare": shakespeare}[options.what](options)
    if options.save and rows and not options.steps:
        say(f"saved {save('language', rows)}")


def _facts(shape: Shape, rate: float, device: str) -> dict[str, float]:
    memory = torch.cuda.max_memory_reserved() / 2**30 if device == "cuda" else 0.0
    return {"tokens/s": rate, "ms a step": shape.rows * shape.context / rate * 1000, "GiB": memory}


def _tokenizer() -> Tokenizer:
    return learn_tokenizer(["made up"], "chars", size=64)


def _shakespeare(root: Path | None) -> str:
    import gzip

    with gzip.open(Path(root or ".") / "tinyshakespeare/input.txt.gz", "rt") as file:
        return file.read()


def _start_counting(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
