"""The colours of attention, for pictures and pages alike: one hue in even steps of lightness, on paper or in the dark.

`style` and `save_picture` are what all pictures on such paper share; matplotlib itself is not needed to have colours.

A single hue from the colour of the page to its contrary survives a grey printer and every kind of colour-blindness.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DPI = 160
_EVEN = 24  # full colour is this many times an even share of the attention, or all of it


@dataclass(frozen=True)
class Theme:
    """A page's colours: `shades` run from no attention to all of it; `accent` marks one thing, `quiet` stands back."""

    paper: str
    ink: str
    rule: str
    accent: str
    shades: tuple[str, ...]
    quiet: str


LIGHT = Theme(
    "#ffffff",
    "#1b1d21",
    "#e2e3e0",
    "#c4620a",
    ("#ffffff", "#dce8f4", "#a3c3e2", "#5590c7", "#215f9d", "#0a2d58"),
    "#62666e",
)
DARK = Theme(
    "#131519",
    "#e8e8e3",
    "#2a2e35",
    "#f0a35e",
    ("#171a1f", "#1c3048", "#27557f", "#4385bd", "#8bbce6", "#e6f2fd"),
    "#a3a8b1",
)


# What pictures of figures look like, on whatever paper.
PLAIN_AXES = {"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
              "legend.frameon": False}  # fmt: skip


def style(theme: Theme) -> Any:
    """Matplotlib's settings for pictures on such paper."""
    names = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    return {"font.family": "DejaVu Sans", "axes.facecolor": theme.paper} | dict.fromkeys(names, theme.ink)


def plain(text: str) -> str:
    """A text that is shown as it is: dollars begin no formula."""
    return text.replace("$", r"\$")


def save_picture(figure: Any, path: Path | str, theme: Theme = LIGHT) -> Path:
    """Save a figure as its name ends."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI, facecolor=theme.paper)
    return path


def full_colour(n_columns: int) -> float:
    """The weight from which on a cell has its full colour: less, the more places share the attention."""
    return min(1.0, _EVEN / n_columns)
