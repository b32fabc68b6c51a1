"""The registry: names, sizes and options become models, or errors that say what is allowed."""

import pytest

from regard.errors import ConfigError
from regard.models.registry import build, configure, entry, names


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda: configure("transfomer"),
            "no model is called 'transfomer'; there are transformer, recurrent, bert, ",
            "did you mean transformer?",
        ),
        (
            lambda: configure("transformer", "bigger"),
            "no size of transformer is called 'bigger'; there are tiny, small, base, big",
            "did you mean big?",
        ),
        (lambda: configure("recurrent", size="xl"), "no size of recurrent is called 'xl'; there are small, base", None),
        (
            lambda: configure("transformer", "base", d_modle=3, heads=1),
            "no option of transformer is called 'd_modle', 'heads'; there are n_source, n_target, d_model, n_heads, ",
            "did you mean d_model, n_heads?",
        ),
        (lambda: build("transformer", {"name": 1}), "no option of transformer is called 'name'; there are", None),
        (
            lambda: configure("gpt", "gpt-2"),
            "no size of gpt is called 'gpt-2'; there are tiny, small, gpt1, gpt2, gpt2-medium, llama-tiny, ",
            "did you mean gpt2?",
        ),
        (
            lambda: configure("classifier", "base"),
            "no size of classifier is called 'base'; there are none",
            None,
        ),
        (
            lambda: build("classifier", {"backbone": {"name": "brt"}}),
            "no model is called 'brt'; there are ",
            "did you mean bert?",
        ),
        (
            lambda: build("span-reader", {"backbone": {"name": "transformer"}}),
            "a head cannot stand on 'transformer': it takes a model that reads one text",
            None,
        ),
        (
            lambda: build("classifier", {}),
            "the backbone has no name; given: nothing",
            'write backbone = { name = "bert", size = "tiny" }, for example',
        ),
        (
            lambda: configure("recurrent", cell="lsmt"),
            "recurrent.cell is 'lsmt'; allowed: rnn, gru, lstm",
            None,
        ),
    ],
)
def test_what_is_unknown_is_named_with_what_is_allowed(call, message, hint):
    with pytest.raises(ConfigError) as error:
        call()
    assert str(error.value).startswith(message)
    assert error.value.hint == hint


def test_all_wrong_values_are_told_at_once():
    with pytest.raises(
        ConfigError, match=r"(?s)transformer.positions is 'rotari'; .*rotary.*transformer.d_model = 'wide': "
    ):
        configure("transformer", positions="rotari", d_model="wide")


def test_values_are_brought_to_their_types():
    config = configure("transformer", "small", n_source="11", n_target=13.0, dropout=0, tied="output", n_kv_heads="2")
    assert (config.n_source, config.n_target, config.d_model, config.n_kv_heads) == (11, 13, 256, 2)
    assert isinstance(config.n_target, int)
    assert isinstance(config.dropout, float)
    assert configure("recurrent", input_feeding="true").input_feeding is True


def test_overrides_win_over_sizes_and_sizes_over_defaults():
    model = build("transformer", {"size": "tiny", "d_model": 16, "n_source": 11, "n_target": 13, "tied": "output"})
    assert (model.config.d_model, model.config.n_heads, model.config.n_encoder_layers) == (16, 4, 4)


@pytest.mark.parametrize("name", names())
def test_every_size_is_a_config_of_its_model(name):
    for size, options in entry(name).sizes.items():
        config = configure(name, size)
        assert isinstance(config, entry(name).config)
        assert {option: getattr(config, option) for option in options} == options


@pytest.mark.parametrize("name", names())
def test_every_model_is_of_a_task(name):
    from regard.tasks.registry import task_names, task_spec

    below_a_head = {"recurrent-encoder"}
    assert name in below_a_head or any(name in kind.models for kind in map(task_spec, task_names()))
