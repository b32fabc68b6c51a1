"""Beam search on a GPU: the same search, its bookkeeping done by two kernels a step.

It stands in for `BeamSearch` where nothing unusual is asked: one group, no coverage, no filter but what may never come
and a minimum length.
"""

from __future__ import annotations

from dataclasses import fields, replace
from importlib.util import find_spec

import torch
from torch import Tensor

from regard.decoding.beam import BeamSearch, Searching
from regard.decoding.plan import Plan
from regard.decoding.stepper import Stepper, checked_logits
from regard.fast.gpu.lookback import Lookback, always_looking

_WIDEST = 16  # beams; a program ranks W · C · (W + 1) candidates in registers


class FusedBeamSearch(BeamSearch):
    """The search that `beam` describes. Ended hypotheses lie in no order until they are recorded."""

    def __init__(self, stepper: Stepper, plan: Plan) -> None:
        super().__init__(stepper, always_looking(plan))
        self.now = _own(self.now)
        self.results = self.now
        self._sync, self._lookback = plan.sync, Lookback(plan.sync)

    @staticmethod
    def suits(plan: Plan) -> bool:
        """Whether the kernels do all that is asked."""
        options = plan.options
        plain = options.groups == 1 and options.coverage_penalty == 0 and plan.prefixes is None
        fits = plain and not options.no_repeat_ngram and options.beam <= _WIDEST
        return fits and plan.device.type == "cuda" and find_spec("triton") is not None

    def advance(self) -> None:
        """Extend every live hypothesis by a token."""
        from regard.fast.gpu.beam_kernels import extend  # here, because Triton comes with GPU builds only
        from regard.fast.gpu.topk import top_k_of_chunks

        plan = self.plan
        logits = checked_logits(self.stepper, self.now.tokens.flatten())
        if self.step == 0:
            plan.check_vocabulary(logits.shape[-1])
            self._forbidden = plan.marks.forbidden(logits.shape[-1], logits.device)
        banned = plan.eos_id if self.step < plan.options.min_length else -1
        extend(top_k_of_chunks(logits, self.width + 1, banned=banned, forbidden=self._forbidden), self)
        self.step += 1

    def is_over(self) -> bool:
        """Whether every input is done; on the way, tell the stepper which rows go on."""
        if self.step >= self.plan.n_steps or self._lookback.is_to_look(self.done, step=self.step):
            return super().is_over()
        self._reorder(self.rows.flatten())
        return False

    def _keep(self, going: Tensor) -> None:
        super()._keep(going)
        self.now, self._lookback = _own(self.now), Lookback(self._sync)

    def _record(self) -> None:
        order = self.now.ended_scores.sort(dim=1, descending=True, stable=True).indices
        names = ("ended_scores", "ended_codes", "ended_log_probs")
        self.now = replace(self.now, **{name: getattr(self.now, name).gather(1, order) for name in names})
        super()._record()


def _own(now: Searching) -> Searching:
    """The same, each tensor with memory of its own, row after row: kernels write to it."""
    return Searching(
        **{field.name: getattr(now, field.name).clone(memory_format=torch.contiguous_format) for field in fields(now)}
    )
