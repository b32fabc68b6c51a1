"""What a server takes on: every bound in one record, checked before anything is read or computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on what is asked for and on what is under way.

    rows           decoded at a time by one model: a beam takes as many as it is wide, samples one each
    tokens         that the rows under way may come to together; 0: a thousand a row
    queue          requests that wait for one model
    starts         requests that begin between two steps, so that prompts do not hold up who is being served
    gather         seconds that models which predict in batches wait for company
    batch          requests that they predict at once
    deadline       seconds that a request may take, waiting included
    body           bytes of a request
    text           characters of one input
    inputs         inputs of one request
    length         most tokens of one output
    """

    rows: int = 64
    tokens: int = 0
    queue: int = 256
    starts: int = 4
    gather: float = 0.003
    batch: int = 64
    deadline: float = 120.0
    body: int = 32 * 1024 * 1024
    text: int = 100_000
    inputs: int = 256
    length: int = 4096
