"""What every registered model of images promises, in every variant: the same tests over all of them."""

import io
from dataclasses import asdict

import pytest
import torch

import image_models
from regard.attention import watch
from regard.errors import ConfigError, ShapeError
from regard.models.registry import build

every_model = pytest.mark.parametrize(("name", "variant"), image_models.CASES)


def make(name, variant, dropout=0.0):
    """In double precision, where equal means equal to 1e-10."""
    torch.manual_seed(3)
    return build(name, image_models.options_of(name, variant, dropout)).double().eval()


def images(model, n=4, size=None, seed=0):
    torch.manual_seed(seed)
    return torch.randn(n, model.config.n_channels, *(size or model.config.image), dtype=torch.double)


@every_model
def test_shapes(name, variant):
    model = make(name, variant)
    c = model.config
    width = c.n_classes or c.d_model
    assert model(images(model)).shape == (4, width)
    assert model(images(model, n=1)).shape == (1, width)
    rows, columns = model.grid(images(model))
    assert model.encode(images(model)).shape == (4, rows * columns + (c.pooling == "class"), c.d_model)
    assert model(images(model, size=(17, 8))).shape == (4, width), "another size is read too"
    for wrong in (images(model)[:, :, :3], images(model)[0], images(model).byte(), images(model).repeat(1, 2, 1, 1)):
        with pytest.raises(ShapeError):
            model(wrong)


@every_model
def test_every_parameter_gets_a_gradient(name, variant):
    model = make(name, variant).train()
    torch.manual_seed(0)
    model(images(model)).square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@every_model
def test_a_row_of_a_batch_is_the_row_alone(name, variant):
    model = make(name, variant)
    given = images(model)
    together = model(given)
    for i in range(4):
        torch.testing.assert_close(model(given[i : i + 1])[0], together[i], rtol=0, atol=1e-10)


@every_model
def test_saved_and_loaded_is_the_same(name, variant):
    model, file = make(name, variant), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    torch.manual_seed(9)
    again = build(name, asdict(model.config)).double().eval()
    assert not torch.equal(again(images(model)), model(images(model)))
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(again(images(model)), model(images(model)))


@every_model
def test_evaluation_is_deterministic_and_training_drops_out(name, variant):
    model = make(name, variant, dropout=0.5)
    given = images(model)
    assert torch.equal(model(given), model(given))
    model.train()
    assert not torch.equal(model(given), model(given))


@every_model
def test_watching_changes_no_bit_and_sees_distributions(name, variant):
    model = make(name, variant)
    unwatched = model(images(model))
    with watch(model) as seen:
        assert torch.equal(model(images(model)), unwatched)
    assert len(seen) == 2 + (model.config.pooling == "attention")
    for sight in seen:
        torch.testing.assert_close(sight.weights.sum(-1), torch.ones_like(sight.weights[..., 0]))


@every_model
def test_it_sees_where_things_are_unless_it_has_no_positions(name, variant):
    model = make(name, variant)
    if model.config.stem == "conv":
        return  # a convolution sees edges by itself
    given = images(model, size=(8, 12))
    moved = given.roll(4, -1)  # by a patch
    same = torch.allclose(model(given), model(moved), rtol=0, atol=1e-10)
    assert same == (model.config.positions == "none")


def test_configs_that_make_no_model():
    for wrong, reason in [
        ({"patch": 16}, "patches of 16 do not fit an image of 9 × 14"),
        ({"n_layers": 0}, "n_layers is 0"),
        ({"stochastic_depth": 1.0}, "stochastic_depth is 1.0, from 0 to below 1"),
        ({"d_model": 9}, "9 features cannot be shared|cannot be split|heads"),
    ]:
        with pytest.raises((ConfigError, ShapeError), match=reason):
            build("vit", image_models.SHAPE | wrong)
