"""Which picture shows a record best, and what goes into it. The drawing itself is done in `plots`.

alignment    which target word came from which source word, as in Bahdanau et al. (2015)
heads        every head of one layer, side by side, with their labels
overview     every head of every layer, small
rollout      what each piece looks at through all layers together (Abnar and Zuidema, 2020)
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np

from regard.inspection.alignments import Heads, check_choice
from regard.inspection.plots.attention import draw_alignment, draw_grid
from regard.inspection.record import Look, Map, MapKind, Picture, Weights
from regard.inspection.rollout import roll_out

Grid = tuple[Weights, list[list[str]], str | None]  # maps (R, C, T, S), their names, the title
_ACROSS = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4}  # heads in a row; of more, four


def draw(
    look: Look, path: Path | str, *, heads: Heads, layer: int | None, kind: MapKind | None, picture: Picture, dark: bool
) -> Path:
    """Draw the picture asked for; "auto" chooses."""
    check_choice("picture", picture, get_args(Picture))
    if picture == "auto":
        picture = _fitting(look, layer, kind)
    if picture == "alignment":
        words = look.target_words.texts, look.source_words.texts
        alignment = look.align(heads=heads, layer=layer)
        return draw_alignment(alignment, path, source=words[1], target=words[0], dark=dark)
    attention = look.of(kind)
    grids = {"heads": _heads, "overview": _overview, "rollout": _rollout}
    weights, names, title = grids[picture](look, attention, layer)
    rows, columns = (look.axes[side].shown for side in (attention.rows, attention.columns))
    labelled = picture != "overview"
    return draw_grid(weights, path, rows=rows, columns=columns, names=names, title=title, labelled=labelled, dark=dark)


def _fitting(look: Look, layer: int | None, kind: MapKind | None) -> Picture:
    if kind in (None, "cross") and "cross" in look.maps:
        return "alignment"
    return "heads" if layer is not None or len(look.of(kind).layers) == 1 else "overview"


def _heads(look: Look, attention: Map, layer: int | None) -> Grid:
    """The heads of a layer in rows of at most four."""
    number = attention.layers[0] if layer is None else layer
    weights = attention.of_layer(number)  # (H, T, S)
    across = _ACROSS.get(len(weights), 4)
    down = -(-len(weights) // across)
    spare = down * across - len(weights)
    padded = np.concatenate([weights, np.zeros_like(weights[:1]).repeat(spare, 0)])
    names = [f"head {head}" for head in attention.heads] + [""] * spare
    if len(weights) == 1:
        names = [f"looked at: {attention.columns}"]
    title = f"{attention.kind}, layer {number}" if len(attention.layers) > 1 or layer is not None else attention.kind
    in_rows = [names[i : i + across] for i in range(0, len(names), across)]
    return padded.reshape(down, across, *weights.shape[1:]), in_rows, title


def _overview(look: Look, attention: Map, layer: int | None) -> Grid:
    """Layers from top to bottom, heads from left to right."""
    weights = attention.weights if layer is None else attention.of_layer(layer)[None]
    layers = attention.layers if layer is None else (layer,)
    names = [[f"{number}\n{head}" for head in attention.heads] for number in layers]
    return weights, names, f"{attention.kind}: layers down, heads across"


def _rollout(look: Look, attention: Map, layer: int | None) -> Grid:
    """Through all layers, or through those up to one."""
    weights = roll_out(look, attention.kind, upto=layer)
    upto = f"layers 0 to {attention.layers[-1] if layer is None else layer}"
    return weights[None, None], [[f"rollout, {upto}"]], None
