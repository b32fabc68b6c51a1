"""Rows: padded or packed, they know their masks and positions."""

import pytest
import torch

from regard.attention import Causal, Documents, Padding, Rows
from regard.errors import ShapeError

IDS = torch.arange(12).view(3, 4)


def test_plain_ids_are_full_rows() -> None:
    rows = Rows.of(IDS)
    assert rows.mask() is None
    assert rows.positions is None
    assert rows.longest == 4
    assert Rows.of(rows) is rows
    assert Rows(IDS).mask_for(Rows(IDS)) is None


@pytest.mark.parametrize("ids", [torch.zeros(3), torch.zeros(3, 4), torch.zeros(2, 3, 4, dtype=torch.long)])
def test_what_is_not_rows_of_ids_is_refused(ids: torch.Tensor) -> None:
    with pytest.raises(ShapeError, match=r"token ids are whole numbers \(batch, positions\), got"):
        Rows.of(ids)


def test_padded_rows_end_where_they_end() -> None:
    rows = Rows(IDS, torch.tensor([4, 1, 2]))
    mask = rows.mask()
    assert isinstance(mask, Padding)
    allowed = mask.dense(4, 4, n_leading=1, device=IDS.device)
    assert allowed[:, 0].tolist() == [[True] * 4, [True, False, False, False], [True, True, False, False]]
    of_others = rows.mask_for(Rows(torch.zeros(3, 7, dtype=torch.long), torch.tensor([7, 7, 7])))
    assert isinstance(of_others, Padding)
    assert of_others.lengths is rows.lengths


@pytest.mark.parametrize("shape", [(9,), (1, 9)])
def test_a_packed_row_counts_anew_in_each_document(shape: tuple[int, ...]) -> None:
    rows = Rows.packed(torch.arange(9).view(shape), torch.tensor([2, 0, 3, 4, 0]), longest=5)
    assert rows.ids.shape == (1, 9)
    assert rows.longest == 5
    assert rows.positions is not None
    assert rows.positions.tolist() == [[0, 1, 0, 1, 2, 0, 1, 2, 3]]
    mask = rows.mask()
    assert isinstance(mask, Documents)
    owners = torch.tensor([0, 0, 2, 2, 2, 3, 3, 3, 3])
    assert torch.equal(mask.dense(9, 9, n_leading=0, device=owners.device), owners[:, None] == owners)


def test_a_packed_target_sees_its_own_source_only() -> None:
    source = Rows.packed(torch.arange(6), torch.tensor([1, 3, 2]), longest=3)
    target = Rows.packed(torch.arange(5), torch.tensor([2, 2, 1]), longest=4)
    mask = source.mask_for(target)
    assert isinstance(mask, Documents)
    assert mask.longest == 4
    queries, keys = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 1, 1, 1, 2, 2])
    assert torch.equal(mask.dense(5, 6, n_leading=0, device=keys.device), queries[:, None] == keys)


def test_packed_and_padded_do_not_mix() -> None:
    packed = Rows.packed(torch.arange(4), torch.tensor([1, 3]), longest=3)
    with pytest.raises(ShapeError, match="a packed source needs a packed target"):
        packed.mask_for(Rows(IDS))


def test_rows_combine_with_causality() -> None:
    mask = Rows.packed(torch.arange(4), torch.tensor([1, 3]), longest=3).mask()
    assert mask is not None
    allowed = (mask & Causal()).dense(4, 4, n_leading=0, device=IDS.device)
    assert allowed.tolist() == [
        [True, False, False, False],
        [False, True, False, False],
        [False, True, True, False],
        [False, True, True, True],
    ]
