"""What a run leaves on disk, and how it is read back: safetensors, JSON and TOML, never a pickle."""

from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import load_weights, read_tensors, weights_of, write_tensors

__all__ = ["RunFolder", "load_weights", "read_tensors", "weights_of", "write_tensors"]
