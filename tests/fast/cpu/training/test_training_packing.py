"""Padded rows that are trained without their padding: the same loss and gradients."""

import pytest
import torch

import regard
from regard.attention import Rows
from regard.config.keyed_draws import keyed_draws
from regard.fast.cpu.native.loading import for_training, training_kernels
from regard.fast.cpu.training.attention import LONGEST
from regard.fast.cpu.training.packing import attends_packed, without_padding
from regard.models.transformer import Transformer, TransformerConfig

CPU = torch.device("cpu")


def model_of(**settings: object) -> Transformer:
    torch.manual_seed(0)
    given = {"n_source": 40, "n_target": 40, "d_model": 32, "n_heads": 2, "d_feedforward": 48, "dropout": 0.0}
    return Transformer(TransformerConfig(**given | {"n_encoder_layers": 2, "n_decoder_layers": 2} | settings)).train()


def batch() -> tuple[Rows, Rows]:
    torch.manual_seed(1)
    source, target = torch.randint(4, 40, (5, 9)), torch.randint(4, 40, (5, 7))
    return Rows(source, torch.tensor([9, 3, 1, 7, 9])), Rows(target, torch.tensor([2, 7, 5, 1, 6]))


def gradients(model: Transformer) -> list[torch.Tensor]:
    source, target = batch()
    hidden = model.hidden(source, target)
    real = torch.arange(7) < target.lengths[:, None]  # type: ignore[index]
    loss = (hidden * real[..., None]).sin().sum()
    return [hidden[real], *torch.autograd.grad(loss, list(model.parameters()))]


@pytest.mark.parametrize("settings", [{}, {"positions": "rotary"}, {"order": "pre"}, {"n_kv_heads": 1}])
def test_the_same_states_and_gradients(settings: dict[str, object]) -> None:
    model = model_of(**settings)
    plain = gradients(model.double())
    model.float()
    with training_kernels(CPU):
        if for_training() is None:
            pytest.skip("no kernels")
        trained = gradients(model)
    for own, twin in zip(trained, plain, strict=True):
        torch.testing.assert_close(own.double(), twin, rtol=1e-4, atol=1e-5)


def test_draws_by_key_are_those_of_padded_rows() -> None:
    model, keys = model_of(dropout=0.3), torch.arange(5)
    with keyed_draws(keys):
        plain = gradients(model)
    with training_kernels(CPU), keyed_draws(keys):
        trained = gradients(model)
    torch.testing.assert_close(trained, plain, rtol=1e-3, atol=1e-4)


def test_padding_comes_back_as_zeros() -> None:
    rows = Rows(torch.arange(6).view(2, 3), torch.tensor([3, 1]))
    packed = without_padding(rows)
    assert packed is not None
    assert packed.rows.ids.tolist() == [[0, 1, 2, 3]]
    assert packed.restored(torch.ones(1, 4, 2)).sum(-1).tolist() == [[2, 2, 2], [2, 0, 0]]


def test_what_is_left_as_it_is() -> None:
    ids = torch.zeros(2, 3, dtype=torch.long)
    assert without_padding(Rows(ids)) is None
    assert without_padding(Rows(ids, torch.tensor([0, 0]))) is None
    assert without_padding(Rows.packed(ids, torch.tensor([2, 4]), longest=4)) is None
    assert without_padding(Rows(ids.new_zeros(1, LONGEST + 1), torch.tensor([1]))) is None
    assert attends_packed(model_of())
    assert not attends_packed(model_of(attention_dropout=0.1))
    assert not attends_packed(model_of(n_heads=4))  # heads of 8
    model = model_of()
    with regard.watch(model):
        assert not attends_packed(model)
