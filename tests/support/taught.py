"""Which exhibits teach a model for a while, and what every exhibit has to do in its small version."""

from __future__ import annotations

from pathlib import Path

import claims

from regard.exhibits.exhibit import Finding, Scale
from regard.exhibits.gallery import EXHIBITS

TAUGHT = ("bottleneck", "crossing", "context", "cheating", "blanks", "heads", "patches", "decoding")


def makes_its_claim(name: str, folder: Path) -> Finding:
    """Run the small version: figures that bear the claim out, a text without gaps, a picture of moderate size."""
    finding = EXHIBITS[name].run(Scale(small=True))
    getattr(claims, name)(finding.figures)
    assert all(isinstance(value, int | float) for value in finding.figures.values())
    assert "nan" not in finding.text
    assert finding.draw(folder / "seen.png").stat().st_size < 120_000
    return finding
