"""Small models of `transformers` with random weights, in folders, and ours made of them."""

from pathlib import Path

import pytest
import torch
from torch import nn

from regard.checkpoints.foreign.hub import open_foreign
from regard.checkpoints.spec import Pretrained
from regard.checkpoints.weights import load_weights
from regard.models.registry import build

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "un",
    "##aff",
    "##able",
    "runs",
    ",",
    "Dog",
    "dog",
    "caf",
    "##e",
]


def randomised(model: nn.Module) -> nn.Module:
    """Biases and norms start as zeros and ones; random ones make mistakes visible."""
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(parameter, mean=1.0 if "norm" in name.lower() and "weight" in name else 0.0, std=0.3)
    return model.eval()


def saved(model: nn.Module, folder: Path) -> Path:
    """A folder with a model and BERT's vocabulary."""
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return folder


def ours(folder: Path) -> tuple[nn.Module, Pretrained]:
    """Our model with the weights of a folder."""
    foreign = open_foreign(folder)
    model = build(foreign.model, foreign.options).eval()
    load_weights(model, foreign.tensors, origin=foreign.origin)
    return model, foreign


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-4)
    assert one.std() > 0.01  # not equal for being nothing
