"""Greedy books, step by step: who writes what, who is done, and what moves on, on Triton's interpreter or a GPU."""

import pytest
import torch

greedy = pytest.importorskip(
    "regard.fast.gpu.greedy", reason="Triton is not installed: it is part of the dev extra on Linux"
)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu
EOS, PAD = 4, 0


def test_an_end_does_not_come_too_soon_and_all_counters_move_on():
    tokens, positions = torch.full((3,), 9, device=DEVICE), torch.tensor([11, 4, 0], device=DEVICE)
    books = greedy.GreedyState(tokens, capacity=8, eos_id=EOS, pad_id=PAD)
    logits = torch.tensor([[0.0, 1.0, 2.0, 0.0, 3.0], [0.0, 5.0, 2.0, 0.0, 3.0], [9.0, 1.0, 1.0, 1.0, 1.0]])
    log_probs = logits.log_softmax(1)
    books.begin(torch.tensor([8, 4], device=DEVICE), step=1, min_length=3)
    for step in range(1, 5):
        books.choose(logits.to(DEVICE), positions)
        assert positions.tolist() == [11 + step, 4 + step, step]
        assert tokens.tolist() == [2 if step < 3 else PAD, 1 if step < 3 else PAD, PAD]
        assert books.done.tolist() == [step >= 3, step >= 3, True]
    assert books.chosen[:6].tolist() == [[-1, -1, -1], [2, 1, -1], [2, 1, -1], [EOS, 1, -1], [-1, -1, -1], [-1, -1, -1]]
    assert books.log_probs[1:4, 0].tolist() == pytest.approx([float(log_probs[0, i]) for i in (2, 2, EOS)], abs=1e-5)
    books.begin(torch.tensor([8], device=DEVICE), step=0, min_length=0)  # and again, with nothing forbidden
    books.choose(logits.to(DEVICE), positions)
    assert books.chosen[0].tolist() == [EOS, -1, -1]
