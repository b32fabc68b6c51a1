"""Alignments: all of them summed by hand, and the labels of the best path."""

from itertools import product

import pytest
import torch

from regard.tasks.speech.ctc import best_labels, ctc_log_probs, ctc_loss


def collapsed(path, blank):
    kept = [label for i, label in enumerate(path) if i == 0 or label != path[i - 1]]
    return [label for label in kept if label != blank]


def test_a_text_is_as_likely_as_all_its_alignments_together():
    torch.manual_seed(0)
    scores, lengths, texts = torch.randn(3, 5, 3), torch.tensor([5, 4, 5]), [[1, 2], [1, 1], [2]]
    found = ctc_log_probs(scores, lengths, texts, blank=0)
    for row, (text, length) in enumerate(zip(texts, lengths.tolist(), strict=True)):
        probabilities = scores[row, :length].softmax(-1)
        total = sum(
            torch.stack([probabilities[s, label] for s, label in enumerate(path)]).prod()
            for path in product(range(3), repeat=length)
            if collapsed(path, 0) == text
        )
        assert float(found[row]) == pytest.approx(float(total.log()), abs=1e-5)
    labels = torch.tensor([[1, 2, 3], [1, 1, 3], [2, 3, 0]])
    loss = ctc_loss(scores, lengths, labels, sizes=torch.tensor([2, 2, 1]), blank=0)
    assert float(loss) == pytest.approx(-float(found.sum()), abs=1e-4)


def test_a_text_without_time_is_impossible_and_costs_nothing():
    scores = torch.randn(1, 2, 3, requires_grad=True)
    assert ctc_log_probs(scores, torch.tensor([2]), [[1, 1]], blank=0).item() == -float("inf")
    loss = ctc_loss(scores, torch.tensor([2]), torch.tensor([[1, 1]]), sizes=torch.tensor([2]), blank=0)
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(scores.grad).all()


def test_the_best_path_without_repetitions_and_blanks():
    path = [1, 1, 0, 1, 2, 2, 0, 0]
    scores = torch.nn.functional.one_hot(torch.tensor([path]), 3).float() * 9
    ((labels, log_prob),) = best_labels(scores, torch.tensor([6]), blank=0)
    assert labels == [1, 1, 2]
    assert log_prob == pytest.approx(6 * float(scores[0, 0].log_softmax(-1).max()), abs=1e-5)
