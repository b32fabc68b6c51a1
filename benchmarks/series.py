"""ETTh1, 96 to 720 hours ahead: a patch forecaster and DLinear; and one company's returns from others'.

    python benchmarks/series.py --device cuda --save                          everything: four horizons, two models
    python benchmarks/series.py --horizons 96 --models dlinear                a part of it; parts are kept
    python benchmarks/series.py --models patch-forecaster --plain --save      without the linear model it starts from
    python benchmarks/series.py --horizons --stocks --seeds 1 2 3 --save      Microsoft from four others, the same day
    python benchmarks/series.py --collect --save                              only put together what is there

The split is the usual one (12, 4 and 4 months), every one of the test windows counts, and weights are chosen on the
validation part. Errors are scaled, as the literature has them: Nie et al. (2023), table 3; Zeng et al. (2023), table 2.
Simple forecasts stand beside all of them: the mean, the last value, the last season, a ridge regression. The last line
is JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from parts import inputs_of, kept_part
from record import DATA, row, save, spread
from regard.tasks.recipes import find_recipe, make_recipe
from regard.tasks.training import train

RECIPES = {"patch-forecaster": "series/etth1-96", "dlinear": "series/etth1-dlinear"}
PUBLISHED = {  # MSE by horizon
    "patch-forecaster": ("PatchTST/64", {96: 0.370, 192: 0.413, 336: 0.422, 720: 0.447}),
    "dlinear": ("DLinear", {96: 0.375, 192: 0.405, 336: 0.439, 720: 0.472}),
}
STOCKS = "series/stocks"
PLAIN = ["model.linear=false", "train.lr=1e-4", "train.epochs=60", "train.patience=15"]  # a network alone takes longer
CHOSEN = "weights on the validation part; settings too"
UNLIKE = "the peer's figure is published; its loader leaves the last windows of the test part out"
SIMPLE = ("mean", "naive", "seasonal naive", "ridge")


def one(model: str, horizon: int, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model for one horizon in a folder that is thrown away: its figures on the test part."""
    settings = [f"data.horizon={horizon}", f"train.seed={seed}", f"train.device={options.device}"]
    settings += [*(PLAIN if options.plain else []), *options.set]
    recipe = make_recipe(find_recipe(RECIPES.get(model, STOCKS)), settings)
    folder, root = Path(tempfile.mkdtemp(dir=options.parts)), options.data_root
    try:
        if model not in RECIPES:
            root = folder
            with tarfile.open(options.data_root / "stocks" / "stocks.tar.gz") as archive:
                archive.extractall(folder, filter="data")
        facts = train(recipe, folder / "run", data_root=root, resume=False, say=print)
    finally:
        shutil.rmtree(folder)
    figures = {name: metric["value"] for name, metric in facts["metrics"]["test"].items()}
    return figures | {"valid mse": facts["metrics"]["valid"]["mse"]["value"]}


def measured(model: str, horizon: int, seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """A part that was measured before, or is now."""
    path = options.parts / f"{model}{'-plain' if options.plain else ''}-{horizon}-{seed}.json"
    recipe = RECIPES.get(model, STOCKS)
    return kept_part(path, lambda: one(model, horizon, seed, options), recipe=recipe, collect=options.collect)


def rows_of(model: str, horizon: int, found: list[dict[str, Any]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Result rows: mean over seeds, with the published figure beside it."""
    peer, published = PUBLISHED[model]
    rows = []
    for metric in ("mse", "mae"):
        values = [figures[metric] for figures in found]
        more: dict[str, Any] = {"inputs": inputs_of(found), "chosen_on": CHOSEN}
        if metric == "mse":
            more |= {"peer": f"{peer}, published", "peer_value": published[horizon], "unlike": UNLIKE}
        shown = f"{model} without the linear model" if options.plain else model
        rows.append(
            row(f"{shown}, ETTh1, {horizon} steps", metric, sum(values) / len(values), n=len(values), unit="scaled",
                recipe=RECIPES[model], seeds=options.seeds, spread=spread(values), **more)
        )  # fmt: skip
    return rows


def baseline_rows(what: str, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """What simple forecasts reach on the same windows; they know no seed."""
    names = [(name, metric) for name in SIMPLE for metric in ("mse", "mae") if f"{name} {metric}" in figures]
    return [
        row(f"{name}, {what}", metric, figures[f"{name} {metric}"], n=1, unit="scaled", deterministic=True,
            inputs=figures.get("inputs"))
        for name, metric in names
    ]  # fmt: skip


def stocks(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One company's returns from those of others: rows, the linear model beside ours, and what to print."""
    found = [f for seed in options.seeds if (f := measured("stocks", 1, seed, options)) is not None]
    if not found:
        return [], {}
    what, rows = "Microsoft's daily return from four others'", []
    for metric in ("mse", "mae"):
        values = [figures[metric] for figures in found]
        rows.append(
            row(f"series-transformer, {what}", metric, sum(values) / len(values), n=len(values), unit="scaled",
                recipe=STOCKS, seeds=options.seeds, inputs=inputs_of(found), chosen_on=CHOSEN,
                peer="ridge", peer_value=found[0][f"ridge {metric}"], spread=spread(values))
        )  # fmt: skip
    simple = {name: found[0][f"{name} mse"] for name in SIMPLE if f"{name} mse" in found[0]}
    shown = "  ".join(f"{name} {value:.4f}" for name, value in simple.items())
    print(f"stocks  series-transformer mse {rows[0]['value']:.4f}   {shown}")
    return rows + baseline_rows(what, found[0]), {"stocks": {"mse": rows[0]["value"], **simple}}


def main() -> None:
    """Measure what is asked for, print a table, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--horizons", nargs="*", type=int, default=[96, 192, 336, 720], choices=[96, 192, 336, 720])
    parser.add_argument("--stocks", action="store_true", help="returns of a company from those of others as well")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-root", type=Path, default=DATA)
    parser.add_argument("--parts", type=Path, default=Path("runs/series"), help="where measured parts are kept")
    parser.add_argument("--set", nargs="*", default=[], help="settings section.key=value for all of them")
    parser.add_argument("--plain", action="store_true", help="the patch forecaster without its linear model")
    parser.add_argument("--collect", action="store_true", help="train nothing")
    parser.add_argument("--save", action="store_true", help="write results/series.json")
    options = parser.parse_args()
    options.parts.mkdir(parents=True, exist_ok=True)
    rows, told = [], {}
    for horizon in options.horizons:
        simple: dict[str, Any] = {}
        for model in options.models:
            found = [f for seed in options.seeds if (f := measured(model, horizon, seed, options)) is not None]
            if not found:
                continue
            rows += rows_of(model, horizon, found, options)
            simple = simple or ({} if options.plain else found[0])
            peer, published = PUBLISHED[model]
            mse, mae = (sum(f[metric] for f in found) / len(found) for metric in ("mse", "mae"))
            told[f"{model} {horizon}"] = {"mse": mse, "mae": mae, "published": published[horizon]}
            print(f"{horizon:>4} steps  {model:<18} mse {mse:.4f}  mae {mae:.4f}   {peer}: {published[horizon]:.3f}")
        if simple:
            rows += baseline_rows(f"ETTh1, {horizon} steps", simple)
            shown = "  ".join(f"{name} {simple[f'{name} mse']:.4f}" for name in SIMPLE if f"{name} mse" in simple)
            print(f"{horizon:>4} steps  {shown}")
    if options.stocks:
        more, said = stocks(options)
        rows, told = rows + more, told | said
    if options.save:
        save("series", rows)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
