"""The Multi30k table from the runs behind it.

    regard train multi30k-tiny --out runs/tiny-1 train.seed=1                 and so on for other seeds
    python benchmarks/multi30k.py "Transformer tiny" runs/tiny-1 runs/tiny-2 runs/tiny-3 --save

Reads the run.json of each seed and keeps the mean and the spread; the runs themselves say on which hardware and at
which commit they were trained.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from record import row, save, spread

SETS = {"test_2016_flickr": "test 2016", "test_2017_flickr": "test 2017", "test_2017_mscoco": "mscoco"}
METRICS = {"usual bleu": "BLEU, lower-cased Moses tokens", "bleu": "BLEU, 13a, cased"}
PUBLISHED = {"test 2016": 41.02, "test 2017": 33.36, "mscoco": 29.88}
PEER = "Transformer-Tiny, Wu et al. 2021"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="what the runs are, as it stands in the table")
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, one a seed")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="which test sets to keep")
    parser.add_argument("--save", action="store_true", help="write results/multi30k.json")
    options = parser.parse_args()
    rows = collect(options.name, options.runs, sets=options.sets)
    shown(rows)
    if options.save:
        print(f"saved {save('multi30k', rows)}")


def shown(rows: list[dict[str, Any]]) -> None:
    """Print what was found."""
    for r in rows:
        print(f"  {r['name']:<48}{r['value']:8.2f}  ± {r['spread'] or 0:.2f}  {r['metric']}")


def collect(
    name: str, folders: list[Path], *, sets: Sequence[str] = tuple(SETS), command: str | None = None
) -> list[dict[str, Any]]:
    """One row a test set: the mean over the seeds of the figure that is usual for these runs.

    `command` is what makes the runs, if it is not the recipe alone.
    """
    runs = [_read(folder) for folder in folders]
    cased = not runs[0]["config"]["tokenizer"]["lowercase"]
    key = "bleu" if cased else "usual bleu"
    rows = []
    for test in sets:
        values = [run["figures"][test][key]["value"] for run in runs]
        is_peer = not cased and runs[0]["config"]["model"].get("size") == "tiny"
        rows.append(
            row(
                f"{name}, {SETS[test]}",
                METRICS[key],
                round(statistics.mean(values), 2),
                n=len(values),
                spread=spread(values),
                peer=PEER if is_peer else None,
                peer_value=PUBLISHED[SETS[test]] if is_peer else None,
                recipe=runs[0]["recipe"],
                command=command or f"regard train {runs[0]['recipe']} {runs[0]['settings']}".rstrip(),
                seeds=[run["config"]["train"]["seed"] for run in runs],
                hardware=runs[0]["facts"].get("hardware"),
                versions=runs[0]["facts"].get("versions"),
                commit=runs[0]["facts"].get("commit"),
            )
        )
    return rows


def _read(folder: Path) -> dict[str, Any]:
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    recipe = "multi30k-recurrent" if config["model"]["name"] == "recurrent" else "multi30k-tiny"
    facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return {
        "config": config,
        "figures": facts["metrics"],
        "facts": facts,
        "recipe": recipe,
        "settings": _settings(config, recipe),
    }


def _settings(config: dict[str, Any], recipe: str) -> str:
    """What differs from the recipe, as it would be written on the command line, seeds aside."""
    from regard.tasks.recipes import find_recipe, make_recipe

    usual = make_recipe(find_recipe(recipe)).resolved()
    changed = [
        f"{section}.{key}={value}"
        for section, options in config.items()
        if isinstance(options, dict)
        for key, value in options.items()
        if usual.get(section, {}).get(key) != value and key != "seed"
    ]
    return " ".join(changed)


if __name__ == "__main__":
    main()
