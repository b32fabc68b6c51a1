"""How often decoding looks up from its work: when it asks who has finished, and when finished rows leave the batch.

Asking costs a wait for the device; letting rows go copies the model's caches and changes its shapes (a CUDA graph is
captured once a shape). On a CPU both are cheap beside a step, so it asks at every step and lets rows go at once. On
an accelerator it asks every few steps and lets rows go only when a fair share is done. The hypotheses are the same at
every policy.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class SyncPolicy:
    """Ask every `check_every` steps; shrink when fewer than `shrink_below` of the rows are still going.

    `skip_identity` leaves out selections that change nothing, which takes one look at the rows a step.
    """

    check_every: int
    shrink_below: float
    skip_identity: bool

    @classmethod
    def of(cls, device: torch.device) -> "SyncPolicy":
        """The policy that suits a device."""
        if device.type == "cpu":
            return cls(check_every=1, shrink_below=1.0, skip_identity=True)
        return cls(check_every=4, shrink_below=0.75, skip_identity=False)

    def is_due(self, step: int) -> bool:
        """Whether to ask who has finished after this step, counted from 0."""
        return (step + 1) % self.check_every == 0

    def drops_finished(self, n_going: int, n_rows: int) -> bool:
        """Whether finished rows leave now."""
        return n_going < n_rows * self.shrink_below
