"""Weighted averaging: what attention was before it had the name.

The lectures' first table: cities of 60, 70 and 85 thousand people made profits of 175, 200 and 210 thousand; what will
one of 65 thousand make? An average of all that is known, weighted by how near each city is. The bandwidth says how far
"near" reaches: almost nothing and the nearest city decides alone, almost everything and all cities count the same.
"""

from __future__ import annotations

import math

import numpy as np

from regard.exhibits.exhibit import Finding, Scale
from regard.inspection.plots.panels import Line, Lines, lines_of
from regard.models.nadaraya_watson import Array, NadarayaWatson

PEOPLE, PROFIT = [60_000.0, 70_000.0, 85_000.0], [175_000.0, 200_000.0, 210_000.0]
ASKED = 65_000.0
SHOWN = (1_000, 5_000, 16_447, 100_000)
# The slide guesses weights of .4, .4 and .2: the third is half of the others where exp(−(20² − 5²)k²/2h²) = 1/2.
GUESSED = math.sqrt((20_000**2 - 5_000**2) / (2 * math.log(2)))


def run(scale: Scale) -> Finding:
    """Ask for one city at many bandwidths, and for many cities at a few."""
    asked = np.linspace(55_000, 90_000, scale.of(141, 15))
    curves = [Line(f"h = {h / 1000:.3g}", asked / 1000, _known(h).predict(asked[:, None]) / 1000) for h in SHOWN]
    reaches = np.geomspace(1_000, 200_000, scale.of(61, 13))
    weights = np.stack([_known(h).weights([[ASKED]])[0] for h in reaches])
    figures: dict[str, float] = {f"profit at a bandwidth of {h:,}": round(_ask(h)) for h in SHOWN}
    figures |= {f"weight of {p:,.0f} at {GUESSED:,.0f}": w for p, w in zip(PEOPLE, _weights(GUESSED), strict=True)}
    figures["profit by the plain mean"] = float(np.mean(PROFIT))
    slide = NadarayaWatson(bandwidth=2**-0.5).fit([[10.0], [20.0], [30.0]], [1.0, 2.0, 3.0])
    figures |= {f"slide, x = {x}: weight of 10": float(slide.weights([[float(x)]])[0, 0]) for x in (15, 5)}
    return Finding(figures, _text(figures), _panels(curves, reaches, weights), PICTURE)


def _known(bandwidth: float) -> NadarayaWatson:
    return NadarayaWatson(bandwidth=bandwidth).fit([[people] for people in PEOPLE], PROFIT)


def _ask(bandwidth: float) -> float:
    return float(_known(bandwidth).predict([[ASKED]])[0])


def _weights(bandwidth: float) -> list[float]:
    return [float(weight) for weight in _known(bandwidth).weights([[ASKED]])[0]]


def _panels(curves: list[Line], reaches: Array, weights: Array) -> list[Lines]:
    known = Line("known", [p / 1000 for p in PEOPLE], [p / 1000 for p in PROFIT], look=4, dots=True)
    by_city = {"60 and 70 thousand, each": weights[:, 0], "85 thousand": weights[:, 2]}  # as far, so as heavy
    shares = lines_of(by_city, reaches / 1000, looks=(0, 1))
    slide = Line("the slide's guess", [GUESSED / 1000] * 2, [0.4, 0.2], look=4, dots=True)
    return [
        Lines("Predicted profit, by bandwidth h (thousands)", [*curves, known], "people (thousands)",
              "profit (thousands)", ramp=True),
        Lines("Weight of each known city for 65 thousand people", [*shares, slide], "bandwidth (thousands of people)",
              "weight", log="x", y_range=(0, 0.6), x_ticks=(1, 5, 20, 100)),
    ]  # fmt: skip


def _text(figures: dict[str, float]) -> str:
    near, guess = figures["profit at a bandwidth of 5,000"], figures["profit at a bandwidth of 16,447"]
    mean, at_15, at_5 = (figures[name] for name in list(figures)[-3:])
    return f"""
The prediction for {ASKED:,.0f} people is Σ weight · profit, the weights a softmax of −distance²/2h². With a bandwidth
h of 5,000 the two neighbours share it and the profit is {near:,}, the slide's "reasonable" (175,000 + 200,000)/2.
The slide then guesses weights of .4, .4 and .2: these are exactly the weights at h = {GUESSED:,.0f}, and give
{guess:,}. As h grows all cities count the same, and the prediction tends to the plain mean, {mean:,.0f}; as it
shrinks the nearest decide alone.

Where the slides slip: 85,000 is 20,000 away from 65,000, not 10,000; and the table of softmax(−(x − xᵢ)²) "for x = 5"
is for x = 15, where 10 and 20 weigh {at_15:.2f} each (at 5 all the weight, {at_5:.2f}, is on 10). Without a bandwidth
the unit of x decides: counted in single people, the nearest city would always have all the weight.
"""


TITLE = "Weighted averaging"
CLAIM = (
    "A prediction is an average of all that is known, weighted by similarity; the bandwidth says how far that reaches."
)
PICTURE = "Attention before it had the name: a weighted average"
