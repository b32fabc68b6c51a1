"""Translation against its peers: training through the real loop beside `nn.Transformer`, decoding beside Marian.

    python benchmarks/translation.py train  [--device cuda] [--joeynmt] [--save]
    python benchmarks/translation.py decode [--device cuda] [--save]

Everything on one made-up corpus (lengths 20 to 32), in one run. Target tokens are words and the end, never padding.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from peers import Marian, Trainer, marian, nn_transformer, padded_batches, random_pairs
from record import row, save
from regard.attention import Rows
from regard.checkpoints.run import RunFolder
from regard.config.training import TrainConfig
from regard.data.text.corpus import Corpus
from regard.data.text.pairs import Pair
from regard.data.text.vocabulary import learn_tokenizer
from regard.decoding import DecodeOptions, decode
from regard.fast.cpu.packed_linear import Precision, pack_linears
from regard.fast.gpu.graph_pool import pool_of
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.translation.data import Languages, TextSide
from regard.tasks.translation.training import PairTraining
from regard.training.setup import RunContext
from regard.training.trainer import Trainer as RegardTrainer

ANCHORS = {  # d_model, heads, layers, feed-forward, vocabulary, tokens a batch
    "cuda": (512, 8, 6, 2048, 37_000, 25_600),
    "cpu": (256, 4, 3, 1024, 8_000, 2_048),
}

_LETTERS = str.maketrans("0123456789", "abcdefghij")
KINDS: tuple[Precision, ...] = ("fp32", "bf16", "int8")


def transformer(shape: tuple[int, ...], *, dropout: float = 0.1) -> Transformer:
    d_model, n_heads, n_layers, d_feedforward, vocabulary, _ = shape
    return Transformer(
        TransformerConfig(
            n_source=vocabulary,
            n_target=vocabulary,
            d_model=d_model,
            n_heads=n_heads,
            d_feedforward=d_feedforward,
            n_encoder_layers=n_layers,
            n_decoder_layers=n_layers,
            dropout=dropout,
        )
    )


def train_regard(shape: tuple[int, ...], pairs: list, *, device: str, steps: int, precision: str = "auto") -> float:  # type: ignore[type-arg]
    """Target tokens a second of the real trainer, batches prepared, loss reported and all; the best window."""
    vocabulary, budget = shape[4], shape[5]
    words = [str(i).translate(_LETTERS) for i in range(vocabulary - 4)]  # a token each: figures would be split off
    tokenizer = learn_tokenizer(words, "words", size=vocabulary)
    languages = Languages(TextSide(tokenizer), TextSide(tokenizer))
    texts = [Pair(*(" ".join(words[i - 4] for i in side) for side in pair), line=1) for pair in pairs]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus.build(texts, tokenizer, tokenizer, Path(folder) / "corpus")
        task = PairTraining(
            languages, corpus, texts[:8], budget_tokens=budget, seed=1, packed=device == "cuda", label_smoothing=0.1
        )
        config = TrainConfig(
            steps=steps, batch_tokens=budget, device=device, precision=precision, log_every=max(1, steps // 6),  # type: ignore[arg-type]
            eval_every=10**9, save_every=10**9, lr=3e-4, warmup=10,
        )  # fmt: skip
        run = RunFolder(Path(folder) / "run")
        run.path.mkdir()
        RegardTrainer(task, transformer(shape), config, RunContext.join(run, device=device)).fit()
        lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    rates = sorted(line["tokens_per_second"] for line in lines[2:])
    return float(rates[len(rates) // 2])


def train_peer(shape: tuple[int, ...], pairs: list, *, device: str, steps: int, compiled: bool) -> float:  # type: ignore[type-arg]
    """Target tokens a second of `nn.Transformer`, on batches that lie ready on the device."""
    model = nn_transformer(*shape[:5]).without_attention_dropout()
    trainer = Trainer(model, device=device, compiled=compiled)
    batches = [b.to(device) for b in padded_batches(pairs, shape[5], multiple=33 if compiled else 1)]
    if compiled:  # one static shape: the last, smaller batch would compile everything again
        batches = [b for b in batches if b.target.shape == batches[0].target.shape]
    torch.manual_seed(0)
    order = torch.randperm(len(batches)).tolist()
    for i in range(4):
        trainer.train_step(batches[order[i % len(order)]])
    _wait(device)
    begin, tokens = time.perf_counter(), 0
    for i in range(steps):
        batch = batches[order[i % len(order)]]
        trainer.train_step(batch)
        tokens += batch.n_target
    _wait(device)
    return tokens / (time.perf_counter() - begin)


def train(options: argparse.Namespace) -> dict[str, float]:
    """All contestants on the anchor's model."""
    device, shape = options.device, ANCHORS[options.device]
    steps = options.steps or (90 if device == "cuda" else 24)
    pairs = random_pairs(60_000 if device == "cuda" else 3_000, (19, 31), vocabulary=shape[4], seed=0)
    found = {}
    if device == "cuda":
        found["regard"] = train_regard(shape, pairs, device=device, steps=steps)
        print(f"  regard: {found['regard']:,.0f} target tokens/s; compiling the peer", flush=True)
        found["nn.Transformer compiled"] = train_peer(shape, pairs, device=device, steps=60, compiled=True)
    else:
        rounds: dict[str, list[float]] = {"nn.Transformer eager": [], "regard": [], "regard in bf16": []}
        for _ in range(options.rounds):  # in turns: a CPU drifts
            rounds["nn.Transformer eager"].append(train_peer(shape, pairs, device=device, steps=steps, compiled=False))
            rounds["regard"].append(train_regard(shape, pairs, device=device, steps=steps))
            rounds["regard in bf16"].append(train_regard(shape, pairs, device=device, steps=steps, precision="bf16"))
        found = {name: sorted(rates)[len(rates) // 2] for name, rates in rounds.items()}
        if options.joeynmt:
            found["JoeyNMT"] = _joeynmt()
    return found


def decode_regard(model: Transformer, source: torch.Tensor, *, beam: int, device: str) -> Callable[[], object]:
    options = DecodeOptions(
        strategy="beam" if beam > 1 else "greedy", beam=beam, min_length=31, max_length=32, patience=1.0
    )
    rows = Rows(source.to(device), (source != 0).sum(1).to(device))

    @torch.inference_mode()
    def call() -> object:
        stepper = model.start(rows, capacity=32)
        return decode(stepper, n_rows=len(source), bos_id=2, eos_id=3, pad_id=0, options=options)

    return call


def decoding(options: argparse.Namespace) -> dict[str, float]:
    """Generated tokens a second, 30 → 32 tokens a sentence, Transformer base, random weights for both."""
    device = options.device
    vocabulary = 37_000 if device == "cuda" else 8_000
    shape = (512, 8, 6, 2048, vocabulary, 0)
    cases = [(64, 1), (64, 4), (256, 4)] if device == "cuda" else [(16, 1), (16, 5)]
    torch.manual_seed(0)
    ours = transformer(shape).to(device).eval()
    pool_of(ours).compiled = options.compiled
    packed = {"": ours.bfloat16()} if device == "cuda" else {f" {kind}": pack_linears(ours, kind) for kind in KINDS}
    theirs = Marian(marian(*shape[:5]), device=device)
    found = {}
    for n_rows, beam in cases:
        source = torch.randint(4, vocabulary, (n_rows, 30))
        source[:, -1] = 3
        ways = {"Marian": lambda s=source, b=beam: theirs.generate(s.to(device), beams=b)} | {
            f"regard{kind}": decode_regard(model, source, beam=beam, device=device) for kind, model in packed.items()
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(options.rounds + 1):
            for name, way in ways.items():
                _wait(device)
                begin = time.perf_counter()
                way()
                _wait(device)
                took = time.perf_counter() - begin
                print(f"    beam {beam}, batch {n_rows}, turn {turn}, {name}: {took:.3f} s", flush=True)
                if turn:  # the first call of each warms up
                    seconds[name].append(took)
        name = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {n_rows}"
        for way, times in seconds.items():
            found[f"{name}: {way}"] = n_rows * 32 / sorted(times)[len(times) // 2]
            print(f"  {name}: {way:<24}{found[f'{name}: {way}']:12,.0f} target tokens/s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "decode"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--joeynmt", action="store_true", help="CPU training: measure JoeyNMT too")
    parser.add_argument("--compiled", action="store_true", help="GPU decoding: compile the steps before recording them")
    parser.add_argument("--save", action="store_true", help="write results/translation-speed.json")
    options = parser.parse_args()
    found = train(options) if options.what == "train" else decoding(options)
    for name, rate in found.items():
        print(f"  {name:<40}{rate:12,.0f} target tokens/s")
    rows = _rows(options.what, found, options.device)
    for r in rows:
        print(f"  {r['name']:<40}{r['value']:12.2f} × {r['peer']}")
    if options.save:
        print(f"saved {save('translation-speed', rows)}")
    print(json.dumps({name: round(rate, 1) for name, rate in found.items()}))


def _rows(what: str, found: dict[str, float], device: str) -> list[dict[str, object]]:
    """Ours over each peer's; on a GPU the rates themselves as well."""
    rows = []
    for ours in (name for name in found if "regard" in name):
        case = ours.split(":")[0] if what == "decode" else what
        how = ours.split("regard")[1]  # the precision, where there is a choice
        for peer in (name for name in found if "regard" not in name):
            if what == "decode" and not peer.startswith(f"{case}:"):
                continue
            label, name = peer.split(": ")[-1], f"{case}{how}, {device}"
            unlike = f"ours in {how.split()[-1]}, the peer in fp32" if how and how.strip() != "fp32" else None
            facts: dict[str, Any] = {"peer": label, "seeds": [0], "deterministic": True, "unlike": unlike}
            ratio = round(found[ours] / found[peer], 2)
            rows.append(row(f"{name}, {label}", "speed", ratio, unit="×", peer_value=1.0, **facts))
            if device == "cuda":
                rates = round(found[ours]), round(found[peer])
                rows.append(row(f"{name}, beside {label}", "target tokens/s", rates[0], peer_value=rates[1], **facts))
    return rows


def _joeynmt() -> float:
    script = Path(__file__).parent / "joeynmt_peer.py"
    told = subprocess.run(
        [sys.executable, str(script), "--steps", "30", "--threads", "2"], capture_output=True, text=True
    )
    if told.returncode:
        raise RuntimeError(told.stderr[-2000:])
    return float(json.loads(told.stdout.strip().splitlines()[-1])["target_tokens_per_second"])


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
