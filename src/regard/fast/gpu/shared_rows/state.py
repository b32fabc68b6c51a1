"""What the rows of many decodings are to write, each in its own way, and what they have written: all on the device.

A row goes on by itself from step to step: the likeliest token, or one drawn from its own random stream, until its end
mark or its limit. Rows that somebody else chooses for step when they are told to, once, and nothing is chosen for them.

    state.put(rows, records)                    these rows begin
    state.choose(logits, positions, marks)      a token for each row that writes; all that step move on

    N rows · K ticks, the steps of one launch
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.paths import NOTHING
from regard.decoding.plan import Marks
from regard.decoding.sampling import log_waits

_FIELDS = ("tokens", "limits", "steps", "done", "sampled", "streams", "temperatures", "stepping", "ticks")


@dataclass(frozen=True)
class RowRecord:
    """How a row begins: the token it is fed first, and how many it writes; drawn ones follow a stream."""

    token: int
    limit: int = 0
    done: bool = True
    stream: int | None = None
    temperature: float = 1.0

    def column(self) -> list[int]:
        """What stands in the table."""
        (bits,) = struct.unpack("q", struct.pack("d", self.temperature))
        return [self.token, self.limit, 0, self.done, self.stream is not None, self.stream or 0, bits, 0, 0]


def on_its_way(values: Tensor, device: torch.device) -> Tensor:
    """Values of the host for a device that is busy: pinned, for with others the copy may wait until it is not."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values


class RowState:
    """The state of N rows, a column each of one table, so that what changes between launches is brought over at once.

    done rows write nothing; `stepping` ones take part in the next step although they write nothing themselves.
    """

    def __init__(self, n_rows: int, *, n_ticks: int, device: torch.device) -> None:
        self.table = torch.zeros((len(_FIELDS), n_rows), dtype=torch.int64, device=device)
        self.chosen = torch.full((n_ticks, n_rows), NOTHING, dtype=torch.int64, device=device)
        self.log_probs = torch.zeros((n_ticks, n_rows), device=device)
        self.tokens, self.done = self.table[0], self.table[_FIELDS.index("done")]
        self._rows = torch.arange(n_rows, device=device)
        self._forbidden: dict[Marks, Tensor | None] = {}
        self.done.fill_(1)

    def put(self, rows: Tensor, records: Sequence[RowRecord]) -> None:
        """These rows (n,) stand as the records say."""
        columns = torch.tensor([one.column() for one in records], dtype=torch.int64)
        self.table.index_copy_(1, rows, on_its_way(columns.T.contiguous(), rows.device))

    def end(self, rows: Tensor) -> None:
        """These rows write no more."""
        self.done.index_fill_(0, rows, 1)

    def step_next(self, rows: Tensor, tokens: Tensor) -> None:
        """These rows take part in the next step, fed with these tokens."""
        self.tokens.index_copy_(0, rows, tokens)
        self.table[_FIELDS.index("stepping")].index_fill_(0, rows, 1)

    def begin_ticks(self) -> None:
        """The next step is the first of a launch."""
        self.table[-1].zero_()

    def choose(self, logits: Tensor, positions: Tensor, marks: Marks, *, drawn: bool) -> None:
        """From logits (n, V) of the first rows, the next token of each that writes; `drawn` says that some are drawn.

        Positions (n,) move on where a row has stepped.
        """
        tokens, limits, steps, done, sampled, streams, temperatures, stepping, ticks = self.table[:, : len(logits)]
        forbidden = self._forbidden_columns(marks, logits.shape[1])
        scores = logits
        if drawn:
            noise = log_waits(streams, step=steps, n=logits.shape[1]) * sampled[:, None]
            scores = logits.float() / temperatures.view(torch.float64).float()[:, None] - noise
        if logits.is_cuda:
            self._write(scores, logits, positions, marks, forbidden)
            return
        allowed = scores if forbidden is None else scores.masked_fill(forbidden > 0, -torch.inf)
        going, token = done == 0, allowed.argmax(1)
        over = (token == marks.eos_id) | (limits <= steps + 1)
        rows = self._rows[: len(logits)]
        self.chosen[ticks, rows] = token.masked_fill(~going, NOTHING)
        self.log_probs[ticks, rows] = logits.float().log_softmax(1).gather(1, token[:, None])[:, 0]
        tokens.copy_(torch.where(going, token.masked_fill(over, marks.pad_id), tokens))
        done.copy_(done | (going & over))
        positions.add_(going | (stepping > 0))
        steps.add_(going)
        stepping.zero_()
        ticks.add_(1)

    def _write(self, scores: Tensor, logits: Tensor, positions: Tensor, marks: Marks, forbidden: Tensor | None) -> None:
        """The same in few kernels; here, because Triton comes with GPU builds only."""
        from regard.fast.gpu.shared_rows.kernels import write_rows
        from regard.fast.gpu.topk import top_k_of_chunks

        best = top_k_of_chunks(scores, 1, forbidden=forbidden)
        clean = best if scores is logits else top_k_of_chunks(logits, 1)
        into = {"table": self.table, "chosen": self.chosen, "log_probs": self.log_probs}
        write_rows(best, clean, logits, **into, positions=positions, marks=marks)

    def _forbidden_columns(self, marks: Marks, n_columns: int) -> Tensor | None:
        if marks not in self._forbidden:
            self._forbidden[marks] = marks.forbidden(n_columns, self.table.device)
        return self._forbidden[marks]
