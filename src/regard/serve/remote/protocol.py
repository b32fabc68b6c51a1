"""What the two processes of a server say to each other.

to the models      ("open", name, place, how)              one after another, before anything else
                   ("submit", name, numbers, questions, deadline)    by numbers that come back with the answers
                   ("cancel", number)                      nobody waits for it any more
                   ("stop", grace)                         finish within so many seconds, then end

from the models    ("opened", name, description, device, exact)    or ("refused", name, problem)
                   ("told", number, tokens)                of a stream, as they come
                   ("done", number, output)                or ("failed", number, problem)
                   ("watched", name, what, numbers)        what an engine has to tell whoever counts
                   ("load", name, n_waiting, n_running)    along with whatever else is sent
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.serve.limits import Limits
from regard.serve.tickets import Kind


@dataclass(frozen=True)
class How:
    """How a model is opened, and what it takes on."""

    limits: Limits
    device: str
    precision: str
    check: bool
    exact: bool | None


@dataclass(frozen=True)
class Question:
    """What is asked, without what becomes of the answer."""

    input: Any
    options: dict[str, Any]
    kind: Kind
