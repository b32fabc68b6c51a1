"""Kernels of our own for decoding on a processor, in C++: compiled when first asked for, and never needed.

    loaded()    the compiled kernels, or None: no compiler, another processor, or `REGARD_NATIVE=0`
    why()       the reason, where there are none

Everything they compute, PyTorch computes as well (`packed_linear`, `decoding_step`): slower, and readable.
"""

from regard.fast.cpu.native.linear import Native, NativeBlocks, NativeLinear
from regard.fast.cpu.native.loading import Kernels, loaded, why

__all__ = ["Kernels", "Native", "NativeBlocks", "NativeLinear", "loaded", "why"]
