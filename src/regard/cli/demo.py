"""`regard demo`: the main idea on this machine, in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from regard.cli.console import put, say

POPULATION = np.array([60_000.0, 70_000.0, 85_000.0])
PROFIT = np.array([175_000.0, 200_000.0, 210_000.0])
ASKED = 65_000.0
BANDWIDTHS = (2_000.0, 5_000.0, 12_000.0)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo"),
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on stdout.")] = False,
) -> None:
    """Predict a profit from a population by attention, and draw who looked at whom."""
    from regard.inspection.plots import draw_regression
    from regard.models.nadaraya_watson import NadarayaWatson

    grid = np.linspace(55_000, 90_000, 141)
    models = {h: NadarayaWatson(bandwidth=h).fit(POPULATION[:, None], PROFIT) for h in BANDWIDTHS}
    chosen = models[BANDWIDTHS[1]]
    picture = draw_regression(
        out / "population-profit.png",
        points=(POPULATION, PROFIT),
        grid=grid,
        curves={f"bandwidth {h:,.0f}": model.predict(grid[:, None]) for h, model in models.items()},
        weights=chosen.weights(grid[:, None]),
        labels=("population", "profit"),
        title="Every prediction is a weighted average of the known profits",
    )
    weights = chosen.weights(np.array([[ASKED]]))[0]
    profit = float(chosen.predict(np.array([[ASKED]]))[0])
    say(f"population {ASKED:,.0f}: the profits known for {', '.join(f'{p:,.0f}' for p in POPULATION)}")
    say(f"weigh {', '.join(f'{w:.3f}' for w in weights)}, so the profit should be about {profit:,.0f}")
    say(f"picture: {picture}")
    if as_json:
        put(json.dumps({"profit": profit, "weights": weights.tolist(), "picture": str(picture)}))
