"""Translating on a CPU out of a shortlist, beside ourselves without one: speed, and what it costs in BLEU.

    python benchmarks/shortlist.py RUN [--rounds 5] [--sentences 48] [--save]

RUN is a translator for Multi30k, and the shortlist is learnt from its pairs. Speed is that of Transformer base
(`widened.py`: RUN in its sizes), in fp32 and int8, greedy and beam 5, one sentence at a time and 16, in tokens of the
translations a second, in turns. So that what a larger vocabulary brings can be seen, base with 32,000 tokens and random
weights writes 32 tokens for 30, with sentences that may write as many tokens as those of the test set do. BLEU is that
of RUN itself.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch

import regard
from record import DATA, row, save
from regard.attention import Rows
from regard.data.text.corpus import Corpus
from regard.decoding import DecodeOptions, decode
from regard.decoding.shortlist import Shortlist, restricted
from regard.fast.cpu.packed_linear import Precision, pack_linears
from regard.metrics.scores import bleu
from regard.models.transformer import SIZES
from regard.tasks.translation.metrics import TestPairs
from regard.tasks.translation.predictor import TranslationPredictor
from regard.tasks.translation.shortlist import ShortlistTable
from translation import transformer
from widened import widened

PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")
BEAMS, BATCHES = (1, 5), (1, 16)
LARGE, N_SOURCE, N_NEW = 32_000, 30, 32
WITHOUT = "regard without a shortlist"
Way = Callable[[], int]  # gives the tokens it wrote


def learnt(run: Path, predictor: TranslationPredictor) -> ShortlistTable:
    """The shortlist of the pairs that a run was trained on."""
    return ShortlistTable.learn(Corpus.open(next((run / "data").glob("*/corpus"))), predictor.languages)


def options_of(beam: int, **more: Any) -> dict[str, Any]:
    return {"strategy": "greedy" if beam == 1 else "beam", "beam": beam} | more


def real(predictor: TranslationPredictor, texts: Sequence[str], *, batch: int, beam: int) -> Callable[[Any], Way]:
    """Translating texts, so many at a time."""
    options = predictor.options(options_of(beam))

    def of(table: ShortlistTable | None) -> Way:
        def call() -> int:
            parts = (texts[i : i + batch] for i in range(0, len(texts), batch))
            found = [one for part in parts for one in predictor.translator(part, options, table=table)]
            return sum(len(several[0].ids) + 1 for several in found)

        return call

    return of


def large(kind: Precision, sizes: tuple[int, int], *, batch: int, beam: int) -> Callable[[Any], Way]:
    """Random sentences and weights with a large vocabulary; of `sizes` tokens all rows share the first number."""
    torch.manual_seed(0)
    base: dict[str, Any] = dict(SIZES["base"])
    shape = (base["d_model"], base["n_heads"], base["n_encoder_layers"], base["d_feedforward"], LARGE, 0)
    model = pack_linears(transformer(shape, dropout=0.0).eval(), kind)
    draw = np.random.default_rng(0)
    shared, own = np.arange(sizes[0]), [draw.integers(sizes[0], LARGE, sizes[1]) for _ in range(batch)]
    source = torch.randint(4, LARGE, (batch, N_SOURCE))
    options = DecodeOptions(**options_of(beam, min_length=N_NEW - 1, max_length=N_NEW))

    def of(table: ShortlistTable | None) -> Way:
        @torch.inference_mode()
        def call() -> int:
            stepper = model.start(Rows(source), capacity=N_NEW)
            if table is not None:
                stepper = restricted(stepper, Shortlist.of([np.concatenate([shared, one]) for one in own]))
            decode(stepper, n_rows=batch, bos_id=2, eos_id=3, pad_id=0, options=options)
            return batch * N_NEW

        return call

    return of


def speeds(case: str, of: Callable[[Any], Way], table: ShortlistTable, *, rounds: int, about: str) -> dict[str, Any]:
    """A row: how many times as fast with the shortlist, in turns."""
    ways = {"with": of(table), "without": of(None)}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            begin = time.perf_counter()
            n_tokens = way()
            if turn:  # the first call of each warms up
                rates[name].append(n_tokens / (time.perf_counter() - begin))
    ratios = sorted(a / b for a, b in zip(rates["with"], rates["without"], strict=True))
    each = {name: round(median(found)) for name, found in rates.items()}
    print(
        f"  {case:<46}{median(ratios):>6.2f} ×  {each['with']:>7,} {each['without']:>7,} tokens/s  {about}", flush=True
    )
    return row(f"shortlist, {case}, cpu", "speed", round(median(ratios), 2), unit="×", peer=f"{WITHOUT}; {about}",
               peer_value=1.0, n=len(ratios), spread=[round(ratios[0], 2), round(ratios[-1], 2)], seeds=[0],
               deterministic=True)  # fmt: skip


def sizes_of(predictor: TranslationPredictor, table: ShortlistTable, texts: Sequence[str], batch: int) -> list[float]:
    """How many tokens a batch may write together, and each sentence: means."""
    sources = predictor.languages.source.encode(texts)
    lists = [
        table.of(sources[i : i + batch], [[]] * len(sources[i : i + batch])) for i in range(0, len(sources), batch)
    ]
    return [fmean(len(one.columns) for one in lists), fmean(float(one.allowed.sum(1).float().mean()) for one in lists)]


def measure(
    predictor: TranslationPredictor, table: ShortlistTable, pairs: TestPairs, options: Any
) -> list[dict[str, Any]]:
    """All rows of speed."""
    texts, rows = pairs.sources[: options.sentences], []
    _, each = sizes_of(predictor, table, texts, 1)
    own = round(each) - len(table.frequent)
    for kind in PRECISIONS:
        base = widened(predictor, size="base", precision=kind)
        for beam in BEAMS:
            for batch in BATCHES:
                together, alone = sizes_of(predictor, table, texts, batch)
                case = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch} {kind}"
                n_tokens = len(predictor.languages.target.tokenizer)
                about = f"{together:,.0f} of {n_tokens:,} tokens a batch, {alone:,.0f} a sentence"
                rows.append(speeds(case, real(base, texts, batch=batch, beam=beam), table, rounds=options.rounds,
                                   about=about))  # fmt: skip
                if batch == 1:
                    ways = large(kind, (len(table.frequent), own), batch=batch, beam=beam)
                    about = f"{len(table.frequent) + own:,} of {LARGE:,} tokens a sentence, random weights"
                    rows.append(
                        speeds(f"{case}, vocabulary {LARGE:,}", ways, table, rounds=options.rounds, about=about)
                    )
    return rows


def quality(
    predictor: TranslationPredictor, table: ShortlistTable, tests: dict[str, TestPairs]
) -> list[dict[str, Any]]:
    """BLEU with and without, of the run itself, on every test set."""
    rows = []
    for beam in BEAMS:
        chosen = predictor.options(options_of(beam))
        for name, pairs in tests.items():
            scores = {}
            for how, used in (("with", table), ("without", None)):
                found = predictor.translator(pairs.sources, chosen, table=used)
                scores[how] = bleu([several[0].text for several in found], pairs.references, **pairs.cut).value
            case = f"shortlist, {'greedy' if beam == 1 else f'beam {beam}'}, {name}"
            print(f"  {case:<46} BLEU {scores['with']:.2f}, without {scores['without']:.2f}", flush=True)
            rows.append(row(case, "BLEU", round(scores["with"], 2), peer=WITHOUT, n=len(pairs.sources),
                            peer_value=round(scores["without"], 2), seeds=[predictor.config.train.seed],
                            deterministic=True))  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a translator for Multi30k")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=48, help="of the first test set, to measure speed on")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--save", action="store_true", help="write results/translation-speed.json")
    options = parser.parse_args()
    predictor = regard.load(options.run, "cpu")
    table = learnt(options.run, predictor)
    tests = dict(predictor.test_sets(predictor.score_data(None, options.data)))
    rows = quality(predictor, table, tests) + measure(predictor, table, next(iter(tests.values())), options)
    if options.save:
        print(f"saved {save('translation-speed', rows)}")
    print(json.dumps({r["name"]: r["value"] for r in rows}))


if __name__ == "__main__":
    main()
