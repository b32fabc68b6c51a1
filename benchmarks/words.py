"""Word vectors beside gensim's word2vec: seconds from the text to the vectors, and what the vectors are worth.

    python benchmarks/words.py --choose [--keep]                      the rate of either side, with a seed of its own
    python benchmarks/words.py [--seeds 11,12,13] [--save]            both sides at the rate that was chosen for them

Same text, width, window, negatives, subsampling, least count, epochs and cores for both; taken in turns in one run, as
the machine may be busy with other things. Both rates are chosen from one list by the same half of every test set, the
even lines, and measured on the other half. Our batch and noise words a block were chosen earlier, by whole test sets.
The processor's seconds stand beside the clock's. `--peer` is an interpreter that has gensim, if this one lacks it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import torch

from chosen import chosen, keep
from record import DATA, beside, row, save, spread
from regard.checkpoints.foreign.word2vec import NamedVectors, read_word2vec
from regard.data.text.documents import TextSource
from regard.models.word_vectors import WordVectors, WordVectorsConfig
from regard.tasks.words.data import Questions, WordTest, measure, read_test
from regard.tasks.words.skipgrams import cutter, read_words
from regard.tasks.words.training import SkipGramOptions, learn_vectors

TESTS = {
    "analogies": "questions-words.txt.gz",
    "WordSim-353": "EN-WS-353-ALL.txt",
    "SimLex-999": "EN-SIMLEX-999.txt",
}
RATES = ("0.0125", "0.025", "0.05", "0.075", "0.1", "0.15")
DEFAULT = "0.05"
CHOSEN_ON, MEASURED_ON = 0, 1  # even and odd lines
Figures = dict[str, float]


def ours(text: Path, seed: int, *, rate: str) -> tuple[Figures, NamedVectors]:
    began, used = time.perf_counter(), time.process_time()
    documents = TextSource((text,), split="line").documents()
    stream = read_words(documents, cutter("words", lowercase=True), min_count=5)
    torch.manual_seed(seed)
    model = WordVectors(WordVectorsConfig(n_tokens=len(stream.words) + 2, d_model=100))
    learn_vectors(model, stream, SkipGramOptions(seed=seed, lr=float(rate)), tell=lambda _: True)
    times = {"seconds": time.perf_counter() - began, "processor seconds": time.process_time() - used}
    return times, NamedVectors(stream.words, model.vectors[2:])


def theirs(python: str, text: Path, seed: int, *, alpha: str, workers: int) -> tuple[Figures, NamedVectors]:
    with TemporaryDirectory() as folder:
        out = Path(folder) / "gensim.vec"
        script = Path(__file__).with_name("words_peer.py")
        command = [python, "-W", "ignore", str(script), str(text), str(out), str(seed), alpha, str(workers)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(told.splitlines()[-1])
        return {"seconds": found["seconds"], "processor seconds": found["cpu"]}, read_word2vec(out)


def scored(named: NamedVectors, data: Path, *, half: int) -> Figures:
    """What vectors are worth by one half of every test."""
    model = WordVectors(WordVectorsConfig(n_tokens=len(named.words) + 2, d_model=named.vectors.shape[1]))
    with torch.no_grad():
        model.input[2:] = named.vectors
    ids = {word: i + 2 for i, word in enumerate(named.words)}
    found = {
        name: measure(model, ids, halved(read_test(data / file), half), lowercase=True) for name, file in TESTS.items()
    }
    return {name: measured.metrics()[measured.name].value for name, measured in found.items()}


def halved(test: WordTest, half: int) -> WordTest:
    """Every other line of a test."""
    if isinstance(test, Questions):
        return replace(test, words=test.words[half::2], sections=test.sections[half::2])
    return replace(test, words=test.words[half::2], judged=test.judged[half::2])


def run(who: str, rate: str, seed: int, given: argparse.Namespace) -> tuple[Figures, NamedVectors]:
    """One side once: its seconds, and its vectors."""
    text = given.data / "text8-first-6.9M.gz"
    if who == "regard":
        return ours(text, seed, rate=rate)
    return theirs(given.peer, text, seed, alpha=rate, workers=given.threads)


def choose(given: argparse.Namespace) -> dict[str, str]:
    """The rate of either side whose vectors do best by the half that is chosen on, all three tests counting alike."""
    best = {}
    for who in ("regard", "gensim"):
        values = {}
        for rate in given.rates:
            _, named = run(who, rate, given.choosing_seed, given)
            values[rate] = mean(scored(named, given.data, half=CHOSEN_ON).values())
            print(f"{who:<8}{rate:>8}  {values[rate]:.4f}", flush=True)
        best[who] = max(values, key=values.__getitem__)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA / "word-vectors")
    parser.add_argument("--peer", default=sys.executable, help="an interpreter that has gensim")
    parser.add_argument("--seeds", default="11,12,13")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--choose", action="store_true", help="try the rates instead, with a seed of its own")
    parser.add_argument("--choosing-seed", type=int, default=1)
    parser.add_argument("--rates", nargs="+", default=RATES, help="which to try")
    parser.add_argument("--keep", action="store_true", help="write what was chosen to chosen.json")
    parser.add_argument("--save", action="store_true", help="write results/words.json")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.choose:
        best = choose(given)
        if given.keep:
            for who, rate in best.items():
                keep("words", who, {"rate": rate})
        print(json.dumps(best))
        return
    seeds = [int(seed) for seed in given.seeds.split(",")]
    rates = {who: chosen("words", who).get("rate", DEFAULT) for who in ("regard", "gensim")}
    runs: dict[str, list[Figures]] = {who: [] for who in rates}
    for seed in seeds:
        for who, rate in rates.items():
            times, named = run(who, rate, seed, given)
            runs[who].append(times | scored(named, given.data, half=MEASURED_ON))
            shown = "  ".join(f"{k} {v:.4g}" for k, v in runs[who][-1].items())
            print(f"seed {seed}  {who:<8} at {rate}  {shown}", flush=True)
    if given.save:
        print(save("words", table(runs, rates, seeds), drop=("word vectors, text8 6.9M, gensim at rate",)))
    print(json.dumps({name: {k: mean(one[k] for one in found) for k in found[0]} for name, found in runs.items()}))


def table(runs: dict[str, list[Figures]], rates: dict[str, str], seeds: list[int]) -> list[dict[str, Any]]:
    rows = []
    for metric in runs["gensim"][0]:
        values, others = ([one[metric] for one in runs[who]] for who in ("regard", "gensim"))
        rows.append(
            row(
                "word vectors, text8 6.9M, rates chosen alike",
                metric,
                mean(values),
                unit="s" if "seconds" in metric else "accuracy" if metric == "analogies" else "Spearman",
                n=len(values),
                spread=spread(values),
                peer=f"gensim word2vec, sg=1, alpha={rates['gensim']}",
                **beside(values, others, less="seconds" in metric),
                chosen_on="both rates on the even lines of the tests, seed 1; measured on the odd lines",
                unlike="our batch and noise words were chosen as well, by whole test sets, seed 1",
                recipe="words/text8",
                seeds=seeds,
            )
        )
    return rows


if __name__ == "__main__":
    main()
