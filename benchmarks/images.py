"""CIFAR-10 from scratch with at most eight million parameters: accuracy on the test images, chosen without them.

    python benchmarks/images.py --device cuda --save                    as many epochs as fit into eight minutes
    python benchmarks/images.py --device cuda --minutes 0 --save        the recipe as it stands
    python benchmarks/images.py --device cuda --minutes 2 --set train.lr=1e-3       try something on the held-out images

    python benchmarks/images.py --device cuda --seeds 2 --part          one seed, kept; --save then puts seeds together

Only with --save and --part are the test images looked at.

Some of the training images are held out; weights are chosen by them, and the test images are read once, at the end.
The data are JPEGs (a re-encoding of the original pixels, so a little harder). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from parts import inputs_of, kept_part
from record import DATA, row, save, spread
from regard.config.recipe import Recipe
from regard.models.registry import build
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train

RECIPE = "images/cifar10"
PEER = ("CCT-7/3x1, Hassani et al. 2021, 300 epochs", 0.965)
UNLIKE = "the peer: published, 300 epochs, the original pixels; ours: fewer epochs, JPEGs made of them"
PROBE = 160  # steps by which speed is measured
AFTER = 25.0  # seconds that compiling again, evaluating and saving take


def main() -> None:
    """Measure, print a table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default=RECIPE)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument(
        "--minutes", type=float, default=8.0, help="for one run, data and compiling included; 0: no limit"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--runs", type=Path, default=Path("runs/images"), help="where runs are kept")
    parser.add_argument("--set", nargs="*", default=[], help="settings section.key=value")
    parser.add_argument(
        "--beside", type=int, default=0, help="how many other runs share the device, to be said of times"
    )
    parser.add_argument("--part", action="store_true", help="keep this seed's figures for a later --save")
    parser.add_argument("--save", action="store_true", help="write results/images.json")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    told = [found for seed in options.seeds if (found := measured(seed, options)) is not None]
    for found in told:
        print("  ".join(f"{name} {value}" for name, value in found.items()))
    if options.save:
        save("images", rows_of(told, options))
    print(json.dumps(told))


def measured(seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """A seed that was measured before, or is now; what is only tried is not kept."""
    if not (options.save or options.part):
        return one(seed, options)
    path = options.runs / f"{options.minutes:g}-minutes-{seed}.json"
    return kept_part(path, lambda: one(seed, options), recipe=options.recipe, collect=False)


def one(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train once: what came out, and how long it took."""
    began = time.monotonic()
    settings = [f"train.seed={seed}", f"train.device={options.device}", *options.set]
    settings += [] if options.save or options.part else ["data.report=false"]
    recipe = make_recipe(find_recipe(options.recipe), settings)
    run = fresh(options.runs / f"seed-{seed}")
    if options.minutes:
        settings += [f"train.epochs={fitting(recipe, settings, began, options)}"]
        recipe = make_recipe(find_recipe(options.recipe), settings)
        shutil.move(options.runs / "probe" / "data", run / "data")
    facts = train(recipe, run, data_root=options.data_root, resume=False, say=print)
    figures = {name: {k: m["value"] for k, m in part.items()} for name, part in facts["metrics"].items()}
    return {
        "seed": seed,
        **({"test accuracy": figures["test"]["accuracy"]} if "test" in figures else {}),
        "valid accuracy": figures["valid"]["accuracy"],
        "parameters": facts["parameters"],
        "epochs": recipe.train.epochs,
        "images a second": round(rate_of(run)),
        "GFLOP an image": round(gflop(run), 3),
        "minutes": round((time.monotonic() - began) / 60, 2),
    }


def fitting(recipe: Recipe, settings: list[str], began: float, options: argparse.Namespace) -> float:
    """How many epochs fit into the minutes left, by the speed of a short run; never more than the recipe's."""
    probe = fresh(options.runs / "probe")
    short = [*settings, "train.epochs=0", f"train.steps={PROBE}", f"train.eval_every={PROBE}", "train.log_every=20"]
    tried = make_recipe(find_recipe(options.recipe), [*short, f"train.save_every={PROBE}", "data.report=false"])
    facts = train(tried, probe, data_root=options.data_root, resume=False, say=print)
    rate, spent = rate_of(probe), time.monotonic() - began
    left = 60 * options.minutes - spent - AFTER
    epochs = max(1.0, math.floor(left * rate / facts["images"]))
    print(f"{rate:,.0f} images a second; {spent:.0f} s spent, {left:.0f} s left: {epochs:.0f} epochs fit")
    return min(float(recipe.train.epochs), epochs)


def rate_of(run: Path) -> float:
    """Images a second, the median over the second half of a run."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rates = sorted(line["tokens_per_second"] for line in lines[len(lines) // 2 :] if "tokens_per_second" in line)
    return float(rates[len(rates) // 2]) if rates else float("nan")


def gflop(run: Path) -> float:
    """The operations of one forward pass of one image, in thousand millions."""
    described = json.loads((run / "model.json").read_text())
    model = build(described["model"], described["options"]).eval()
    image = torch.zeros(1, 3, *described["options"]["image"])
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(image)
    return float(counter.get_total_flops()) / 1e9


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def rows_of(told: list[dict[str, Any]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Result rows: means over seeds."""
    n, seeds = len(told), [found["seed"] for found in told]
    name = f"CIFAR-10 from scratch, residual stem and Transformer, {told[0]['parameters'] / 1e6:.1f}M"
    how: dict[str, Any] = {"recipe": options.recipe, "seeds": seeds, "n": n, "inputs": inputs_of(told)}
    how |= {"chosen_on": "training images held out"}
    beside = f", {options.beside} other runs beside it" if options.beside else ""

    def mean(key: str) -> float:
        return float(sum(found[key] for found in told) / n)

    def apart(key: str) -> float | None:
        return spread([found[key] for found in told])

    return [
        row(name, "test accuracy", mean("test accuracy"), peer=PEER[0], peer_value=PEER[1], unit="share", unlike=UNLIKE,
            spread=apart("test accuracy"), **how),
        row(name, "held-out accuracy", mean("valid accuracy"), unit="share", spread=apart("valid accuracy"), **how),
        row(name, "epochs", mean("epochs"), **how),
        row(name, f"training speed{beside}", mean("images a second"), unit="images/s", **how),
        row(name, f"all of it{beside}", mean("minutes"), unit="minutes", **how),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
