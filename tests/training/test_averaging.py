"""Averages of weights: numbers by hand, exact storage, and a model that gets its own weights back."""

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from regard.errors import CheckpointError, UsageError
from regard.training.averaging import Ema, LastN, averaged, make_averager


class Tied(nn.Module):
    """One weight under two names, and a bias."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.first = nn.Linear(2, 2, dtype=dtype)
        self.second = nn.Linear(2, 2, bias=False, dtype=dtype)
        self.second.weight = self.first.weight

    def set(self, value):
        with torch.no_grad():
            for p in self.parameters():
                p.fill_(value)
        return self


def walk(model, averager, values):
    for value in values:
        averager.update(model.set(value))
        averager.snapshot(model)


def test_ema_by_hand():
    ema = Ema(Tied().set(1.0), 0.5)
    model = Tied()
    walk(model, ema, [2.0, 3.0])
    mean = (2 / 11) * 1.0 + (9 / 11) * 2.0  # the decay of update 1 is 2/11, below 0.5
    mean = (3 / 12) * mean + (9 / 12) * 3.0
    torch.testing.assert_close(ema.average()["first.weight"], torch.full((2, 2), mean))
    walk(model, ema, [0.0] * 8)
    late = ema.average()["first.bias"][0].item()
    walk(model, ema, [4.0])
    assert ema.average()["first.bias"][0].item() == pytest.approx(0.5 * late + 0.5 * 4.0)


def test_last_n_by_hand():
    model = Tied()
    last = LastN(model, 3)
    walk(model, last, [1.0, 2.0])
    torch.testing.assert_close(last.average()["first.weight"], torch.full((2, 2), 1.5))
    walk(model, last, [6.0, 4.0])
    torch.testing.assert_close(last.average()["first.bias"], torch.full((2,), 4.0))


@pytest.mark.parametrize("make", [lambda m: Ema(m, 0.9), lambda m: LastN(m, 3)], ids=["ema", "last"])
class TestBoth:
    def test_shared_parameters_appear_once(self, make):
        model = Tied()
        averager = make(model)
        averager.snapshot(model)
        assert list(averager.average()) == ["first.weight", "first.bias"]

    def test_a_stored_and_loaded_average_goes_on_to_the_bit(self, make):
        model = Tied()
        straight, first, second = make(model), make(model), make(Tied().set(9.0))
        way = torch.randn(9).tolist()
        walk(model, straight, way)
        walk(model, first, way[:4])
        second.load_state_tensors(load(save(first.state_tensors())))
        walk(model, first, [5.0])  # what the first does now is nothing to the second
        walk(model, second, way[4:])
        for name, mean in straight.average().items():
            assert torch.equal(second.average()[name], mean)

    def test_the_model_is_averaged_inside_and_itself_after(self, make):
        model = Tied()
        averager = make(model)
        walk(model, averager, [1.0, 2.0, 4.0])
        nn.init.normal_(model.first.weight)
        own = {name: p.detach().clone() for name, p in model.named_parameters()}
        pointers = [p.data_ptr() for p in model.parameters()]
        with averaged(model, averager):
            for name, p in model.named_parameters():
                assert torch.equal(p, averager.average()[name])
            assert model.second.weight is model.first.weight
        assert all(torch.equal(p, own[name]) for name, p in model.named_parameters())
        assert [p.data_ptr() for p in model.parameters()] == pointers

    def test_an_error_inside_gives_the_weights_back_too(self, make):
        model = Tied()
        averager = make(model)
        walk(model, averager, [1.0, 3.0])
        with pytest.raises(ZeroDivisionError), averaged(model, averager):
            raise ZeroDivisionError
        assert model.first.bias.tolist() == [3.0, 3.0]

    def test_half_precision_is_averaged_in_float32(self, make):
        model = Tied(torch.bfloat16)
        averager = make(model)
        walk(model, averager, [1.0, 1.0078125, 1.0078125])
        mean = averager.average()["first.weight"]
        assert mean.dtype == torch.float32
        assert mean[0, 0] not in (1.0, 1.0078125)
        with averaged(model, averager):
            assert model.first.weight.dtype == torch.bfloat16

    def test_a_state_that_does_not_fit_is_refused(self, make):
        model = Tied()
        averager = make(model)
        averager.snapshot(model)
        stored = averager.state_tensors()
        name = next(key for key in stored if key.endswith("first.bias"))
        stored[name], stored["more"] = torch.zeros(5), torch.zeros(1)
        with pytest.raises(CheckpointError) as problem:
            averager.load_state_tensors(stored)
        assert f"{name}: [5], expected [2]" in str(problem.value)
        assert "more: unknown" in str(problem.value)


def test_make_averager_chooses():
    model = Tied()
    assert make_averager(model) is None
    assert isinstance(make_averager(model, ema=0.99), Ema)
    assert isinstance(make_averager(model, last=4), LastN)


def test_no_averager_changes_nothing():
    model = Tied().set(2.0)
    with averaged(model, None):
        assert model.first.bias.tolist() == [2.0, 2.0]


def test_what_is_refused():
    with pytest.raises(UsageError, match="no snapshot to average yet"), averaged(model := Tied(), LastN(model, 2)):
        pass
