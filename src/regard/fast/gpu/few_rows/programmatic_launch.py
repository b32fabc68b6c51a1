"""Kernels that start before the one ahead of them is done: programmatic dependent launch, on Hopper and later GPUs.

    kernel[grid](…, **programmatic_launch(device))        sets PDL in the kernel, and asks the launch for it

Between two dependent kernels a GPU stands still for about a microsecond, and the second one then waits for memory. A
kernel launched this way is already there, has asked for what no kernel of this chain writes (weights, the past), and
then waits:

    if PDL:
        tl.extra.cuda.gdc_launch_dependents()    the next kernel may come
        tl.extra.cuda.gdc_wait()                 all kernels ahead are done, and what they wrote can be read

Every such kernel waits before it reads what was computed, and before it writes anything. The first kernel of a chain
is launched plainly: so the chain before it is done.
"""

from __future__ import annotations

import torch

_HOPPER = (9, 0)


def programmatic_launch(device: torch.device) -> dict[str, bool]:
    """Options of a kernel's launch: programmatic where the GPU can."""
    if device.type != "cuda" or torch.version.hip or torch.cuda.get_device_capability(device) < _HOPPER:
        return {"PDL": False}
    return {"PDL": True, "launch_pdl": True}
