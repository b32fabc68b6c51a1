"""Translation on a CPU beside CTranslate2 at its best: one model, random weights, 30 → 32 tokens, greedy and beam 5.

    python benchmarks/translation_ctranslate2.py [--rounds 7] [--size base] [--machine avx2|plain] [--save]

Transformer base with a vocabulary of 8,000, and 16 sentences: the same weights on both sides, in float32 and rounded to
int8. CTranslate2's workers, threads and batches are searched for, case by case, before both take turns: one batch on
all threads, or workers that share it. Lengths are fixed on both sides, so that both do the same number of steps.
`--machine avx2`: as on a laptop, nobody uses AVX-512; `plain`: we find no compiler, and have no kernels of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch

from ctranslate2_peer import exported
from record import row, save
from regard.data.text.vocabulary import learn_tokenizer
from regard.decoding import DecodeOptions
from regard.fast.cpu.packed_linear import Precision, pack_linears
from regard.models.transformer import SIZES, Transformer
from regard.tasks.translation.translator import Translator
from translation import transformer

VOCABULARY, N_ROWS, N_SOURCE, N_NEW = 8_000, 16, 30, 32
KINDS: dict[Precision, str] = {"fp32": "float32", "int8": "int8"}
BEAMS = (1, 5)
MACHINES: dict[str, tuple[str, dict[str, str]]] = {  # how rows call it, and what the environment says to all libraries
    "avx2": (
        ", AVX2 only",
        {
            "REGARD_NATIVE": "haswell",
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "CT2_FORCE_CPU_ISA": "AVX2",
        },
    ),
    "plain": (", without a compiler", {"REGARD_NATIVE": "0"}),
}
Way = Callable[[], object]


def made(size: str) -> Transformer:
    """The model, with random weights."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = dict(SIZES[size])
    shape = (sizes["d_model"], sizes["n_heads"], sizes["n_encoder_layers"], sizes["d_feedforward"], VOCABULARY, 0)
    return transformer(shape, dropout=0.0).eval()


def ours(model: Transformer, languages: Any, source: torch.Tensor, *, beam: int, cores: int) -> Way:
    """What `regard predict` does with ids, on as many threads: CTranslate2 changes PyTorch's for the whole process."""
    options = DecodeOptions(
        strategy="beam" if beam > 1 else "greedy", beam=beam, min_length=N_NEW - 1, max_length=N_NEW, patience=1.0
    )
    translator, ids = Translator([model], languages), [line[:-1].tolist() for line in source]

    def call() -> object:
        torch.set_num_threads(cores)
        return translator.hypotheses(ids, options)

    return call


def opened(folder: Path, kind: str, *, inter: int, intra: int) -> Any:
    import ctranslate2

    return ctranslate2.Translator(
        str(folder), device="cpu", compute_type=kind, inter_threads=inter, intra_threads=intra
    )


def theirs(translator: Any, rows: list[list[str]], *, beam: int, batch: int) -> Way:
    def call() -> object:
        found = translator.translate_batch(
            rows, beam_size=beam, max_batch_size=batch, min_decoding_length=N_NEW, max_decoding_length=N_NEW
        )
        if {len(one.hypotheses[0]) for one in found} != {N_NEW}:
            raise RuntimeError("CTranslate2 wrote other lengths than it was told")
        return found

    return call


def best_setting(folder: Path, kind: str, rows: list[list[str]], *, beam: int, cores: int) -> tuple[int, int, int]:
    """Workers, threads of each, and sentences a batch: the fastest of what two cores allow."""
    took = {}
    for inter, intra in sorted({(1, cores), (cores, 1), (1, 1)}):
        translator = opened(folder, kind, inter=inter, intra=intra)
        for batch in sorted({N_ROWS, -(-N_ROWS // inter), -(-N_ROWS // (2 * inter))}):
            call = theirs(translator, rows, beam=beam, batch=batch)
            took[inter, intra, batch] = min(_seconds(call) for _ in range(3))
    return min(took, key=took.__getitem__)


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """A row of the ratio and one of the rates for each precision and search."""
    cores = len(os.sched_getaffinity(0))
    model, words = made(options.size), [f"w{i}" for i in range(VOCABULARY - 4)]
    tokenizer = learn_tokenizer(words, "words", size=VOCABULARY)
    side = SimpleNamespace(tokenizer=tokenizer)
    languages = SimpleNamespace(joint=True, source=side, target=side)
    source = torch.randint(4, VOCABULARY, (N_ROWS, N_SOURCE))
    source[:, -1] = 3
    rows = [[tokenizer.core.id_to_token(int(i)) for i in line[:-1]] for line in source]  # it adds the end itself
    made_rows = []
    for kind, theirs_kind in KINDS.items():
        predictor = SimpleNamespace(module=model, languages=languages)
        place = exported(predictor, folder / kind, quantization=None if kind == "fp32" else kind)
        packed = pack_linears(model, kind)
        for beam in BEAMS:
            inter, intra, batch = best_setting(place, theirs_kind, rows, beam=beam, cores=cores)
            translator = opened(place, theirs_kind, inter=inter, intra=intra)
            ways = {
                "regard": ours(packed, languages, source, beam=beam, cores=cores),
                "CTranslate2": theirs(translator, rows, beam=beam, batch=batch),
            }
            took: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(options.rounds + 1):
                for name, way in ways.items():
                    seconds = _seconds(way)
                    if turn:  # the first call of each warms up
                        took[name].append(seconds)
            setting = f"{inter} workers × {intra} threads, batches of {batch}"
            case = "greedy" if beam == 1 else f"beam {beam}"
            machine = MACHINES[options.machine][0] if options.machine else ""
            made_rows += _rows(took, case, f"{kind}{machine}", setting)
    return made_rows


def _rows(took: dict[str, list[float]], case: str, kind: str, setting: str) -> list[dict[str, Any]]:
    ratios = sorted(other / mine for mine, other in zip(took["regard"], took["CTranslate2"], strict=True))
    rates = {name: round(N_ROWS * N_NEW / median(times)) for name, times in took.items()}
    name, peer = f"{case}, batch {N_ROWS} {kind}, cpu", f"CTranslate2 {kind}, {setting}"
    facts: dict[str, Any] = {"peer": peer, "n": len(ratios), "seeds": [0], "deterministic": True}
    print(f"  {name:<28}{rates['regard']:>8,}  {rates['CTranslate2']:>8,} target tokens/s  {peer}", flush=True)
    return [
        row(f"{name}, CTranslate2", "speed", round(median(ratios), 2), unit="×", peer_value=1.0,
            spread=[round(ratios[0], 2), round(ratios[-1], 2)], **facts),
        row(f"{name}, beside CTranslate2", "target tokens/s", rates["regard"], peer_value=rates["CTranslate2"],
            **facts),
    ]  # fmt: skip


def _seconds(call: Way) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", default="base", choices=list(SIZES), help="another model, to try this out")
    parser.add_argument("--save", action="store_true", help="write results/translation-speed.json")
    parser.add_argument("--machine", choices=list(MACHINES), help="one that can do less than this")
    options = parser.parse_args()
    said = MACHINES[options.machine][1] if options.machine else {}
    if any(os.environ.get(name) != value for name, value in said.items()):  # libraries read it when they are loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | said)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, Path(folder))
    if options.save and options.size == "base":
        print(f"saved {save('translation-speed', rows)}")
    print(json.dumps({r["name"]: r["value"] for r in rows}))


if __name__ == "__main__":
    main()
