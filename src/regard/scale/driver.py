"""Who gives parts to workers: at most as many under way as there are workers, each tried again when a worker dies.

A part that ended its worker several times is given up, and the others go on. What is wrong with the model, the settings
or the machine, and not with one input, ends everything.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator

from regard.errors import EnvironmentProblem, RegardError
from regard.scale.engine import Death, Engine, Ready
from regard.scale.parts import Part
from regard.scale.worker import PartOutput

TRIES = 3  # times that a part may end its worker, and that workers may end before they are ready

Take = Callable[[Part, PartOutput], None]
GiveUp = Callable[[Part, str], None]


class Driver:
    """Gives parts to the workers of an engine, until there are none left."""

    def __init__(self, engine: Engine, parts: Iterator[Part], *, take: Take, give_up: GiveUp) -> None:
        self.engine, self.parts = engine, parts
        self.take, self.give_up = take, give_up
        self.queue: deque[Part] = deque()
        self.opening: set[int] = set()
        self.idle: list[int] = []
        self.busy: dict[int, Part] = {}
        self.deaths: Counter[int] = Counter()
        self.unopened = 0

    def run(self) -> None:
        """Until every part is taken or given up."""
        while self._fill() or self.busy:
            while self.idle and self.queue:
                self._employ(self.idle.pop())
            while self.queue and len(self.opening) < min(len(self.queue), self.engine.size - len(self.busy)):
                self.opening.add(self.engine.start())
            self._hear()

    def _fill(self) -> bool:
        """Read on, as far as workers need; whether anything is to be done."""
        while len(self.queue) < self.engine.size and (part := next(self.parts, None)) is not None:
            self.queue.append(part)
        return bool(self.queue)

    def _employ(self, worker: int) -> None:
        if not self.queue:
            self.idle.append(worker)
            return
        self.busy[worker] = self.queue.popleft()
        self.engine.submit(worker, self.busy[worker])

    def _hear(self) -> None:
        worker, outcome = self.engine.wait()
        if isinstance(outcome, RegardError):
            raise outcome
        if isinstance(outcome, Ready):
            self.unopened = 0
            self.opening.remove(worker)
            self._employ(worker)
        elif isinstance(outcome, PartOutput):
            part = self.busy.pop(worker)
            self._employ(worker)  # it works while the part is written
            self.take(part, outcome)
        else:
            self._bury(worker, outcome)

    def _bury(self, worker: int, death: Death) -> None:
        part = self.busy.pop(worker, None)
        if part is not None:
            self._try_again(part, death)
        elif worker in self.idle:
            self.idle.remove(worker)
        else:
            self.opening.remove(worker)
            self.unopened += 1
            if self.unopened == TRIES:
                message = f"a worker that opened the model {death.why}, {TRIES} times one after the other"
                raise EnvironmentProblem(message, hint="is there memory for one model a worker? try --workers 1")

    def _try_again(self, part: Part, death: Death) -> None:
        self.deaths[part.number] += 1
        if self.deaths[part.number] < TRIES:
            self.queue.appendleft(part)
        else:
            self.give_up(part, death.why)
