"""A recurrent language model: it reads forward only, and writing step by step is the same as reading at once."""

from dataclasses import asdict

import pytest
import torch

from regard.attention import Rows
from regard.errors import ConfigError, ShapeError
from regard.models.interfaces.text import LanguageModel, Seq2SeqStepper, offers
from regard.models.recurrent_lm import RecurrentLM, RecurrentLMConfig
from regard.models.registry import build, configure

V = 23
CELLS = ("lstm", "gru", "rnn")


def make(cell="lstm", **options):
    """In double precision, where equal means equal to 1e-10."""
    tiny = {"n_tokens": V, "cell": cell, "d_model": 8, "d_hidden": 12, "n_layers": 2, "dropout": 0.0}
    return RecurrentLM(RecurrentLMConfig(**{**tiny, **options})).double().eval()


def ragged(*lengths):
    return Rows(torch.randint(1, V, (len(lengths), max(lengths))), torch.tensor(lengths))


def test_it_is_a_language_model_with_a_stepper():
    model = make()
    ids = torch.randint(1, V, (3, 7))
    assert offers(model, LanguageModel)
    assert isinstance(model.start(ids), Seq2SeqStepper)
    assert model(ids).shape == (3, 7, V)
    assert torch.equal(model.unembed(model.hidden(ids)), model(ids))
    assert torch.equal(model.hidden(ids) @ model.output_weight.T, model(ids))
    assert torch.equal(model.encode(ids), model.hidden(ids))


@pytest.mark.parametrize("cell", CELLS)
def test_what_comes_later_changes_nothing(cell):
    model, ids = make(cell), torch.randint(1, V, (2, 9))
    changed = ids.clone()
    changed[:, 5:] = torch.randint(1, V, (2, 4))
    assert torch.equal(model(ids)[:, :5], model(changed)[:, :5])
    assert not torch.allclose(model(ids)[:, 5:], model(changed)[:, 5:])


@pytest.mark.parametrize("cell", CELLS)
def test_steps_are_the_whole_and_do_not_depend_on_neighbours(cell):
    model, rows = make(cell), ragged(4, 1, 6)
    stepper = model.start(rows)
    tokens = rows.ids.gather(1, rows.lengths[:, None] - 1)[:, 0]
    written = [row[:length].tolist() for row, length in zip(rows.ids, rows.lengths, strict=True)]
    for step in range(4):
        logits = stepper.step(tokens)
        for i, row in enumerate(written):
            torch.testing.assert_close(logits[i], model(torch.tensor([row]))[0, -1], rtol=0, atol=1e-10)
        tokens = torch.randint(1, V, (3,))
        written = [[*row, int(token)] for row, token in zip(written, tokens, strict=True)]
        if step == 1:  # the rows change places
            order = torch.tensor([2, 0, 0])
            stepper.select(order, same_source=False)
            tokens, written = tokens[order], [written[i] for i in order]


def test_every_parameter_gets_a_gradient_and_training_drops_out():
    model = make(dropout=0.5).train()
    model(torch.randint(1, V, (3, 7))).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())
    ids = torch.randint(1, V, (2, 4))
    assert not torch.equal(model(ids), model(ids))


def test_it_is_registered_and_its_options_make_it_again():
    config = configure("recurrent-lm", "tiny", n_tokens=V)
    assert (config.d_model, config.d_hidden, config.n_layers) == (128, 256, 1)
    assert build("recurrent-lm", asdict(config)).config == config
    large = build("recurrent-lm", {"size": "gpt1", "n_tokens": 10})
    assert large.layers.layers.hidden_size == 2048


def test_it_stands_under_a_head():
    section = {"name": "recurrent-lm", "n_tokens": V, "d_model": 8, "d_hidden": 12, "dropout": 0.0}
    model = build("classifier", {"backbone": section, "pooling": "last", "n_outputs": 3}).double().eval()
    rows = ragged(5, 2)
    torch.testing.assert_close(model(rows)[1], model(rows.ids[1:, :2])[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "sru"}, "cell is 'sru'; allowed: rnn, gru, lstm"),
        ({"n_layers": 0}, "n_layers is 0, at least 1"),
        ({"dropout": 1.0}, "dropout is 1.0, from 0 to below 1"),
    ],
)
def test_what_makes_no_model_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_packed_rows_and_empty_prompts_are_refused():
    packed = Rows.packed(torch.ones(1, 6, dtype=torch.int64), torch.tensor([4, 2]), longest=4)
    with pytest.raises(ShapeError, match="a recurrent model reads padded rows"):
        make()(packed)
    with pytest.raises(ShapeError, match="the prompts' lengths are 0 to 2; allowed are 1 to 2"):
        make().start(Rows(torch.ones(2, 2, dtype=torch.int64), torch.tensor([0, 2])))
