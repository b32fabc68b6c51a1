"""Choose settings for fine-tuning without looking at what is reported: on a tenth of the training examples, held out.

    python benchmarks/glue_choose.py --jobs 15 [--tasks rte mrpc] [--seeds 1 2]      what the recipes have was found so
    python benchmarks/glue_choose.py --jobs 15 --who peer --keep                     the peer's rate, for `glue.py`
    python benchmarks/glue_choose.py --try "model.pooling=mean train.r_drop=0.5" "model.pooling=first train.r_drop=1"

A trial is a list of changes to the recipes labels/*; the peer has a rate, of which as many are tried.
Prints the mean of each task's first figure for every trial.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from chosen import keep
from glue import SIDES, one
from glue_tasks import TASKS
from parts import Part, Parts, mean
from record import DATA

HEADS = ("model.pooling=first model.transform=pooler", "model.pooling=mean model.transform=none")
TRIALS = [f"{HEADS[0]} train.r_drop={r_drop} train.lr={lr}" for r_drop in (0, 0.5, 1) for lr in ("5e-5", "1e-4")]
TRIALS += [f"{HEADS[1]} train.r_drop=0.5 train.lr=5e-5"]
PEER_TRIALS = [f"train.lr={lr}" for lr in ("1e-5", "2e-5", "3e-5", "5e-5", "1e-4", "2e-4", "3e-4")]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", nargs="+", default=["1", "2"])
    parser.add_argument("--who", default="ours", choices=SIDES)
    parser.add_argument("--try", nargs="+", dest="trials", metavar="CHANGES")
    parser.add_argument("--parts", type=Path, default=Path("runs/glue-choose"), help="where parts are kept")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--start", help="the pretrained encoder, a Hugging Face folder, instead of the recipes'")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--jobs", type=int, default=1, help="how many parts at a time")
    parser.add_argument("--tiny", action="store_true", help="a few examples: does it run?")
    parser.add_argument("--keep", action="store_true", help="write the best of each task to chosen.json")
    options = parser.parse_args()
    options.trials = options.trials or (PEER_TRIALS if options.who == "peer" else TRIALS)
    options.held_out, options.unchosen = not options.tiny, True
    return options


def main() -> None:
    options = parsed()
    parts = Parts(options.parts, recipe=lambda part: f"labels/{part[1]}")
    trials = {_part_name(options.who, changes): changes for changes in options.trials}
    wanted: list[Part] = [(t, name, seed) for name in options.tasks for seed in options.seeds for t in trials]

    def measure(part: Part) -> dict[str, float]:
        options.set = trials[part[0]].split()
        return one((options.who, *part[1:]), options)

    def command(part: Part) -> list[str]:
        places = ["--parts", str(options.parts), "--data-root", str(options.data_root), "--device", options.device]
        start = ["--start", options.start] if options.start else []
        more = [*start, *(["--tiny"] if options.tiny else []), "--who", options.who]
        return [__file__, "--tasks", part[1], "--seeds", part[2], "--try", trials[part[0]], *places, *more]

    parts.do(wanted, measure, device=options.device, jobs=options.jobs, command=command)
    found = {
        changes: {name: mean([parts.read((trial, name, seed))["figures"][TASKS[name].figures[0]]
                              for seed in options.seeds]) for name in options.tasks}
        for trial, changes in trials.items()
    }  # fmt: skip
    for changes, figures in sorted(found.items(), key=lambda item: -sum(item[1].values())):
        print(f"  {'  '.join(f'{name} {value:6.2f}' for name, value in figures.items())}   {changes}")
    if options.keep:
        keep("glue", options.who, {name: max(found, key=lambda trial: found[trial][name]) for name in options.tasks})
    print(json.dumps(found))


def _part_name(who: str, changes: str) -> str:
    return "_".join([who, *changes.split()]).replace("/", "-")


if __name__ == "__main__":
    main()
