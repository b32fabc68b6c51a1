"""JoeyNMT 2.3 training on this CPU, in a virtual environment of its own: how many target tokens a second.

    python benchmarks/joeynmt_peer.py --steps 30 --threads 2

The corpus is `peers.random_pairs` as word tokens, the model `nn_transformer`'s: post-norm, one tied matrix, label
smoothing 0.1, AdamW, dropout 0.1. The figure is the median of the "Tokens per Sec" that JoeyNMT logs at each step
after the warm-up. It counts target tokens with EOS and without padding, over the whole loop: reading, batching,
forward, backward, update. JoeyNMT batches in random order, by tokens with padding, and knows no buckets.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers import N_SPECIALS, Pair, random_pairs

VENV = Path(__file__).parent.parent / ".peers" / "joeynmt-venv"
TORCH = "torch==2.13.0"
# JoeyNMT's own list pins protobuf to 2022 and asks for linters; these are what it imports.
IMPORTED = (
    *("sentencepiece==0.2.0", "subword-nmt", "sacrebleu", "numpy", "pandas", "pyyaml", "tensorboard"),
    *("matplotlib", "plotly", "tqdm", "packaging", "importlib-metadata", "setuptools"),
)
_RATE = re.compile(r"Step:\s+(\d+),.*Tokens per Sec:\s+(\d+)")


def measure(
    pairs: Sequence[Pair],
    *,
    sizes: tuple[int, int, int, int, int] = (256, 4, 3, 1024, 8000),
    tokens: int = 2048,
    steps: int = 30,
    warmup: int = 5,
    threads: int = 2,
) -> float:
    """Target tokens a second of JoeyNMT's training loop; `sizes` as `nn_transformer` takes them."""
    if steps <= warmup:
        raise ValueError(f"{steps} steps leave nothing after a warm-up of {warmup}: take more than {warmup}")
    build_venv()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(pairs, folder, vocabulary=sizes[-1])
        config = configuration(folder, sizes=sizes, tokens=tokens, steps=steps)
        (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        rates = logged_rates(_train(folder / "config.yaml", threads=threads))
    kept = [rate for step, rate in rates if step > warmup]
    if len(kept) != steps - warmup:
        raise RuntimeError(f"JoeyNMT logged {len(kept)} steps after the warm-up, wanted {steps - warmup}")
    return statistics.median(kept)


def build_venv() -> None:
    """Make JoeyNMT's environment if it is not there; the marker is written last, so half a build is built again."""
    marker = VENV / "complete"
    if marker.exists():
        return
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for command in (
        [sys.executable, "-m", "venv", str(VENV)],
        [*pip, TORCH],
        [*pip, TORCH, *IMPORTED],
        [*pip, "--no-deps", "joeynmt==2.3.0"],
    ):
        print(" ".join(command), file=sys.stderr)
        subprocess.run(command, check=True, stdout=sys.stderr)
    marker.touch()


def write_corpus(pairs: Sequence[Pair], folder: Path, *, vocabulary: int) -> None:
    """Word-level files: train.src, train.trg, a dev set that is never read, and the vocabulary in id order."""
    for side, language in enumerate(("src", "trg")):
        lines = [" ".join(f"w{word}" for word in pair[side]) for pair in pairs]
        (folder / f"train.{language}").write_text("\n".join(lines) + "\n")
        (folder / f"dev.{language}").write_text("\n".join(lines[:8]) + "\n")
    words = [f"w{word}" for word in range(N_SPECIALS, vocabulary)]  # JoeyNMT puts its four specials before them
    (folder / "vocabulary.txt").write_text("\n".join(words) + "\n")


def configuration(folder: Path, *, sizes: tuple[int, int, int, int, int], tokens: int, steps: int) -> dict[str, Any]:
    """JoeyNMT's configuration of the model that `nn_transformer(*sizes)` is."""
    d_model, n_heads, n_layers, d_feedforward, _ = sizes
    half = {
        "type": "transformer",
        "num_layers": n_layers,
        "num_heads": n_heads,
        "embeddings": {"embedding_dim": d_model, "scale": True, "dropout": 0.1},
        "hidden_size": d_model,
        "ff_size": d_feedforward,
        "dropout": 0.1,
        "layer_norm": "post",
    }
    words = {"level": "word", "max_length": 100, "voc_file": str(folder / "vocabulary.txt")}
    return {
        "name": "peer",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": 0,
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "dataset_type": "plain",
            "src": {"lang": "src"} | words,
            "trg": {"lang": "trg"} | words,
        },
        "model": {"tied_embeddings": True, "tied_softmax": True, "encoder": half, "decoder": half},
        "training": _training(tokens=tokens, steps=steps),
        "testing": {"beam_size": 1},
    }


def logged_rates(log: str) -> list[tuple[int, int]]:
    """(step, target tokens a second) of each step in JoeyNMT's log."""
    return [(int(step), int(rate)) for step, rate in _RATE.findall(log)]


def _training(*, tokens: int, steps: int) -> dict[str, Any]:
    return {
        "optimizer": "adamw",
        "adam_betas": [0.9, 0.999],
        "learning_rate": 3e-4,
        "learning_rate_min": 0.0,
        "scheduling": "warmupinversesquareroot",  # it refuses to go without a schedule
        "learning_rate_warmup": 100,
        "label_smoothing": 0.1,
        "normalization": "tokens",
        "batch_type": "token",
        "batch_size": tokens,
        "epochs": 1000,
        "updates": steps,
        "logging_freq": 1,
        "validation_freq": 10 * steps,  # never
        "overwrite": True,
    }


def _train(config: Path, *, threads: int) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [str(VENV / "bin" / "python"), "-m", "joeynmt", "train", str(config), "--skip-test"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=config.parent)
    log = done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(f"JoeyNMT ended with {done.returncode}:\n{log[-3000:]}")
    return log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=2048, help="target positions a batch, padding included")
    options = parser.parse_args()
    pairs = random_pairs(options.tokens * options.steps // 26 + 256, vocabulary=8000, seed=0)
    rate = measure(pairs, tokens=options.tokens, steps=options.steps, warmup=options.warmup, threads=options.threads)
    print(json.dumps({"target_tokens_per_second": round(rate, 1)}))


if __name__ == "__main__":
    main()
