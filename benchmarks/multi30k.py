"""The Multi30k table from the runs behind it.

    python benchmarks/multi30k.py "Transformer tiny" --seeds 1 2 3 --device cuda --save        trains what is not there
    python benchmarks/multi30k.py "Transformer tiny" --seeds 2 --part                          one seed, kept for later
    python benchmarks/multi30k.py "recurrent, dot" --recipe multi30k-recurrent --set model.attention=dot … --save
    python benchmarks/multi30k.py "mine" runs/one runs/two --save                              runs that are there

Reads the run.json of each seed and keeps the mean and the spread; the runs themselves say on which hardware and at
which commit they were trained. Weights and settings are chosen on the validation set.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inputs import here, merged
from parts import stands
from record import DATA, row, save, spread
from regard.checkpoints.run import RunFolder
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train

SETS = {"test_2016_flickr": "test 2016", "test_2017_flickr": "test 2017", "test_2017_mscoco": "mscoco"}
METRICS = {"usual bleu": "BLEU, lower-cased Moses tokens", "bleu": "BLEU, 13a, cased"}
PUBLISHED = {"test 2016": 41.02, "test 2017": 33.36, "mscoco": 29.88}
PEER = "Transformer-Tiny, Wu et al. 2021"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="what the runs are, as it stands in the table")
    parser.add_argument("runs", nargs="*", type=Path, help="run folders, one a seed; none: they are trained")
    parser.add_argument("--recipe", default="multi30k-tiny")
    parser.add_argument("--seeds", nargs="+", default=["1", "2", "3"])
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings that win over the recipe")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--part", action="store_true", help="train, and keep nothing yet")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="which test sets to keep")
    parser.add_argument("--save", action="store_true", help="write results/multi30k.json")
    options = parser.parse_args()
    runs = options.runs or [trained_seed(seed, options) for seed in options.seeds]
    if options.part:
        return
    rows = collect(options.name, runs, sets=options.sets)
    shown(rows)
    if options.save:
        print(f"saved {save('multi30k', rows)}")


def trained_seed(seed: str, options: argparse.Namespace) -> Path:
    """The run of one seed, in a folder named by what it is."""
    name = re.sub(r"\W+", "-", " ".join([options.name, *options.set])).strip("-").lower()
    settings, folder = [f"train.seed={seed}", *options.set], Path("runs/multi30k") / f"{name}-{seed}"
    return trained(folder, options.recipe, settings, device=options.device, root=options.data_root)


def trained(folder: Path, recipe: str, settings: Sequence[str], *, device: str, root: Path) -> Path:
    """A run of a recipe with these settings, unless it is there, done, and by the code as it is now."""
    run, said = RunFolder(folder), folder.with_suffix(".inputs.json")
    if (folder / "run.json").exists() and stands(said):
        return folder
    if (folder / "run.json").exists():  # finished, by other code
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = make_recipe(find_recipe(recipe), [f"train.device={device}", *settings])
    train(made, folder, data_root=root, resume=run.exists(), say=print)
    said.write_text(json.dumps({"inputs": here(recipe)}))
    return folder


def shown(rows: list[dict[str, Any]]) -> None:
    """Print what was found."""
    for r in rows:
        print(f"  {r['name']:<48}{r['value']:8.2f}  ± {r['spread'] or 0:.2f}  {r['metric']}")


def collect(
    name: str, folders: list[Path], *, sets: Sequence[str] = tuple(SETS), unlike: str | None = None
) -> list[dict[str, Any]]:
    """One row a test set: the mean over the seeds of the figure that is usual for these runs."""
    said = [folder.with_suffix(".inputs.json") for folder in folders]
    inputs = merged(json.loads(path.read_text())["inputs"] if path.exists() else None for path in said)
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
                chosen_on="the validation set",
                unlike=unlike if is_peer else None,
                inputs=inputs,
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
    }


if __name__ == "__main__":
    main()
