"""A caption as one HTML file: the image, the words, and under the pointer's word where the model looked.

No network, no other files. The image is a PNG inside the page; weights are numbers in its script.
"""

from __future__ import annotations

import base64
import html
import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.inspection.plots.colours import DARK, LIGHT
from regard.tasks.captions.look import Numbers, Pixels

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
:root {{ --paper: {light.paper}; --ink: {light.ink}; --rule: {light.rule}; --accent: {light.accent} }}
@media (prefers-color-scheme: dark) {{
:root {{ --paper: {dark.paper}; --ink: {dark.ink}; --rule: {dark.rule}; --accent: {dark.accent} }} }}
body {{ background: var(--paper); color: var(--ink); font: 18px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 46rem; padding: 0 1rem }}
canvas {{ width: min(100%, 30rem); aspect-ratio: {width} / {height}; border-radius: 6px; display: block;
  background: #000 }}
button {{ all: unset; cursor: pointer; padding: .1em .32em; border-radius: 4px }}
button:hover, button:focus-visible, button[aria-pressed=true] {{ background: var(--accent); color: var(--paper) }}
p {{ margin: 1rem 0 }} small {{ opacity: .7 }}
</style></head><body>
<canvas id="view" width="{width}" height="{height}" role="img" aria-label="{title}"></canvas>
<p id="words"></p>
<p><small>Point at a word, or step through them with the tab key: the image is lit where the model looked when it
wrote the word. A click keeps it.</small></p>
<script>
const words = {words}, maps = {maps}, source = "data:image/png;base64,{png}";
const canvas = document.getElementById("view"), pen = canvas.getContext("2d"), picture = new Image();
let kept = -1;
function show(index) {{
  pen.globalCompositeOperation = "source-over"; pen.filter = "none";
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (index < 0) {{ pen.drawImage(picture, 0, 0); return; }}
  const map = maps[index], light = document.createElement("canvas");
  light.width = map[0].length; light.height = map.length;
  const cells = light.getContext("2d"), data = cells.createImageData(light.width, light.height);
  map.flat().forEach((share, i) => {{ data.data[4 * i + 3] = Math.round(255 * share); }});
  cells.putImageData(data, 0, 0);
  pen.imageSmoothingEnabled = true; pen.imageSmoothingQuality = "high";
  pen.drawImage(light, 0, 0, canvas.width, canvas.height);
  pen.globalCompositeOperation = "source-in"; pen.drawImage(picture, 0, 0);
  pen.globalCompositeOperation = "destination-over"; pen.globalAlpha = 0.22; pen.filter = "grayscale(1)";
  pen.drawImage(picture, 0, 0); pen.globalAlpha = 1;
}}
const row = document.getElementById("words");
words.forEach((word, i) => {{
  const button = document.createElement("button");
  button.textContent = word; button.setAttribute("aria-pressed", "false");
  button.onmouseenter = button.onfocus = () => show(i);
  button.onmouseleave = button.onblur = () => show(kept);
  button.onclick = () => {{ kept = kept === i ? -1 : i;
    [...row.children].forEach((other, j) => other.setAttribute("aria-pressed", String(j === kept))); show(kept); }};
  row.append(button, " ");
}});
picture.onload = () => show(-1); picture.src = source;
</script></body></html>
"""


def write_caption_page(image: Pixels, words: Sequence[str], weights: Numbers, path: Path | str, *, title: str) -> Path:
    """Write image (3, H, W), words (T) and where each looked (T, h, w) as one page."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    shares = weights / np.maximum(weights.max((1, 2), keepdims=True), 1e-12)
    filled = _PAGE.format(
        title=html.escape(title or " ".join(words)),
        light=LIGHT,
        dark=DARK,
        width=image.shape[2],
        height=image.shape[1],
        words=_inside_script(list(words)),
        maps=_inside_script(shares.round(4).tolist()),
        png=base64.b64encode(png_of(image)).decode(),
    )
    path.write_text(filled, encoding="utf-8")
    return path


def png_of(image: Pixels) -> bytes:
    """An image (3, H, W) as the bytes of a PNG file."""
    _, height, width = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a zero before each row: no filter
    rows[:, 1:] = image.transpose(1, 2, 0).reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _inside_script(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
