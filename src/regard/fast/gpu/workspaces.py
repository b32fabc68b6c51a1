"""Graphs that hold the memory their matrix products work in.

cuBLAS works in memory that PyTorch keeps for each stream, and that anybody may have given back: the compiler does so
before it captures graphs of its own (`torch.compile(mode="reduce-overhead")`). A graph that was captured while that
memory was there already would go on writing to it. What is asked for during a capture is the graph's as long as there
is a graph.

    with torch.cuda.stream(stream), own_workspaces():
        graph.capture_begin()
        …
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def own_workspaces() -> Iterator[None]:
    """Inside, products ask for their memory anew; afterwards they do not go on with what is a graph's."""
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
