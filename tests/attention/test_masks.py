"""Masks as descriptions: what each one means, how they combine, and what an empty row gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import oracle
from regard.attention import (
    Both,
    Causal,
    Dense,
    Documents,
    Mask,
    Padding,
    ScaledDot,
    Since,
    Window,
    attend,
    attend_explicitly,
)
from regard.attention.masks import as_mask, simplify
from regard.errors import MaskError, ShapeError

CPU = torch.device("cpu")
BOTH_WAYS = pytest.mark.parametrize("way", [attend, attend_explicitly])
INF = float("inf")


def written(mask: Mask, *shape: int) -> Tensor:
    """The mask as a tensor of the scores' full shape (..., T, S)."""
    dense = mask.dense(*shape[-2:], n_leading=len(shape) - 2, device=CPU)
    assert dense.dtype == torch.bool
    return dense.expand(shape)


def rows(mask: Mask, n_queries: int, n_keys: int) -> list[str]:
    return ["".join("x" if may else "." for may in row) for row in written(mask, n_queries, n_keys).tolist()]


def test_what_each_kind_means() -> None:
    assert rows(Causal(), 3, 3) == ["x..", "xx.", "xxx"]
    assert rows(Causal(1), 2, 4) == ["xx..", "xxx."]
    assert rows(Causal(-1), 2, 2) == ["..", "x."]
    assert rows(Window(1), 3, 3) == ["x..", "xx.", ".xx"]
    assert rows(Window(0, 1), 3, 3) == ["xx.", ".xx", "..x"]
    assert rows(Window(1, offset=2), 2, 4) == [".xx.", "..xx"]
    assert rows(Documents([2, 1]), 3, 3) == ["xx.", "xx.", "..x"]
    assert rows(Documents([1, 2], [2, 1]), 3, 3) == ["xx.", "..x", "..x"]
    assert rows(Causal() & Window(1), 3, 3) == ["x..", "xx.", ".xx"]
    assert written(Padding([3, 1]), 2, 1, 3).tolist() == [[[True, True, True]], [[True, False, False]]]
    assert written(Since([0, 2]), 2, 1, 3).tolist() == [[[True, True, True]], [[False, False, True]]]
    assert written(Since([0, 2]) & Causal(), 2, 3, 3)[1].tolist() == [[False] * 3, [False] * 3, [False, False, True]]


def test_padding_lengths_line_up_with_the_first_dimensions() -> None:
    assert written(Padding([3, 0]), 2, 4, 1, 3).sum((1, 2, 3)).tolist() == [12, 0]
    assert written(Padding(torch.tensor([[3, 0, 1, 2], [0, 0, 0, 1]])), 2, 4, 1, 3).sum((2, 3)).tolist() == [
        [3, 0, 1, 2],
        [0, 0, 0, 1],
    ]


RULES: list[Mask] = [Causal(offset) for offset in range(-2, 5)] + [
    Window(left, right, offset=offset) for left in (0, 1, 4) for right in (0, 1, 4) for offset in range(-1, 3)
]


@pytest.mark.parametrize("sizes", [(1, 1), (1, 4), (3, 3), (3, 4), (2, 5), (4, 2)], ids=str)
def test_what_a_rule_says_of_itself_is_true(sizes: tuple[int, int]) -> None:
    """`trivial` and `leaves_none_empty` spare a look at the tensor: they must never promise too much."""
    tables = [torch.from_numpy(oracle.mask_table(rule, sizes)) for rule in RULES]
    promised = {"trivial": 0, "none empty": 0}
    for rule, table in zip(RULES, tables, strict=True):
        assert torch.equal(written(rule, *sizes), table)
    for (one, first), (other, second) in itertools.combinations_with_replacement(zip(RULES, tables, strict=True), 2):
        mask, table = one & other, first & second
        if mask.trivial(*sizes):
            promised["trivial"] += 1
            assert table.all()
        if mask.leaves_none_empty(*sizes):
            promised["none empty"] += 1
            assert table.any(-1).all()
        simple = simplify(mask, *sizes)
        assert table.all() if simple is None else torch.equal(written(simple, *sizes), table)
    assert min(promised.values()) > 0 or sizes == (4, 2)  # a rule that promises nothing costs a look at every tensor


@BOTH_WAYS
@pytest.mark.parametrize("lead", [(2,), (2, 3)])
@pytest.mark.parametrize("sizes", [(5, 5), (3, 5), (5, 3)], ids=str)
def test_every_causal_offset_equals_the_oracle(
    way: Callable[..., Tensor], lead: tuple[int, ...], sizes: tuple[int, int]
) -> None:
    query, key = torch.randn(*lead, sizes[0], 4).double(), torch.randn(*lead, sizes[1], 4).double()
    for offset in range(-3, 6):
        mask = Causal(offset)
        expected = torch.from_numpy(oracle.attention(query, key, key, score=ScaledDot(), mask=mask))
        torch.testing.assert_close(way(query, key, key, mask=mask), expected, atol=1e-12, rtol=0)


def test_what_forbids_nothing_is_left_out() -> None:
    assert simplify(Causal(9), 1, 10) is None
    assert simplify(Window(9, 9), 5, 5) is None
    assert simplify(None, 5, 5) is None
    causal = Causal()
    assert simplify(causal & Window(9, 9), 5, 5) is causal
    assert isinstance(simplify(causal & Padding([5]), 5, 5), Both)


def test_and_is_flat_and_a_tensor_is_a_mask() -> None:
    mask = Causal() & (Window(1) & Padding([2]))
    assert isinstance(mask, Both)
    assert [type(part) for part in mask.parts] == [Causal, Window, Padding]
    wrapped = as_mask(torch.ones(2, 2, dtype=torch.bool))
    assert isinstance(wrapped, Dense)
    assert as_mask(None) is None


@BOTH_WAYS
@pytest.mark.parametrize("n_leading", [0, 1, 2, 3])
def test_a_mask_over_keys_alone_serves_every_query(way: Callable[..., Tensor], n_leading: int) -> None:
    lead = (2, 3, 2)[:n_leading]
    query, key = torch.randn(*lead, 4, 8), torch.randn(*lead, 5, 8)
    open_keys = torch.tensor([True, True, False, True, False])
    expected = way(query, key[..., open_keys, :], key[..., open_keys, :])
    torch.testing.assert_close(way(query, key, key, mask=open_keys), expected, atol=1e-6, rtol=0)
    bias = torch.zeros(5).masked_fill(~open_keys, -INF)
    torch.testing.assert_close(way(query, key, key, bias=bias), expected, atol=1e-6, rtol=0)


def _everything_closed_in_row_one() -> Tensor:
    allowed = torch.ones(4, 5, dtype=torch.bool)
    allowed[1] = False
    return allowed


EMPTY: dict[str, tuple[dict[str, Mask | Tensor], Callable[[Tensor], Tensor]]] = {
    "padding of length 0": ({"mask": Padding([5, 0])}, lambda output: output[1]),
    "a dense row of False": ({"mask": Dense(_everything_closed_in_row_one())}, lambda output: output[:, :, 1]),
    "a bias row of -inf": (
        {"bias": torch.zeros(4, 5).masked_fill(~_everything_closed_in_row_one(), -INF)},
        lambda output: output[:, :, 1],
    ),
    "mask and bias that leave nothing together": (
        {"mask": Dense(torch.arange(5) < 2), "bias": torch.zeros(4, 5).index_fill(1, torch.tensor([0, 1]), -INF)},
        lambda output: output,
    ),
    "a document without keys": ({"mask": Documents([2, 2], [0, 5])}, lambda output: output[:, :, :2]),
    "a window off the end": ({"mask": Window(1, 0, offset=4)}, lambda output: output[:, :, 2:]),
    "causal before the first key": ({"mask": Causal(-2)}, lambda output: output[:, :, :2]),
}


@BOTH_WAYS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("case", EMPTY)
def test_an_empty_row_gives_zeros_and_finite_gradients(
    way: Callable[..., Tensor], dtype: torch.dtype, batch: int, case: str
) -> None:
    rule, empty = EMPTY[case]
    if case == "padding of length 0" and batch == 1:
        rule, empty = {"mask": Padding([0])}, lambda output: output
    query = torch.randn(batch, 4, 4, 8, dtype=dtype, requires_grad=True)
    key = torch.randn(batch, 2, 5, 8, dtype=dtype, requires_grad=True)
    value = torch.randn(batch, 2, 5, 8, dtype=dtype, requires_grad=True)
    output = way(query, key, value, **rule)
    assert output.dtype == dtype
    assert (empty(output) == 0).all()
    assert (output != 0).any(-1).sum() == output[..., 0].numel() - empty(output)[..., 0].numel()
    output.float().square().sum().backward()
    for tensor in (query, key, value):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
    assert query.grad is not None
    assert (empty(query.grad) == 0).all()


@BOTH_WAYS
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("case", EMPTY)
def test_no_step_on_the_way_back_from_an_empty_row_is_nan(way: Callable[..., Tensor], case: str) -> None:
    """A NaN that is blanked afterwards is one kernel away from a NaN that is not."""
    query, key = torch.randn(2, 2, 4, 8, requires_grad=True), torch.randn(2, 2, 5, 8, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        way(query, key, key, **EMPTY[case][0]).square().sum().backward()
    assert key.grad is not None
    assert key.grad.isfinite().all()


def test_what_is_no_mask_is_refused() -> None:
    with pytest.raises(MaskError, match=r"0 or more positions, not by -1 and 0"):
        Window(-1)
    with pytest.raises(MaskError, match=r"padding lengths are whole numbers, not torch.float32"):
        Padding(torch.tensor([1.0]))
    with pytest.raises(MaskError, match=r"document lengths are whole numbers, not torch.bool"):
        Documents(torch.tensor([True]))
    with pytest.raises(MaskError, match=r"not str"):
        as_mask("causal")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"\(2,\) query lengths and \(3,\) key lengths"):
        Documents([1, 2], [1, 1, 1])


WRONG_SIZE: dict[str, tuple[Mask | Tensor, str]] = {
    "keys": (torch.ones(5, 7, dtype=torch.bool), r"\(5, 7\).* 5 queries × 6 keys"),
    "queries": (torch.ones(4, 6, dtype=torch.bool), r"\(4, 6\).* 5 queries × 6 keys"),
    "heads": (torch.ones(4, 5, 6, dtype=torch.bool), r"\b4\b.*\b3\b|\b3\b.*\b4\b"),
    "batch": (torch.ones(4, 1, 5, 6, dtype=torch.bool), r"\b4\b.*\b2\b|\b2\b.*\b4\b"),
    "lengths": (Padding([1, 2, 3]), r"\b3\b.*\b2\b|\b2\b.*\b3\b"),
    "lengths of more dimensions": (Padding(torch.ones(2, 3, 1, dtype=torch.long)), r"need 3 leading dimensions, got 2"),
    "documents": (Documents([2, 2], [3, 3]), r"4 positions .* row of 5"),
    "documents of keys": (Documents([2, 3], [3, 4]), r"7 positions .* row of 6"),
}


@BOTH_WAYS
@pytest.mark.parametrize("case", WRONG_SIZE)
def test_a_mask_of_the_wrong_size_is_named(way: Callable[..., Tensor], case: str) -> None:
    mask, message = WRONG_SIZE[case]
    query, key = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 6, 8)
    with pytest.raises(ShapeError, match=message):
        way(query, key, key, mask=mask)
