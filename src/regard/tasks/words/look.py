"""A map of words: their places in a plane, as a picture.

draw_words("map.png", words, places)     places (n, 2), such as those of `WordsPredictor.map`
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from regard.errors import ShapeError

_BLUE, _INK = "#0b5cad", "#202124"


def draw_words(path: Path | str, words: Sequence[str], places: Tensor, *, title: str = "") -> None:
    """Draw a dot and its word at each place (n, 2); the ending of the file says which kind of picture."""
    import matplotlib
    from matplotlib.figure import Figure

    if places.shape != (len(words), 2):
        raise ShapeError(f"{len(words)} words and places of shape {tuple(places.shape)}; each word has two numbers")
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "font.size": 11, "svg.hashsalt": "regard"}):
        figure = Figure(figsize=(8, 6), layout="constrained")
        axes = figure.add_subplot()
        x, y = places.detach().cpu().double().numpy().T
        axes.scatter(x, y, s=14, color=_BLUE)
        for word, left, up in zip(words, x, y, strict=True):
            # A dollar sign would begin a formula.
            axes.annotate(word.replace("$", r"\$"), (left, up), (4, 3), textcoords="offset points", color=_INK)
        axes.margins(0.12)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[["top", "right", "left", "bottom"]].set_color("#e8eaed")
        axes.set_title(title.replace("$", r"\$"), loc="left")
        figure.savefig(path, dpi=150, metadata=None)
