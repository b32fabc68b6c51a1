"""Beams that share their past go on as if each had its own."""

import pytest
import torch
from torch import Tensor

from regard.attention import Cache, Causal, MultiHeadAttention, Rotary, reorder_all
from regard.layers import DecoderBlock, DecoderKVCache, DecoderStack, FeedForward
from regard.layers.kv_cache import shared_sources

D, WIDTH, SOURCES = 16, 3, 4


def stack(rotary=None):
    """Two layers in double precision, with random weights throughout."""
    blocks = [
        DecoderBlock(
            D,
            attention=MultiHeadAttention(D, 4, kind="masked", n_kv_heads=2, rotary=rotary),
            cross=MultiHeadAttention(D, 4, kind="cross"),
            feedforward=FeedForward(D, 32),
        )
        for _ in range(2)
    ]
    made = DecoderStack(blocks).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return made


class Rehearsal:
    """The same steps twice: with the memory under test, and with every row's history decoded from the start."""

    def __init__(self, rotary=None) -> None:
        self.stack, self.source = stack(rotary), torch.randn(SOURCES, 5, D, dtype=torch.float64)
        self.memory = self.stack.prefill(self.source, capacity=6)  # some tests outrun it: it grows
        self.sources = torch.arange(SOURCES)
        self.inputs = torch.zeros(SOURCES, 0, D, dtype=torch.float64)

    def select(self, rows: Tensor, *, same_source: bool) -> None:
        self.memory.reorder(rows, same_source=same_source)
        self.sources, self.inputs = self.sources[rows], self.inputs[rows]

    def step(self) -> None:
        x = torch.randn(len(self.sources), 1, D, dtype=torch.float64)
        self.inputs = torch.cat((self.inputs, x), 1)
        length = self.memory.length
        assert length == self.inputs.shape[1] - 1
        found = self.stack(x, mask=Causal(offset=length), kv_cache=self.memory)
        whole = self.stack(self.inputs, self.source[self.sources], mask=Causal())
        torch.testing.assert_close(found[:, 0], whole[:, -1])

    def within(self, draw: torch.Generator) -> Tensor:
        """Each beam goes on with one of its own source's."""
        n_sources = len(self.sources) // WIDTH
        parents = torch.randint(WIDTH, (n_sources, WIDTH), generator=draw)
        return (torch.arange(n_sources)[:, None] * WIDTH + parents).flatten()


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def begun(rotary=None) -> Rehearsal:
    rehearsal = Rehearsal(rotary)
    rehearsal.select(torch.arange(SOURCES).repeat_interleave(WIDTH), same_source=False)
    return rehearsal


@pytest.mark.parametrize("rotary", [None, Rotary(4)])
def test_beams_change_places_at_every_step(rotary):
    rehearsal, draw = begun(rotary), torch.Generator().manual_seed(3)
    most = 0
    for _ in range(14):
        rehearsal.step()
        rehearsal.select(rehearsal.within(draw), same_source=True)
        most = max(most, rehearsal.memory.past[0].length)
    assert rehearsal.memory.own is not None
    assert rehearsal.memory.past[0].keys.shape[0] == SOURCES, "one row a source"
    assert most < 14 * WIDTH, "what is in nobody's past was dropped"


def test_nothing_moves_but_the_mask():
    rehearsal = begun()
    for _ in range(3):
        rehearsal.step()
    rehearsal.select(torch.arange(SOURCES * WIDTH).view(-1, WIDTH).flip(1).flatten(), same_source=True)
    places = rehearsal.memory.past[0].keys.data_ptr()
    for _ in range(3):
        rehearsal.step()
        rehearsal.select(torch.arange(SOURCES * WIDTH).view(-1, WIDTH).roll(1, 1).flatten(), same_source=True)
    assert rehearsal.memory.past[0].keys.data_ptr() == places


def test_sources_leave_with_all_their_beams():
    rehearsal, draw = begun(), torch.Generator().manual_seed(5)
    for going in ([0, 1, 2, 3], [3, 1, 0], [1, 2], [1]):
        for _ in range(3):
            rehearsal.step()
            rehearsal.select(rehearsal.within(draw), same_source=True)
        rows = rehearsal.within(draw).view(-1, WIDTH)[[place for place in going if place < len(rehearsal.sources)]]
        rehearsal.select(rows.flatten(), same_source=False)
        assert rehearsal.memory.own is not None, "they still share"
    rehearsal.step()


def test_rows_that_leave_one_by_one_part():
    rehearsal, draw = begun(), torch.Generator().manual_seed(7)
    for _ in range(5):
        rehearsal.step()
        rehearsal.select(rehearsal.within(draw), same_source=True)
    rehearsal.select(torch.tensor([7, 0, 0, 5, 11]), same_source=False)
    assert rehearsal.memory.own is None
    rehearsal.step()
    rehearsal.select(torch.tensor([4, 2]), same_source=False)
    rehearsal.step()


def test_several_positions_at_once_are_read_by_each_row():
    rehearsal, draw = begun(), torch.Generator().manual_seed(9)
    for _ in range(3):
        rehearsal.step()
        rehearsal.select(rehearsal.within(draw), same_source=True)
    x = torch.randn(SOURCES, 2, D, dtype=torch.float64)
    rows = torch.arange(0, SOURCES * WIDTH, WIDTH)  # one of each source's beams
    rehearsal.select(rows, same_source=False)
    rehearsal.inputs = torch.cat((rehearsal.inputs, x), 1)
    found = rehearsal.stack(x, mask=Causal(offset=3), kv_cache=rehearsal.memory)
    whole = rehearsal.stack(rehearsal.inputs, rehearsal.source[rehearsal.sources], mask=Causal())
    torch.testing.assert_close(found, whole[:, -2:])
    rehearsal.step()


def test_rows_that_never_change_places_share_nothing():
    rehearsal = begun()
    for _ in range(3):
        rehearsal.step()
    assert rehearsal.memory.own is None


def test_one_row_becomes_several_of_its_source():
    memory = DecoderKVCache([Cache(4), Cache(4)], [])
    keys = torch.randn(2, 1, 1, 4)
    for cache in memory.past:
        cache.append(keys, keys)
    memory.spread(3)
    assert memory.per_source == 3
    assert torch.equal(memory.past[1].keys, keys.repeat_interleave(3, 0))
    reorder_all(memory.past, torch.tensor([0]))
    assert memory.length == 1


@pytest.mark.parametrize(
    ("sources", "width", "kept"), [([3, 3, 1, 1], 2, [3, 1]), ([3, 3, 1], 1, [3, 3, 1]), ([4, 5], 1, [4, 5])]
)
def test_who_shares_a_source_all_along(sources, width, kept):
    found, left = shared_sources(torch.tensor(sources))
    assert (found, left.tolist()) == (width, kept)
