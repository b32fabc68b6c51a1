"""What a masked language model has to beat."""

import numpy as np
import pytest
import torch

from regard.tasks.masked.baselines import masked_baselines
from regard.tasks.masked.batches import MaskedBatch
from regard.tasks.masked.masking import UNUSED


def batch(rows: list[list[int]], places: list[int], labels: list[int]) -> MaskedBatch:
    ids = torch.tensor(rows)
    lengths = torch.full((len(rows),), ids.shape[1])
    return MaskedBatch(ids, lengths, ids * 0, torch.tensor(places), torch.tensor(labels), lengths * 0, ids.numel())


def accuracies(train: list[int], *batches: MaskedBatch) -> list[float]:
    found = masked_baselines(np.array(train, np.uint16), batches, n_vocabulary=10)
    assert [one.name for one in found] == ["the commonest piece", "the commonest piece between its neighbours"]
    return [one.figures["mlm_accuracy"] for one in found]


def test_neighbours_tell_a_piece() -> None:
    train = [1, 5, 2, 1, 5, 2, 1, 6, 2, 7, 7, 7, 7]  # between 1 and 2 mostly 5; 7 is commonest
    asked = batch([[0, 1, 9, 2, 0], [0, 7, 9, 7, 0]], [2, 7, 0], [5, 7, UNUSED])
    assert accuracies(train, asked) == [0.5, 1.0]


def test_less_is_known_of_neighbours_that_never_met() -> None:
    train = [1, 5, 2, 3, 6, 4, 3, 6, 4, 8, 8, 8, 8]
    after_three = batch([[0, 3, 9, 2, 0]], [2], [6])  # 3 … 2 was never seen, after 3 came 6
    before_two = batch([[0, 9, 9, 2, 0]], [2], [5])  # only what stands before 2 is known
    nothing = batch([[0, 9, 9, 9, 0]], [2], [8])
    assert accuracies(train, after_three) == [0.0, 1.0]
    assert accuracies(train, before_two) == [0.0, 1.0]
    assert accuracies(train, nothing) == [1.0, 1.0]
    assert accuracies(train, after_three, before_two, nothing) == [pytest.approx(1 / 3), 1.0]


def test_one_piece_is_enough() -> None:
    assert accuracies([4], batch([[0, 9, 0]], [1], [4])) == [1.0, 1.0]
