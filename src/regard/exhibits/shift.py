"""The shift matrix of sinusoids: moving by τ is one fixed linear map, whatever the place.

P(t) = [sin ω₀t, cos ω₀t, sin ω₁t, …]. Each pair is a point on a circle, so P(t + τ) = M(τ) · P(t) with 2 × 2 rotations
along M's diagonal: a linear layer can look "three words back" from everywhere with the same weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention import shift_matrix, sinusoidal
from regard.exhibits.exhibit import Finding, Scale
from regard.inspection.plots.panels import Heat, Line, Lines

SHOWN = 32  # features of the pictures
FROM = (0, 20, 60)


def run(scale: Scale) -> Finding:
    """Shift every position by every distance, and compare with where it should have come."""
    width, n = scale.of(512, 64), scale.of(256, 64)
    table = sinusoidal(2 * n, width, dtype=torch.float64)
    errors = {shift: shift_error(table, shift, n=n) for shift in (1, 3, 10, n // 2, n)}
    nearness = [_nearness(table, start, n=min(n, 60)) for start in FROM]
    spread = float((torch.stack(nearness)[0] - torch.stack(nearness)).abs().max())
    gaps = torch.cdist(table, table) + torch.eye(len(table)) * 9
    back = float((shift_matrix(-7, width) @ shift_matrix(7, width) - torch.eye(width)).abs().max())
    figures = {f"largest error of M({shift}) P(t)": error for shift, error in errors.items()}
    figures["largest difference between starts of P(t)·P(t + τ)"] = spread
    figures["largest entry of M(−7) M(7) − I"] = back
    figures[f"nearest two of {len(table)} positions, distance"] = float(gaps.min())
    figures["width"] = width
    return Finding(figures, _text(figures, errors, spread), _panels(nearness, table, n=n), PICTURE, height=3.9)


def shift_error(table: Tensor, shift: int, *, n: int) -> float:
    """The largest entry of |M(τ) P(t) − P(t + τ)| over the first n positions."""
    moved = table[:n] @ shift_matrix(shift, table.shape[1]).T
    return float((moved - table[shift : shift + n]).abs().max())


def _nearness(table: Tensor, start: int, *, n: int) -> Tensor:
    """P(t) · P(t + τ) / (d/2) for τ from 0, at t = start."""
    return table[start : start + n] @ table[start] / (table.shape[1] / 2)


def _panels(nearness: list[Tensor], table: Tensor, *, n: int) -> list[Heat | Lines]:
    gaps = (table[:n] @ shift_matrix(3, table.shape[1]).T - table[3 : n + 3]).abs().amax(1).clamp(min=1e-17)
    pictured = sinusoidal(64, SHOWN, dtype=torch.float64)
    matrix = shift_matrix(3, SHOWN)[:12, :12]
    far = range(len(nearness[0]))
    lines = [
        Line(f"t = {start}", list(far)[i::3], line.tolist()[i::3], look=look, dots=True)
        for i, (start, line, look) in enumerate(zip(FROM, nearness, (0, 1, 2), strict=True))
    ]
    return [
        Heat(f"P(t) of width {SHOWN}", pictured.T.tolist(), x_name="position t", y_name="feature", signed=True,
             unit="value"),
        Heat("M(3), its first six rotations", matrix.tolist(), x_name="feature of P(t)", y_name="feature of P(t + 3)",
             signed=True, unit="entry"),
        Lines("Nearness depends on the distance alone", [Line("", list(far), nearness[0].tolist(), look=3), *lines],
              "distance τ", "P(t) · P(t + τ), scaled", y_range=(0, 1.05)),
        Lines("Largest error of M(3) P(t), over all features", [Line("", range(n), gaps.tolist())], "position t",
              "error", log="y", y_range=(1e-17, 1e-12)),
    ]  # fmt: skip


def _text(figures: dict[str, float], errors: dict[int, float], spread: float) -> str:
    return f"""
M(τ) is built from τ alone: a 2 × 2 rotation by ω·τ for each frequency ω. Applied to the sinusoids of any position t it
gives those of t + τ: for τ = 1 the largest error over all positions and {figures["width"]:.0f} features is
{errors[1]:.0e}, for τ = {max(errors)} it is {errors[max(errors)]:.0e}. That is rounding, which grows with the angle:
near the start it is below 1e-15. So P(t) · P(t + τ) is the same from every start (differences of {spread:.0e}), and
tends to fall with distance: what the slides call shift-invariant, "gap"-dependent relationships is a linear map that
a query's matrix can hold. No two of the positions coincide: "never repeats" holds, since ω = 1 turns by one radian a
step and π is irrational.

A detail: the slides count frequencies ω_l = 10000^(−2l/d) from l = 1; the paper, and this code, from l = 0.
"""


TITLE = "The shift matrix of sinusoids"
CLAIM = "P(t + τ) = M(τ) · P(t) for every t, with one matrix of rotations: exact to rounding."
PICTURE = "One matrix moves every position by the same distance"
