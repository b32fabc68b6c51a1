"""What a worker does, wherever it runs: the model opened once, then a part's inputs in and its bytes out.

It writes nothing: whoever asked has the bytes, so a worker that is lost leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from regard.errors import RegardError
from regard.scale.parts import Part
from regard.tasks.predicting.inputs import Inputs
from regard.tasks.predicting.outputs import Before, OutputWriter
from regard.tasks.predicting.request import Request, predicted


@dataclass(frozen=True)
class Assignment:
    """What a worker is started for: the request, what inputs are (none are in it), its device and its threads."""

    request: Request
    many: Inputs
    device: str
    threads: int


@dataclass(frozen=True)
class PartOutput:
    """The outputs of a part as bytes, what is said about its inputs, and how it begins and ends (`leads.py`)."""

    content: bytes
    n: int
    failed: int
    lead: str | None
    separates: bool
    first_header: str | None
    last_header: str | None
    problems: list[RegardError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Worker:
    """A model that is opened once, and asked for parts."""

    def __init__(self, assignment: Assignment) -> None:
        torch.set_num_threads(assignment.threads)  # the process is its own
        self.request, self.many = assignment.request, assignment.many
        self.remarks: list[str] = []
        self.predictor = self.request.open(self._remark, device=assignment.device)
        self.predict = self.request.predicting(self.predictor)
        self.prompts = self.request.prompts()

    def run(self, part: Part) -> PartOutput:
        """The outputs of a part, as if there were outputs before it and no header."""
        self.remarks.clear()
        lines: list[str] = []
        problems: list[RegardError] = []
        before = Before(outputs=part.number > 0)
        writer = OutputWriter(self.predictor, self.request, self.many, lines.append, problems.append, before=before)
        chunks = (list(self.prompts(some)) for some in part.chunks)
        for some, outputs in predicted(self.predict, chunks):
            for one, output in zip(some, outputs, strict=True):
                writer.tell(one, output)
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        return PartOutput(
            content,
            n=writer.n,
            failed=writer.failed,
            lead=writer.lead,
            separates=writer.separates,
            first_header=writer.first_header,
            last_header=before.header,
            problems=problems,
            remarks=list(self.remarks),
        )

    def _remark(self, text: str) -> None:
        self.remarks.append(text)
