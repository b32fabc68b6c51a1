"""Weights in files: shared once, and everything that does not fit in one message."""

from pathlib import Path

import pytest
import torch
from torch import nn

from regard.checkpoints.weights import load_weights, read_tensors, weights_of, write_tensors
from regard.errors import CheckpointError, EnvironmentProblem
from regard.models.registry import build


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(2, 3), nn.Linear(3, 2)
        self.again = self.one  # shared
        self.register_buffer("lasting", torch.arange(3.0))
        self.register_buffer("passing", torch.zeros(5), persistent=False)


def test_shared_once_and_lasting_buffers_only() -> None:
    assert list(weights_of(Small())) == ["one.weight", "one.bias", "two.weight", "two.bias", "lasting"]


def test_saved_and_loaded_it_is_the_same_model(tmp_path: Path) -> None:
    one, other = Small(), Small()
    one.lasting.add_(1)
    write_tensors(tmp_path / "w.safetensors", weights_of(one))
    load_weights(other, read_tensors(tmp_path / "w.safetensors"), origin="w")
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in one.state_dict().items())
    assert other.again.weight is other.one.weight


def test_everything_that_does_not_fit_is_said_at_once_and_nothing_is_loaded() -> None:
    model = Small()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tensors = {name: torch.ones_like(tensor) for name, tensor in weights_of(model).items()}
    del tensors["one.bias"], tensors["lasting"]
    tensors |= {"two.weight": torch.ones(3, 3), "three.weight": torch.ones(1), "four": torch.ones(1)}
    with pytest.raises(CheckpointError) as problem:
        load_weights(model, tensors, origin="runs/x/model.safetensors")
    assert str(problem.value) == (
        "runs/x/model.safetensors: 5 weights do not fit the model:\n"
        "  one.bias: missing\n  lasting: missing\n  three.weight: unknown\n  four: unknown\n"
        "  two.weight: [3, 3], the model has [2, 3]"
    )
    assert problem.value.hint
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_tied_model_is_stored_once(tmp_path: Path) -> None:
    sizes = {"d_model": 8, "n_heads": 2, "d_feedforward": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model = build("transformer", sizes | {"n_source": 10, "n_target": 10, "tied": "all"})
    write_tensors(tmp_path / "w", weights_of(model))
    stored = read_tensors(tmp_path / "w")
    assert sum(tensor.numel() for tensor in stored.values()) == sum(p.numel() for p in model.parameters())
    assert "target_embedding.weight" not in stored


def test_tensors_of_any_layout_are_written(tmp_path: Path) -> None:
    tensor = torch.arange(6.0).view(2, 3).t()
    write_tensors(tmp_path / "w", {"a": tensor, "b": tensor[:, :1]})
    assert torch.equal(read_tensors(tmp_path / "w")["a"], tensor)


def test_files_that_are_no_weights(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="none: there is no such file"):
        read_tensors(tmp_path / "none")
    write_tensors(tmp_path / "w", {"a": torch.ones(100)})
    (tmp_path / "w").write_bytes((tmp_path / "w").read_bytes()[:-4])
    with pytest.raises(CheckpointError, match="w: not a whole safetensors file") as problem:
        read_tensors(tmp_path / "w")
    assert problem.value.hint == "it may have been cut short while being copied"
    (tmp_path / "w").write_bytes(b"PK\x03\x04 a pickle")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        read_tensors(tmp_path / "w")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        read_tensors(tmp_path)
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        write_tensors(tmp_path / "no" / "folder", {"a": torch.ones(1)})
