"""Packed weights compute what the plain ones do, up to the precision asked for, and leave the model alone."""

import pytest
import torch
from torch import nn

from regard.errors import UsageError
from regard.fast.cpu.native import why
from regard.fast.cpu.packed_linear import PackedLinear, _rounded, pack_linears
from regard.layers import FeedForward
from regard.models.registry import build

SIZES = {"n_source": 40, "n_target": 40}
MODELS = {
    "transformer": {"d_model": 32, "n_heads": 4, "d_feedforward": 64, "n_encoder_layers": 2, "n_decoder_layers": 2},
    "recurrent": {"d_embedding": 24, "d_hidden": 32, "n_layers": 1, "attention": "additive"},
}
NEAR = {"fp32": 1e-5, "bf16": 3e-2, "int8": 8e-2}


@pytest.mark.parametrize("precision", NEAR)
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_near(name, precision):
    model = build(name, MODELS[name] | SIZES).eval()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    source, target = torch.randint(4, 40, (5, 9)), torch.randint(4, 40, (5, 6))
    with torch.inference_mode():
        quick = pack_linears(model, precision)
        expected, found = model(source, target), quick(source, target)
        apart = (found - expected).norm() / expected.norm()
        assert apart < NEAR[precision]
        assert precision == "fp32" or apart > 0, "fewer bits leave their mark"
        assert any(isinstance(part, PackedLinear) for part in quick.modules())
        assert torch.equal(model(source, target), expected), "the original is as it was"
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("precision", NEAR)
def test_a_row_does_not_feel_its_neighbours(precision):
    quick = PackedLinear(torch.randn(24, 64), torch.randn(24), precision=precision)
    rows = torch.randn(6, 64)
    alone, together = quick(rows[:1]), quick(torch.cat((rows[:1], rows[1:] * 1000)))
    torch.testing.assert_close(together[:1], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("precision", NEAR)
def test_layers_that_activate_what_they_make(precision, activation, native):
    part = FeedForward(64, 96, activation=activation)
    quick, rows = pack_linears(part, precision, native=native), torch.randn(5, 64)
    assert quick.inner.activation == activation
    with torch.no_grad():
        assert (quick(rows) - part(rows)).norm() / part(rows).norm() < NEAR[precision] / 2


@pytest.mark.parametrize("precision", NEAR)
def test_rectified_layers_and_rows_of_nothing(precision):
    inner, outer = torch.nn.Linear(64, 96), torch.nn.Linear(96, 64)
    first = PackedLinear(inner.weight, inner.bias, precision=precision, activation="relu")
    second = PackedLinear(outer.weight, outer.bias, precision=precision, positive=True)
    rows = torch.randn(5, 64)
    rows[2] = 0
    with torch.no_grad():
        expected, found = outer(inner(rows).relu()), second(first(rows))
        assert found.dtype == torch.float32
        assert first(rows).min() == 0
        assert (found - expected).norm() / expected.norm() < NEAR[precision] / 2
        torch.testing.assert_close(second(torch.zeros(1, 96))[0], outer.bias, rtol=0, atol=NEAR[precision] / 10)


def test_eight_bits_reach_as_far_as_the_largest_weight():
    weight = torch.tensor([[1.27, -0.5, 0.014, 0.0], [-2.54, 2.54, 0.029, 1.0], [0.0, 0.0, 0.0, 0.0]])
    rounded, scales = _rounded(weight)
    assert scales[:2].tolist() == pytest.approx([0.01, 0.02])
    assert rounded.int_repr().tolist() == [[127, -50, 1, 0], [-127, 127, 1, 50], [0, 0, 0, 0]]
    many = torch.randn(50, 64)
    apart = (_rounded(many)[0].dequantize() - many).abs().amax(1)
    assert (apart <= many.abs().amax(1) / 254 * 1.001).all()  # half a step


def test_any_number_of_rows_and_leading_dimensions():
    layer = torch.nn.Linear(16, 24)
    quick = PackedLinear(layer.weight, layer.bias, precision="fp32")
    for shape in ((1, 16), (3, 16), (2, 5, 16), (100, 16), (4, 16, 1)):
        x = torch.randn(shape) if shape[-1] == 16 else torch.randn(4, 1, 16).mT.transpose(1, 2)
        torch.testing.assert_close(quick(x), layer(x))


def test_an_unknown_precision_is_refused():
    with pytest.raises(UsageError, match="'fp16'; allowed are 'fp32', 'bf16' and 'int8'"):
        pack_linears(torch.nn.Linear(2, 2), "fp16")


@pytest.mark.parametrize("precision", NEAR)
def test_packed_weights_lie_one_after_another_and_say_the_same(precision):
    packed = pack_linears(nn.Sequential(nn.Linear(40, 70), nn.Linear(70, 33)), precision)
    if packed[0].native is None:
        pytest.skip(why() or f"no kernels of our own multiply in {precision} here")
    first, second = (layer.native.tiles for layer in packed)
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert 0 <= second.data_ptr() - (first.data_ptr() + first.nbytes) < 64
    alone = PackedLinear(packed[1].weight, packed[1].bias, precision=precision)
    rows = torch.randn(5, 70)
    assert torch.equal(packed[1](rows), alone(rows))
