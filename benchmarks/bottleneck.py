"""The bottleneck, seen in data: BLEU by source length of recurrent models without attention and of ones with it.

    python benchmarks/bottleneck.py [--without RUN... --attending RUN...] [--data SOURCE TARGET...] [--save]

One run a seed on each side, those that `multi30k.py` made unless given; the figures are means over the seeds, on all
the data together. Prints a table, draws docs/pictures/bottleneck.png and ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path

import regard
from record import DATA, ROOT, row, save
from regard.data.text.pairs import Pair, PairSource
from regard.inspection.plots.attention import draw_lengths
from regard.metrics.scores import LengthBucket, bleu_by_length
from regard.tasks.translation.metrics import usual_cut

SETS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
TESTS = [str(DATA / "multi30k" / f"{test}.{language}.gz") for test in SETS for language in ("en", "de")]
EDGES = (9, 12, 15, 18)


def buckets(runs: list[Path], pairs: list[Pair]) -> list[LengthBucket]:
    """BLEU by the length of the source in words: the mean over runs."""
    found = [_buckets(run, pairs) for run in runs]
    return [_mean(list(several)) for several in zip(*found, strict=True)]


def _buckets(run: Path, pairs: list[Pair]) -> list[LengthBucket]:
    model = regard.load(run)
    hypotheses = [said.text for said in model([pair.source for pair in pairs])]
    print(f"  {run}: {len(hypotheses):,} sentences translated", flush=True)
    cut = usual_cut(model.languages)
    references = [pair.target for pair in pairs]
    return bleu_by_length([pair.source for pair in pairs], hypotheses, references, edges=EDGES, **cut)


def _mean(several: list[LengthBucket]) -> LengthBucket:
    figures = [bucket.metric for bucket in several if bucket.metric is not None]
    value = statistics.mean(metric.value for metric in figures)
    return replace(several[0], metric=replace(figures[0], value=value))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs = Path("runs/multi30k")  # where multi30k.py keeps them
    parser.add_argument("--without", type=Path, nargs="+", default=sorted(runs.glob("recurrent-without-*-[0-9]")))
    parser.add_argument("--attending", type=Path, nargs="+", default=sorted(runs.glob("recurrent-general-*-[0-9]")))
    parser.add_argument("--data", nargs="+", default=TESTS, help="source and target files in turn")
    parser.add_argument("--save", action="store_true", help="write results/bottleneck.json and the picture")
    options = parser.parse_args()
    if not options.without or not options.attending:
        parser.error("no runs are given, and multi30k.py has made none")
    sources = [PairSource(*options.data[i : i + 2]) for i in range(0, len(options.data), 2)]
    pairs = [pair for source in sources for pair in source.pairs()]
    found = {"without attention": buckets(options.without, pairs), "attention": buckets(options.attending, pairs)}
    rows, gaps = [], {}
    for plain, attending in zip(*found.values(), strict=True):
        assert plain.metric is not None
        assert attending.metric is not None
        gaps[plain.label] = round(attending.metric.value - plain.metric.value, 2)
        print(f"  {plain.label:>6} words{plain.n:6} sentences{plain.metric.value:8.2f}{attending.metric.value:8.2f}")
        rows.append(row(f"attention, sources of {plain.label} words ({plain.n} sentences)", "BLEU",
                        round(attending.metric.value, 2), n=len(options.attending), peer="without attention",
                        peer_value=round(plain.metric.value, 2), recipe="translation/multi30k-recurrent",
                        chosen_on="the validation set",
                        seeds=list(range(1, len(options.attending) + 1))))  # fmt: skip
    if options.save:
        picture = draw_lengths(ROOT / "docs" / "pictures" / "bottleneck.png", models=found)
        print(f"saved {save('bottleneck', rows)} and {picture}")
    print(json.dumps({"gap": gaps}))


if __name__ == "__main__":
    main()
