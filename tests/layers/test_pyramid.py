"""The pyramid: pairs of steps, halves of time, and rows that know nothing of each other."""

import pytest
import torch

from regard.errors import UsageError
from regard.layers.pyramid import BothWays, Pyramid, halve, turned


def test_steps_go_in_pairs():
    steps = torch.arange(10.0).view(1, 5, 2)
    assert halve(steps).tolist() == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 0]]]


@pytest.mark.parametrize(("n", "lengths"), [(0, [9, 4, 1]), (1, [5, 2, 1]), (3, [2, 1, 1])])
def test_time_is_halved_and_rows_are_as_if_alone(n, lengths):
    torch.manual_seed(0)
    pyramid = Pyramid(3, 4, n_halvings=n).double().eval()
    inputs, own = torch.randn(3, 9, 3, dtype=torch.double), torch.tensor([9, 4, 1])
    outputs, found = pyramid(inputs, own)
    assert found.tolist() == lengths
    assert outputs.shape == (3, max(lengths), pyramid.d_output)
    for i, length in enumerate(own.tolist()):
        alone, _ = pyramid(inputs[i : i + 1, :length], own[i : i + 1])
        torch.testing.assert_close(outputs[i, : lengths[i]], alone[0], rtol=0, atol=1e-12)


def test_both_directions_reach_everywhere():
    pyramid = Pyramid(2, 3, n_halvings=2).double()
    inputs = torch.randn(1, 8, 2, dtype=torch.double, requires_grad=True)
    outputs, _ = pyramid(inputs, torch.tensor([8]))
    for place in (0, 1):
        (gradient,) = torch.autograd.grad(outputs[0, place].sum(), inputs, retain_graph=True)
        assert (gradient.abs().sum(-1) > 0).all()
    with pytest.raises(UsageError, match="0 times or more"):
        Pyramid(2, 3, n_halvings=-1)


def test_rows_are_turned_around_within_themselves():
    steps = torch.arange(8.0).view(2, 4, 1)
    assert turned(steps, torch.tensor([4, 2])).flatten(1).tolist() == [[3, 2, 1, 0], [5, 4, 6, 7]]


def test_both_ways_is_a_two_directional_layer():
    torch.manual_seed(0)
    both, whole = BothWays(3, 4, cell="lstm"), torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    for name, weight in both.forth.layers.named_parameters():
        getattr(whole, name).data.copy_(weight)
        getattr(whole, f"{name}_reverse").data.copy_(getattr(both.back.layers, name))
    inputs, lengths = torch.randn(3, 6, 3), torch.tensor([6, 3, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(whole(packed)[0], batch_first=True)
    torch.testing.assert_close(both(inputs, lengths), expected)
