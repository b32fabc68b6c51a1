"""Workers as Ray actors: on the cores and GPUs of this machine, or of the cluster that RAY_ADDRESS names.

Actors of Ray's core are asked for parts by our own driver. Ray Data would queue and retry blocks by itself, whatever
the manifest says of them, and keep outputs in its object store; here a part is computed when it does not stand, tried
again as often as we say, and written once, by the same driver and the same worker as with local processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from regard.errors import EnvironmentProblem, RegardError
from regard.scale.engine import Death, Outcome, Ready
from regard.scale.parts import Part
from regard.scale.worker import Assignment, Worker


def require_ray() -> Any:
    """Ray, or what to do where it is not installed."""
    try:
        import ray
    except ImportError:
        raise EnvironmentProblem(
            "--engine ray needs Ray, which is not installed", hint="pip install 'regard[scale]'"
        ) from None
    return ray


class RayEngine:
    """Actors, one for each assignment; a new one takes up the assignment of one that died."""

    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self._free = list(enumerate(assignments))[::-1]
        self._taken: dict[int, tuple[Assignment, Any]] = {}
        self._asked: dict[Any, int] = {}  # what is waited for, and of whom
        self._size = len(assignments)
        self._ray = require_ray()
        self._started = not self._ray.is_initialized()
        if self._started:
            start_ray(self._ray, assignments)

    @property
    def size(self) -> int:
        """How many workers there are to be."""
        return self._size

    def start(self) -> int:
        """Start an actor; its number."""
        number, assignment = self._free.pop()
        on_gpu = assignment.device.startswith("cuda")
        options = {"num_cpus": assignment.threads, "num_gpus": 1 if on_gpu else 0, "max_restarts": 0}
        actor = self._ray.remote(**options)(_Actor).remote(assignment)
        self._taken[number] = assignment, actor
        self._asked[actor.open.remote()] = number
        return number

    def submit(self, worker: int, part: Part) -> None:
        """Ask an actor for a part."""
        self._asked[self._taken[worker][1].run.remote(part)] = worker

    def wait(self) -> tuple[int, Outcome]:
        """The next that answers, or is lost."""
        heard = self._ray.wait(list(self._asked), num_returns=1)[0][0]
        number = self._asked.pop(heard)
        try:
            outcome: Outcome = self._ray.get(heard)
        except self._ray.exceptions.RayError as problem:
            assignment, actor = self._taken.pop(number)
            self._free.append((number, assignment))
            self._ray.kill(actor)
            lost = isinstance(problem, self._ray.exceptions.RayActorError)
            return number, Death("was lost" if lost else f"ended with {str(problem).strip().splitlines()[-1]}")
        return number, outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, actor in self._taken.values():
            self._ray.kill(actor)
        self._taken.clear()
        self._asked.clear()
        if self._started:
            self._ray.shutdown()


def start_ray(ray: Any, assignments: Sequence[Assignment]) -> None:
    """Join the cluster that RAY_ADDRESS names; without one, a Ray of this machine, for as long as it is needed."""
    address = os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        cores = sum(assignment.threads for assignment in assignments)
        options |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": 256 << 20}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        reason = str(problem).strip().splitlines()[0]
        hint = "unset RAY_ADDRESS to use this machine alone" if address else "use --engine local"
        raise EnvironmentProblem(f"Ray cannot be started: {reason}", hint=hint) from problem


class _Actor:
    """A worker that Ray runs."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment

    def open(self) -> Outcome:
        """Open the model."""
        try:
            self.worker = Worker(self.assignment)
        except RegardError as problem:
            return problem
        return Ready()

    def run(self, part: Part) -> Outcome:
        """The outputs of a part, or what is wrong with all of it."""
        try:
            return self.worker.run(part)
        except RegardError as problem:
            return problem
