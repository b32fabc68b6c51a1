"""What a run leaves on disk, and how it is read back: safetensors, JSON and TOML, never a pickle.

run            the run folder
described      what a model is, and a model that was trained, in our terms
opening        runs of ours and models of others, opened alike
foreign/       the formats of others, one file a family: name maps only
"""

from regard.checkpoints.described import Described, Pretrained, completed
from regard.checkpoints.opening import open_model, open_run
from regard.checkpoints.run import RunFolder
from regard.checkpoints.weights import load_weights, read_tensors, weights_of, write_tensors

__all__ = [
    "Described",
    "Pretrained",
    "RunFolder",
    "completed",
    "load_weights",
    "open_model",
    "open_run",
    "read_tensors",
    "weights_of",
    "write_tensors",
]
