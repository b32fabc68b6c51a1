"""Rows that write each in its own way: the kernel does as plain operations do, on Triton's interpreter or a GPU."""

import pytest
import torch

from regard.decoding.plan import Marks
from regard.fast.gpu.shared_rows.state import RowRecord, RowState

pytest.importorskip("triton", reason="Triton is not installed: it is part of the dev extra on Linux")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu
N, V, TICKS = 7, 9, 4
MARKS = Marks(eos_id=4, pad_id=0)


def state_on(device):
    state = RowState(N + 2, n_ticks=TICKS, device=device)
    records = [RowRecord(3, limit=limit, done=done) for limit, done in ((9, 0), (2, 0), (9, 1), (1, 0), (9, 0), (5, 1))]
    state.put(torch.arange(len(records), device=device), records)
    state.step_next(torch.tensor([5], device=device), torch.tensor([8], device=device))
    return state


def rows_of(state, positions):
    return state.table.cpu(), state.chosen.cpu(), positions.cpu()


def test_the_kernel_moves_rows_on_as_the_plain_operations_do():
    plain, quick = state_on(torch.device("cpu")), state_on(DEVICE)
    where = {"plain": torch.arange(N), "quick": torch.arange(N, device=DEVICE)}
    generator, log_probs = torch.Generator().manual_seed(3), []
    for tick in range(TICKS):
        logits = torch.randn(N, V, generator=generator)
        logits[0, MARKS.eos_id] += 9.0 * (tick == 2)  # one ends by itself
        plain.choose(logits, where["plain"], MARKS, drawn=False)
        there = logits.to(DEVICE)
        quick._write(there, there, where["quick"], MARKS, None)
        log_probs.append(logits.log_softmax(1).amax(1))
    for one, other in zip(rows_of(plain, where["plain"]), rows_of(quick, where["quick"]), strict=True):
        assert one.tolist() == other.tolist()
    assert plain.chosen[:, 0].tolist()[2:] == [MARKS.eos_id, -1]  # it was done then
    assert plain.chosen[:, 3].tolist()[1:] == [-1] * 3  # it had come to its limit
    assert where["plain"].tolist()[5] == 6  # told to step, once
    torch.testing.assert_close(quick.log_probs[:, :N].cpu(), torch.stack(log_probs), atol=1e-5, rtol=0)


def test_drawn_tokens_have_the_log_probability_of_the_logits():
    state, positions = state_on(DEVICE), torch.arange(N, device=DEVICE)
    logits = torch.randn(N, V, generator=torch.Generator().manual_seed(4)).to(DEVICE)
    forbidden = torch.zeros(V, dtype=torch.int8, device=DEVICE)
    scores = -logits  # whatever chose them
    forbidden[int(scores[0].argmax())] = 1
    state._write(scores, logits, positions, MARKS, forbidden)
    allowed = scores.masked_fill(forbidden > 0, -torch.inf).argmax(1)
    expected = logits.log_softmax(1).gather(1, allowed[:, None])[:, 0]
    assert state.chosen[0, 0] == allowed[0]
    torch.testing.assert_close(state.log_probs[0, :N], expected, atol=1e-5, rtol=0)
