"""Sentence embeddings on a CPU: MiniLM beside onnxruntime and transformers, the same weights and texts.

    python benchmarks/weights.py all-MiniLM-L6-v2
    python benchmarks/embeddings.py [--texts 512] [--rounds 5] [--save]

From texts to vectors of length one, tokenizing included, on all cores: the mean of the last layer's vectors. The peers
are written as one would at one's best: texts sorted by length, in batches of the size that does best for each in a
short search, the fast tokenizer; onnxruntime with all graph optimizations, on what `torch.onnx` makes of transformers'
model and on what onnxruntime's own optimizer for BERT makes of that. Texts are English sentences of Multi30k and
paragraphs of SQuAD. Precisions: fp32 like for like; bf16 beside transformers in bf16; int8, of weights with a scale for
each output, beside onnxruntime's dynamic int8, of the same kind. How far the furthest vector is from transformers' in
fp32, as one minus the cosine, is told of all, and stands in the rows of fewer digits.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import regard
from record import DATA, row, save

BATCHES = (1, 2, 4, 8, 16, 32)
Vectors = np.ndarray[Any, np.dtype[np.float32]]
Way = Callable[[list[str]], Vectors]


def texts_of(n: int) -> dict[str, list[str]]:
    """Short ones and long ones."""
    with gzip.open(DATA / "multi30k" / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as file:
        sentences = [line.strip() for line in file][:n]
    articles = json.loads(gzip.decompress((DATA / "squad" / "dev-v1.1.json.gz").read_bytes()))["data"]
    paragraphs = [p["context"] for article in articles for p in article["paragraphs"]]
    return {"sentences": sentences, "paragraphs": paragraphs[:: max(1, len(paragraphs) * 4 // n)][: n // 4]}


def ours(weights: Path, precision: str) -> Way:
    model = regard.load(weights, "cpu", precision=precision)
    return lambda texts: model.embed(texts, normalise=True).float().numpy()


class Peer:
    """Texts through a tokenizer, sorted by length, a batch at a time through `run`, and put back in order."""

    def __init__(self, weights: Path, run: Callable[[dict[str, torch.Tensor]], Vectors], *, batch: int = 32) -> None:
        from transformers import AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(weights)
        self.run, self.batch = run, batch

    def __call__(self, texts: list[str]) -> Vectors:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: list[Vectors] = []
        for begin in range(0, len(order), self.batch):
            some = [texts[i] for i in order[begin : begin + self.batch]]
            tokens = self.tokenizer(some, padding=True, truncation=True, max_length=512, return_tensors="pt")
            hidden, mask = self.run(dict(tokens)), tokens["attention_mask"].numpy()[:, :, None]
            found.append((hidden * mask).sum(1) / mask.sum(1))
        together = np.empty_like(np.concatenate(found))
        together[order] = np.concatenate(found)
        vectors: Vectors = together / np.linalg.norm(together, axis=1, keepdims=True)
        return vectors


def with_transformers(weights: Path, dtype: torch.dtype = torch.float32) -> Peer:
    from transformers import AutoModel

    model: Any = AutoModel.from_pretrained(weights, attn_implementation="sdpa").to(dtype).eval()

    @torch.inference_mode()
    def run(tokens: dict[str, torch.Tensor]) -> Vectors:
        hidden: Vectors = model(**tokens).last_hidden_state.float().numpy()
        return hidden

    return Peer(weights, run)


def with_onnxruntime(weights: Path, file: Path) -> Peer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def run(tokens: dict[str, torch.Tensor]) -> Vectors:
        hidden: Vectors = session.run(None, {name: tokens[name].numpy() for name in names})[0]
        return hidden

    return Peer(weights, run)


def fused(file: Path) -> Path:
    """The same with the operators that onnxruntime has for BERT alone."""
    from onnxruntime.transformers import optimizer

    made = file.with_name("fused.onnx")
    config = json.loads((file.parent / "config.json").read_text())
    sizes = {"num_heads": config["num_attention_heads"], "hidden_size": config["hidden_size"]}
    optimizer.optimize_model(str(file), model_type="bert", opt_level=1, **sizes).save_model_to_file(str(made))
    return made


def quantized(file: Path) -> Path:
    """Weights in 8 bits with a scale for each output, inputs rounded as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    made = file.with_name("int8.onnx")
    quantize_dynamic(str(file), str(made), weight_type=QuantType.QInt8, per_channel=True)
    return made


def exported(weights: Path, folder: Path) -> Path:
    """transformers' model as a file of ONNX, rows and lengths left open."""
    from transformers import AutoModel

    file = folder / "model.onnx"
    (folder / "config.json").write_text((weights / "config.json").read_text())
    model: Any = AutoModel.from_pretrained(weights, attn_implementation="eager").float().eval()
    model.config.return_dict = False
    names = ["input_ids", "attention_mask", "token_type_ids"]
    ones = torch.ones(2, 8, dtype=torch.int64)

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.model(input_ids=ids, attention_mask=mask, token_type_ids=segments)[0]
            return hidden

    axes = {name: {0: "rows", 1: "tokens"} for name in [*names, "hidden"]}
    torch.onnx.export(
        Hidden(),
        (ones, ones, 0 * ones),
        str(file),
        input_names=names,
        output_names=["hidden"],
        dynamic_axes=axes,
        opset_version=17,
        dynamo=False,
    )
    return file


def at_its_best(peer: Peer, texts: list[str]) -> Peer:
    """The peer with the batch that is fastest on every other of these texts."""
    took = {}
    for batch in BATCHES:
        peer.batch = batch
        peer(texts[:batch])
        took[batch] = min(_seconds(peer, texts[::2]) for _ in range(2))
    peer.batch = min(took, key=took.__getitem__)
    return peer


def peers_of(weights: Path, folder: Path) -> dict[str, dict[str, Peer]]:
    """Who stands beside us, by precision."""
    file = exported(weights, folder)
    several = {
        "fp32": {
            "transformers": with_transformers(weights),
            "onnxruntime": with_onnxruntime(weights, file),
            "onnxruntime, fused for BERT": with_onnxruntime(weights, fused(file)),
        }
    }
    if torch.cpu._is_avx512_bf16_supported():
        several["bf16"] = {"transformers in bf16": with_transformers(weights, torch.bfloat16)}
    return several | {"int8": {"onnxruntime in int8": with_onnxruntime(weights, quantized(file))}}


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Both kinds of texts, every way in turns."""
    peers, rows = peers_of(options.weights, folder), []
    for what, texts in texts_of(options.texts).items():
        reference = peers["fp32"]["transformers"](texts)
        for precision, several in peers.items():
            ways: dict[str, Way] = {"regard": ours(options.weights, precision)}
            ways |= {name: at_its_best(peer, texts) for name, peer in several.items()}
            took: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(options.rounds + 1):
                for name, way in ways.items():
                    seconds = _seconds(way, texts)
                    if turn:
                        took[name].append(seconds)
            gaps = {name: float(1 - (way(texts) * reference).sum(1).min()) for name, way in ways.items()}
            for name, times in took.items():
                batch = f"batches of {several[name].batch}" if name in several else ""
                print(f"  {len(texts)} {what}, {precision}, {name:<28}{len(texts) / median(times):9.1f} texts/s  "
                      f"furthest {gaps[name]:.1e}  {batch}", flush=True)  # fmt: skip
            rows += _rows(f"MiniLM embeddings {precision}, {len(texts)} {what}", took, several, gaps)
    return rows


def _rows(
    name: str, took: dict[str, list[float]], peers: dict[str, Peer], gaps: dict[str, float]
) -> list[dict[str, Any]]:
    rows = []
    for peer, one in peers.items():
        ratios = sorted(b / a for a, b in zip(took["regard"], took[peer], strict=True))
        title = f"{peer}, sorted, batches of {one.batch}"
        near = max(gaps["regard"], gaps[peer]) < 1e-5
        far = (
            f"the furthest vector is {gaps['regard']:.1e} from fp32, one minus the cosine; the peer's {gaps[peer]:.1e}"
        )
        rows.append(
            row(f"{name}, beside {peer}", "speed", round(median(ratios), 2), unit="×", peer=title, peer_value=1.0,
                n=len(ratios), spread=[round(ratios[0], 2), round(ratios[-1], 2)], deterministic=True,
                unlike=None if near else far)
        )  # fmt: skip
    return rows


def _seconds(way: Way, texts: list[str]) -> float:
    begin = time.perf_counter()
    way(texts)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, default=Path("weights/all-MiniLM-L6-v2"))
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="write results/embeddings.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, Path(folder))
    if options.save:
        print(f"saved {save('embeddings', rows)}")
    print(json.dumps({r["name"]: r["value"] for r in rows}))


if __name__ == "__main__":
    main()
