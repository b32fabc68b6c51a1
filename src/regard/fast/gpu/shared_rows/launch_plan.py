"""How many steps rows that write by themselves are launched for, and how many such launches are on their way.

    plan = LaunchPlan(steps=8, ahead=2)
    plan.n_steps(256, step_seconds=0.0024)     8: a full house is looked at about every 20 ms
    plan.graphs(17)                            [8, 8, 1], the steps of each graph

Long launches cost the host little; short ones, and few ahead, let whoever comes begin sooner.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import UsageError

N_TICKS = 64  # steps of a launch, at most
FULL_HOUSE = 256  # rows that write
_ONE_ROW = 0.01  # seconds that a launch for one row should take
_FULL_STEP = 0.0018  # seconds of a step for a full house that make its launch one graph
_HOLD = 0.08  # seconds for which tokens of a full house may wait to be handed over together


@dataclass(frozen=True)
class LaunchPlan:
    """How far the device goes by itself.

    steps   recorded as one graph, which is the launch of a full house
    ahead   launches on their way, the one that is looked at included
    """

    steps: int = 8
    ahead: int = 2

    def __post_init__(self) -> None:
        if not (1 <= self.steps <= N_TICKS and self.ahead >= 1):
            raise UsageError(
                f"a launch of {self.steps} steps, {self.ahead} ahead; allowed are 1 to {N_TICKS}, and 1 or more"
            )

    def n_steps(self, n_rows: int, *, step_seconds: float) -> int:
        """The steps of a launch for so many rows: whole graphs, or single steps where a step takes long."""
        full = min(1.0, n_rows / FULL_HOUSE)
        seconds = _ONE_ROW + (_FULL_STEP * self.steps - _ONE_ROW) * full
        n_steps = max(1, min(N_TICKS, round(seconds / step_seconds)))
        n_graphs = min(round(n_steps / self.steps), N_TICKS // self.steps)
        return n_graphs * self.steps or n_steps

    def graphs(self, n_steps: int) -> list[int]:
        """Steps as graphs of several, and of one."""
        return [self.steps] * (n_steps // self.steps) + [1] * (n_steps % self.steps)

    def n_held(self, n_rows: int, *, launch_seconds: float) -> int:
        """Of how many launches a row's tokens are handed over at once: the more rows there are, the more.

        Whoever streams to hundreds joins events for longer than that.
        """
        return max(1, round(_HOLD * min(1.0, n_rows / FULL_HOUSE) / launch_seconds))
