"""What was looked at in an image, as one HTML file: no network, no other files, any recent browser.

The page is `images_page.html` with the record put in: the image's pixels, and the weights of every layer and head in
one byte each, as shares of the largest in their row, which is given beside them.
"""

from __future__ import annotations

import base64
import html
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.inspection.rollout import roll_out
from regard.tasks.images.look import ImageLook, Shown


def write_image_page(look: ImageLook, path: Path | str) -> Path:
    """Write the page to a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(image_page(look), encoding="utf-8")
    return path


def image_frame(look: ImageLook, *, height: int = 700) -> str:
    """The page inside a frame, for notebooks."""
    inside = html.escape(image_page(look), quote=True)
    return f'<iframe srcdoc="{inside}" style="width:100%;height:{height}px;border:0" title="Attention"></iframe>'


def image_page(look: ImageLook) -> str:
    """The whole page as one text."""
    if look.shown is None:
        raise UsageError("this record was read from a file, and does not hold the image")
    record = json.dumps(_described(look, look.shown), ensure_ascii=False, separators=(",", ":"))
    title = html.escape(f"What the model looked at in {look.title or 'the image'}")
    text = resources.files("regard.tasks.images").joinpath("page.html").read_text(encoding="utf-8")
    for name, part in (("title", title), ("heading", title), ("record", record.replace("<", "\\u003c"))):
        before, place, after = text.partition("{{" + name + "}}")
        assert place, name
        text = before + part + after
    return text


def _described(look: ImageLook, shown: Shown) -> dict[str, Any]:
    found = look.of("self")
    whole = found.layers == tuple(range(len(found.layers)))
    rolled = roll_out(look, "self") if whole else found.weights.mean((0, 1))
    answer = np.zeros((1, rolled.shape[1]), np.float32)
    answer[0, shown.n_extra :] = look.rolled_out().reshape(-1) if whole else look.looked_at().reshape(-1)
    said = [] if look.outputs is None else zip(look.outputs.tokens[0], look.outputs.probabilities[0], strict=True)
    return {
        "pixels": _packed(shown.pixels),
        "size": shown.pixels.shape[:2],
        "grid": shown.grid,
        "extra": shown.n_extra,
        "layers": found.layers,
        "heads": len(found.heads),
        "weights": _packed(_bytes(found.weights)),
        "most": [float(f"{value:.3g}") for value in found.weights.max(-1).reshape(-1).tolist()],
        "rollout": _packed(_bytes(np.concatenate((rolled, answer)))),
        "asks": "The class token" if shown.n_extra else "All patches",
        "said": [[name, round(probability, 4)] for name, probability in said],
    }


def _bytes(weights: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Rows of weights as shares of the largest of each, 0 … 255."""
    most = np.maximum(weights.max(-1, keepdims=True), 1e-12)
    shares: NDArray[np.uint8] = np.rint(255 * weights / most).astype(np.uint8)
    return shares


def _packed(numbers: NDArray[np.uint8]) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode()
