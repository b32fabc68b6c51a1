"""Outputs as lines: one an input, JSON or plain, and what is said about inputs that have none.

Three things depend on what was written before, and nothing else does: texts of several lines stand apart by an empty
line, a table's header stands where it changes, and a hint that is the same is given once. `Before` is what a writer has
to know of the first two; it goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from regard.errors import EnvironmentProblem, RegardError
from regard.tasks.predicting.inputs import Given, Inputs
from regard.tasks.predicting.request import Request

Put = Callable[[str], None]
Explain = Callable[[RegardError], object]


@dataclass
class Before:
    """What stands before: any output at all, and the header that rows are under."""

    outputs: bool = False
    header: str | None = None


@dataclass
class OutputWriter:
    """Writes outputs as they are asked for, and explains what is wrong with inputs that have none.

    `many` says what the inputs are; it is not read here. `lead` is what the first output has before it because of what
    stood `before`.
    """

    predictor: Any
    request: Request
    many: Inputs
    write: Put
    explain: Explain
    _: KW_ONLY
    before: Before = field(default_factory=Before)
    n: int = 0
    failed: int = 0
    hint: str | None = None
    lead: str | None = None
    first_header: str | None = None

    @property
    def separates(self) -> bool:
        """Whether outputs may have several lines, and stand apart by an empty one."""
        return bool(self.predictor.multiline) and not self.request.asked and not self.request.as_json

    def tell(self, one: Given, output: Any) -> None:
        """The output of an input, or its problem."""
        if isinstance(output, RegardError):
            self.refuse(one, output)
        else:
            aligned = self.predictor.align(one.value, output) if self.request.align else None
            if self.request.as_json:
                named = {"input": one.told} if self.many.files else {}
                record = named | output.record() | ({} if aligned is None else {"alignment": aligned.pairs})
                self._put("", json.dumps(record, ensure_ascii=False))
            else:
                apart = "\n" if self.separates and self.before.outputs else ""
                header, line = self._plain(one, output)
                self._put(apart + header, line if aligned is None else f"{line}\t{aligned.pharaoh()}")
            self.before.outputs = True
        self.n += 1

    def refuse(self, one: Given, problem: RegardError) -> None:
        """Say what is wrong with an input, in its place where it has one; what is wrong with all of them is raised."""
        reason = str(problem).removeprefix("text 1 ").removeprefix("input 0 ")  # tried by itself, it was the first
        about = reason.startswith(one.name)
        if self.many.alone or (isinstance(problem, EnvironmentProblem) and not about):
            raise problem
        self.failed += 1
        hint = None if problem.hint == self.hint else problem.hint  # the same one is given once
        self.hint = problem.hint
        self.explain(RegardError(reason if about else f"{one.name}: {reason}", hint=hint))
        if self.request.as_json:
            error = reason.removeprefix(one.name).removeprefix(":").strip()
            self.write(json.dumps({"input": one.told, "error": error}, ensure_ascii=False))
        elif not (self.many.files or self.many.typed or self.separates):
            self.write("")  # the n-th line belongs to the n-th text

    def _put(self, lead: str, line: str) -> None:
        if self.lead is None:
            self.lead = lead
        self.write(lead + line)

    def _plain(self, one: Given, output: Any) -> tuple[str, str]:
        """The header, where it is another than before, and the line or lines of an output."""
        if self.request.asked:
            return "", " ".join(output.text.split())
        if not self.many.files or self.many.alone:
            return "", str(output.plain())
        text: str = self.predictor.under_name(one.told, output)
        if not self.predictor.headed:
            return "", text
        header, _, rows = text.partition("\n")
        if self.first_header is None:
            self.first_header = header
        before, self.before.header = self.before.header or "", header
        return ("" if header == before else text.removesuffix(rows)), rows
