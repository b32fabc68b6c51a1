"""What every registered model of series promises, in every variant: the same tests over all of them."""

import io
from dataclasses import asdict

import pytest
import torch

import series_models
from regard.attention import watch
from regard.errors import ConfigError, ShapeError
from regard.models.registry import build

every_model = pytest.mark.parametrize(("name", "variant"), series_models.CASES)


def make(name, variant, dropout=0.0):
    """In double precision, where equal means equal to 1e-10; batch norms have seen something."""
    model = build(name, series_models.options_of(name, variant, dropout)).double()
    model.train()(*inputs(model))
    return model.eval()


def inputs(model, n=4, seed=0):
    torch.manual_seed(seed)
    c = model.config
    sizes = ((c.context, c.n_inputs), (c.context, c.n_marks), (c.horizon, c.n_marks))
    past, *marks = (torch.randn(n, *size, dtype=torch.double) for size in sizes)
    return 5 + 3 * past, *marks


@every_model
def test_shapes(name, variant):
    model = make(name, variant)
    c = model.config
    assert model(*inputs(model)).shape == (4, c.horizon, len(c.targets), c.n_outputs)
    with pytest.raises(ShapeError, match=r"a window of shape \(4, 11, "):
        model(inputs(model)[0][:, 1:], *inputs(model)[1:])


@every_model
def test_every_parameter_gets_a_gradient(name, variant):
    model = make(name, variant).train()
    model(*inputs(model)).square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@every_model
def test_a_row_of_a_batch_is_the_row_alone(name, variant):
    model = make(name, variant)
    given = inputs(model)
    together = model(*given)
    for i in range(4):
        torch.testing.assert_close(model(*(part[i : i + 1] for part in given))[0], together[i], rtol=0, atol=1e-10)


@every_model
def test_saved_and_loaded_is_the_same(name, variant):
    model, file = make(name, variant), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = build(name, asdict(model.config)).double().eval()
    assert not torch.equal(again(*inputs(model)), model(*inputs(model)))
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(again(*inputs(model)), model(*inputs(model)))


@every_model
def test_evaluation_is_deterministic_and_training_drops_out(name, variant):
    model = make(name, variant, dropout=0.5)
    given = inputs(model)
    assert torch.equal(model(*given), model(*given))
    if name != "dlinear":
        model.train()
        assert not torch.equal(model(*given), model(*given))


@pytest.mark.parametrize(("name", "variant"), series_models.ATTENTIVE)
def test_watching_changes_no_bit_and_sees_distributions(name, variant):
    model = make(name, variant)
    unwatched = model(*inputs(model))
    with watch(model) as seen:
        assert torch.equal(model(*inputs(model)), unwatched)
    assert len(seen) > 0
    for sight in seen:
        torch.testing.assert_close(sight.weights.sum(-1), torch.ones_like(sight.weights[..., 0]))
        assert sight.weights.shape[-1] in (
            model.config.context,
            model.config.horizon,
            getattr(model.config, "n_patches", 0),
        )


@every_model
def test_a_normalized_forecast_follows_the_level_of_its_window(name, variant):
    model = make(name, variant)
    past, *marks = inputs(model)
    moved = model(past * 7 + 100, *marks)
    if model.config.normalize and -1 not in model.config.targets:
        torch.testing.assert_close(moved, model(past, *marks) * 7 + 100, rtol=1e-4, atol=1e-2)
    else:
        assert not torch.allclose(moved, model(past, *marks) * 7 + 100, atol=1)


@every_model
def test_one_target_alone_is_its_column_of_all(name, variant):
    model = make(name, variant)
    given = inputs(model)
    whole = model(*given)
    for k in range(len(model.config.targets)):
        torch.testing.assert_close(model(*given, only=k), whole[:, :, [k]], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["series-transformer", "recurrent-forecaster"])
def test_one_target_alone_has_its_own_linear_model_and_effects(name):
    several = {"targets": (0, 2, -1), "linear": True, "n_covariates": 2}
    model = build(name, series_models.options_of(name, "plain") | several).double().eval()
    given = inputs(model)
    model.start(torch.randn(37, 15, dtype=torch.double), torch.randn(2, 3, dtype=torch.double))
    whole = model(*given)
    for k in range(3):
        torch.testing.assert_close(model(*given, only=k), whole[:, :, [k]], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["patch-forecaster", "dlinear"])
def test_columns_of_channel_independent_models_do_not_mix(name):
    model = make(name, "plain")
    past, *marks = inputs(model)
    whole = model(past, *marks)
    other = past.clone()
    other[:, :, 1:] = 0  # neither the column that is no target nor the second target says anything about the first
    assert torch.equal(model(other, *marks)[:, :, 0], whole[:, :, 0])
    assert not torch.equal(model(other, *marks)[:, :, 1], whole[:, :, 1])
    torch.testing.assert_close(model(past, *marks, only=1)[:, :, 0], whole[:, :, 1], rtol=0, atol=1e-10)
    with pytest.raises(ConfigError, match="predicts every column from its own past") as error:
        build(name, series_models.options_of(name, "plain") | series_models.FROM_OTHERS)
    assert "series-transformer" in error.value.hint


@pytest.mark.parametrize(("name", "variant"), series_models.LINEAR)
def test_a_forecast_may_begin_as_a_linear_one_and_learn_the_rest(name, variant):
    model = make(name, variant)
    past, *marks = inputs(model)
    c, shape = model.config, model(past, *marks).shape
    weights = torch.randn(model.linear_weight.shape[1] + 1, model.linear_weight.shape[0], dtype=torch.double)
    model.start(weights)
    wanted = torch.zeros_like(past, requires_grad=True)
    slopes = [torch.autograd.grad(model(wanted, *marks)[0, t, -1, 0], wanted)[0][0] for t in range(c.horizon)]
    sizes = torch.stack(slopes).abs().sum((0, 2))  # what the last target follows from, step by step
    torch.testing.assert_close(model.linear_shares(len(c.targets) - 1), sizes / sizes.sum())
    one = torch.ones(4, 1, dtype=torch.double)
    if c.reads_itself:
        said = [past[:, -1:, k] + torch.cat((past[:, :, k] - past[:, -1:, k], one), 1) @ weights for k in c.targets]
        expected = torch.stack(said, -1)
    else:
        expected = (torch.cat((past.flatten(1), one), 1) @ weights).view(4, c.horizon, -1)
    expected = expected[..., None].expand(shape)
    torch.testing.assert_close(model(past, *marks), expected)
    assert not {"linear_weight", "linear_bias"} & {name for name, _ in model.named_parameters()}
    model(past, *marks).square().sum().backward()
    assert model.head.weight.grad.abs().max() > 0
    with torch.no_grad():
        model.head.bias += 1
    scales = [past[:, :, k].std(1, unbiased=False) if k >= 0 and c.normalize else one[:, 0] for k in c.targets]
    moved = torch.stack(scales, -1)[:, None, :, None].expand(shape)  # in units of the window
    torch.testing.assert_close(model(past, *marks) - expected, moved, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model(past, *marks, only=0), model(past, *marks)[:, :, :1], rtol=0, atol=1e-10)


def test_dlinear_is_trend_and_season_through_a_matrix_each():
    model = make("dlinear", "plain")
    past, *marks = inputs(model)
    row = past[1, :, 2]
    padded = torch.cat((row[:1], row, row[-1:]))
    trend = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    expected = model.trend(trend) + model.season(row - trend)
    torch.testing.assert_close(model(past, *marks)[1, :, 1, 0], expected)


def test_patches_are_strides_with_the_end_repeated():
    model = make("patch-forecaster", "plain")
    patches = model.patches(torch.arange(12.0)[None])[0].tolist()
    assert patches == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9], [8, 9, 10, 11], [10, 11, 11, 11]]
    assert len(patches) == model.config.n_patches
    published = build("patch-forecaster", {"size": "tiny", "context": 512}).config
    assert published.n_patches == 64
