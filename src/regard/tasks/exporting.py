"""A trained model in Hugging Face's layout, as `transformers` opens it.

A model of numbers learnt them on a scale of its own; others have no place for one, so it goes into the last weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from regard.checkpoints.foreign.hub import write_hub
from regard.checkpoints.opening import WITHOUT_PIECES, open_model
from regard.checkpoints.spec import Described
from regard.data.images.space import THEIR_FILE
from regard.data.text.label_space import LabelSpace
from regard.errors import CheckpointError, UsageError
from regard.tasks.images.predictor import image_space
from regard.tasks.opening import label_space, tokenizer_of


def export_hub(path: Path | str, out: Path) -> str:
    """Write the model at `path` to the folder `out`; what others call it."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: there is something already", hint="give another --out")
    found = open_model(path)
    if found.target_tokenizer is not None:
        raise CheckpointError(
            f"{path}: its two sides have tokenizers of their own, and a folder that regard writes holds one",
            hint="train it with tokenizer.joint=true",
        )
    tokenizer = None if found.task in WITHOUT_PIECES else tokenizer_of(found)
    tensors = found.tensors
    described = Described(found.task, found.model, found.options, found.labels, found.decode)
    if found.task == "labels":
        space = label_space(found)
        described = replace(described, labels=space.names or ("LABEL_0",))
        tensors = _on_their_scale(tensors, space)
    images = image_space(found) if found.task == "images" else None
    if images is not None:
        described = replace(described, labels=images.names or None)
    write_hub(out, described, tensors=tensors, tokenizer=tokenizer)
    if images is not None:
        (out / THEIR_FILE).write_text(json.dumps(images.for_others(), indent=2) + "\n", encoding="utf-8")
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    return str(config["architectures"][0])


def _on_their_scale(tensors: Mapping[str, Tensor], space: LabelSpace) -> dict[str, Tensor]:
    if not space.numeric:
        return dict(tensors)
    weight, bias = tensors["output.weight"] * space.scale, tensors["output.bias"] * space.scale + space.mean
    return dict(tensors) | {"output.weight": weight, "output.bias": bias}
