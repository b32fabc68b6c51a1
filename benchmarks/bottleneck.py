"""The bottleneck, seen in data: BLEU by source length of a recurrent model without attention and of one with it.

    python benchmarks/bottleneck.py runs/rec-none runs/rec-general --data test.en.gz test.de.gz [--save]

Prints a table, draws docs/pictures/bottleneck.png and ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import regard
from record import ROOT, row, save
from regard.data import PairSource
from regard.inspection.plots import draw_lengths
from regard.tasks.metrics import LengthBucket, bleu_by_length
from regard.tasks.translation import usual_cut

EDGES = (9, 12, 15, 18)


def buckets(run: Path, source: PairSource) -> list[LengthBucket]:
    """BLEU of a run by the length of the source in words."""
    model, pairs = regard.load(run), list(source.pairs())
    hypotheses = [found.text for found in model([pair.source for pair in pairs])]
    references = [pair.target for pair in pairs]
    cut = usual_cut(model.languages)
    return bleu_by_length([pair.source for pair in pairs], hypotheses, references, edges=EDGES, **cut)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("without", type=Path)
    parser.add_argument("attending", type=Path)
    parser.add_argument("--data", nargs=2, required=True)
    parser.add_argument("--save", action="store_true", help="write results/bottleneck.json and the picture")
    options = parser.parse_args()
    source = PairSource(*options.data)
    found = {"without attention": buckets(options.without, source), "attention": buckets(options.attending, source)}
    rows, gaps = [], {}
    for plain, attending in zip(*found.values(), strict=True):
        assert plain.metric is not None
        assert attending.metric is not None
        gaps[plain.label] = round(attending.metric.value - plain.metric.value, 2)
        print(f"  {plain.label:>6} words{plain.n:6} sentences{plain.metric.value:8.2f}{attending.metric.value:8.2f}")
        rows.append(row(f"attention, sources of {plain.label} words", "BLEU", round(attending.metric.value, 2),
                        n=plain.n, peer="without attention", peer_value=round(plain.metric.value, 2),
                        recipe="translation/multi30k-recurrent", seeds=[1]))  # fmt: skip
    if options.save:
        picture = draw_lengths(ROOT / "docs" / "pictures" / "bottleneck.png", models=found)
        print(f"saved {save('bottleneck', rows)} and {picture}")
    print(json.dumps({"gap": gaps}))


if __name__ == "__main__":
    main()
