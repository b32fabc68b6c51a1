"""The recurrent encoder–decoder against its equations, written out step by step, and what it refuses."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import Rows, watch
from regard.errors import ConfigError, ShapeError, UsageError
from regard.layers.state_attention import StateAttention, score_of
from regard.models.recurrent import Bridge, RecurrentConfig, RecurrentSeq2Seq

SCORES = ("dot", "scaled_dot", "general", "additive", "mlp")
CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}


def tiny(**options):
    return RecurrentConfig(
        **{"n_source": 11, "n_target": 13, "d_embedding": 6, "d_hidden": 8, "dropout": 0.0, **options}
    )


def make(**options):
    return RecurrentSeq2Seq(tiny(**options)).double().eval()


def cell_of(layers, suffix):
    """One layer of a torch recurrence as a cell of its own."""
    weights = {name: getattr(layers, f"{name}_{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    cell = CELLS[type(layers).__name__.lower()](weights["weight_ih"].shape[1], layers.hidden_size).double()
    cell.load_state_dict(weights)
    return cell


def run_cell(cell, inputs, state):
    """One step: the output (B, D) and the state as a list of its parts."""
    state = list(cell(inputs, tuple(state))) if isinstance(cell, nn.LSTMCell) else [cell(inputs, state[0])]
    return state[0], state


def score_by_hand(model, s, h):
    """One decoder state (D,) with one encoder state (Dm,)."""
    name, score = model.config.attention, model.attention.score
    if name in ("dot", "scaled_dot"):
        return s @ h / (s.shape[0] ** 0.5 if name == "scaled_dot" else 1)
    if name == "general":
        return s @ (score.weight.weight @ h)
    hidden = score.query.weight @ s + score.query.bias + score.key.weight @ h
    hidden = hidden.tanh() if name == "additive" else hidden.relu()
    return (score.out.weight @ hidden)[0]


def context_by_hand(model, s, memory):
    scores = torch.stack([score_by_hand(model, s, h) for h in memory])
    weights = scores.exp() / scores.exp().sum()
    return sum(w * h for w, h in zip(weights, memory, strict=True))


def encode_by_hand(model, source):
    """One source (S,) → its states (S, Dm) and the decoder's first state, a list of parts (1, D) for one layer."""
    layers, config = model.encoder.layers, model.config
    embedded = model.source_embedding.weight[source] * config.d_embedding**0.5
    n_parts = 2 if config.cell == "lstm" else 1
    outputs, finals = [], []
    for suffix, order in (("l0", 1), ("l0_reverse", -1))[: 2 if config.bidirectional else 1]:
        cell, state, seen = cell_of(layers, suffix), [torch.zeros(1, config.d_hidden).double()] * n_parts, []
        for vector in embedded if order == 1 else embedded.flip(0):
            output, state = run_cell(cell, vector[None], state)
            seen.append(output[0])
        outputs.append(torch.stack(seen[::order]))
        finals.append(state)
    memory = torch.cat(outputs, -1)
    state = finals[0]
    if config.bidirectional:
        state = [
            layer(torch.cat(parts, -1))
            for layer, parts in zip(model.bridge.layers, zip(*finals, strict=True), strict=True)
        ]
        state[0] = state[0].tanh()
    return (memory if model.reduce is None else memory @ model.reduce.weight.T), state


def logits_by_hand(model, source, target):
    """One layer, one sentence, one step after the other: (T, V)."""
    config, cell = model.config, cell_of(model.decoder.layers, "l0")
    memory, state = encode_by_hand(model, source)
    vector, logits = torch.zeros(config.d_hidden).double(), []
    for token in target:
        inputs = model.target_embedding.weight[token] * config.d_embedding**0.5
        if config.input_feeding:
            inputs = torch.cat((inputs, vector))
        output, state = run_cell(cell, inputs[None], state)
        vector = output[0]
        if config.attention != "none":
            context = context_by_hand(model, vector, memory)
            vector = torch.tanh(model.combine.weight @ torch.cat((context, vector)) + model.combine.bias)
        last = vector if model.project is None else model.project.weight @ vector
        logits.append((model.target_embedding.weight if model.output is None else model.output.weight) @ last)
    return torch.stack(logits)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("attention", "input_feeding"), [("none", False), *product(SCORES, (False, True))])
@torch.no_grad()
def test_equals_its_equations(cell, bidirectional, attention, input_feeding):
    model = make(
        cell=cell, bidirectional=bidirectional, attention=attention, input_feeding=input_feeding, n_layers=1,
        tied="none" if cell == "rnn" else "output",
    )  # fmt: skip
    source, lengths, target = torch.randint(1, 11, (2, 5)), torch.tensor([3, 5]), torch.randint(1, 13, (2, 4))
    logits = model(Rows(source, lengths), target)
    for row, length in enumerate(lengths):
        by_hand = logits_by_hand(model, source[row, :length], target[row])
        torch.testing.assert_close(logits[row], by_hand, rtol=0, atol=1e-10)


def test_without_attention_the_last_state_is_all_there_is():
    model, target = make(attention="none"), torch.randint(1, 13, (2, 4))
    one, other = (model.begin(torch.randint(1, 11, (2, length))) for length in (5, 7))
    embedded = model.target_embedding(target)
    assert not torch.equal(model.advance(embedded, one), model.advance(embedded, other))
    one.state = other.state
    assert torch.equal(model.advance(embedded, one), model.advance(embedded, other))


def test_fed_models_are_watched_step_by_step_and_others_at_once():
    source, target = torch.randint(1, 11, (2, 5)), torch.randint(1, 13, (2, 4))
    for input_feeding, shapes in ((False, [(2, 1, 4, 5)]), (True, [(2, 1, 1, 5)] * 4)):
        with watch(model := make(input_feeding=input_feeding)) as seen:
            model(source, target)
        assert [tuple(sight.weights.shape) for sight in seen] == shapes
        assert {(sight.kind, sight.name) for sight in seen} == {("cross", "attention")}
    with pytest.raises(UsageError, match="nothing to watch"), watch(make(attention="none")):
        pass


@pytest.mark.parametrize("parts", [1, 2])
def test_the_bridge_squashes_hidden_states_and_leaves_cells_free(parts):
    bridge, state = Bridge(3, n_layers=2, n_parts=parts), 10 * torch.randn(parts, 4, 5, 3)
    first = bridge(state)
    assert first.shape == (parts, 2, 5, 3)
    assert first[0].abs().max() <= 1
    layer_1 = torch.cat((state[0, 2], state[0, 3]), -1)
    torch.testing.assert_close(first[0, 1], bridge.layers[1](layer_1).tanh())
    if parts == 2:
        assert first[1].abs().max() > 1
        torch.testing.assert_close(first[1, 0], bridge.layers[2](torch.cat((state[1, 0], state[1, 1]), -1)))


def test_widths():
    assert make(attention="general").encode(torch.ones(1, 2, dtype=torch.long)).shape == (1, 2, 16)
    assert make(attention="dot").encode(torch.ones(1, 2, dtype=torch.long)).shape == (1, 2, 8)
    assert make(attention="dot", bidirectional=False).reduce is None
    assert make(attention="dot", n_heads=2).reduce is None
    assert make(d_embedding=8).project is None
    assert make(tied="none").project is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_source": 0}, "n_source is 0, at least 1"),
        ({"n_heads": 0}, "n_heads is 0, at least 1"),
        ({"n_heads": 3}, "d_hidden = 8 cannot be divided into n_heads = 3"),
        ({"cell": "lsmt"}, "cell is 'lsmt'; allowed: rnn, gru, lstm"),
        ({"attention": "luong"}, "attention is 'luong'; allowed: none, dot, scaled_dot, general, additive, mlp"),
        ({"tied": "both"}, "tied is 'both'; allowed: all, output, none"),
        ({"tied": "all"}, "one shared embedding needs one vocabulary, got 11 source and 13 target ids"),
        ({"dropout": 1.0}, "dropout is 1.0, from 0 to below 1"),
        ({"attention": "none", "input_feeding": True}, "are about attention, and attention is 'none'"),
        ({"attention": "none", "n_heads": 2}, "are about attention, and attention is 'none'"),
    ],
)
def test_configs_that_cannot_be(options, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        RecurrentSeq2Seq(tiny(**options))


def test_scores_that_cannot_be():
    with pytest.raises(ConfigError, match="dot score compares equal widths, not queries of 4 with keys of 8") as error:
        score_of("dot", 4, d_key=8)
    assert error.value.hint == "choose one of general, additive, mlp"
    with pytest.raises(ConfigError, match="no score is called 'none'; there are"):
        StateAttention(score_of("none", 4))


def test_inputs_that_cannot_be():
    model, ids = make(), torch.ones(2, 3, dtype=torch.long)
    packed = Rows.packed(torch.ones(4, dtype=torch.long), torch.tensor([3, 1]), longest=3)
    with pytest.raises(ShapeError, match="the source is a packed row") as error:
        model(packed, ids)
    assert error.value.hint == "pass Rows(ids, lengths)"
    with pytest.raises(ShapeError, match="the target is a packed row"):
        model(ids, packed)
    with pytest.raises(ShapeError, match="the source is a packed row"):
        model.start(packed)
    with pytest.raises(ShapeError, match="every source holds at least one token"):
        model(Rows(ids, torch.tensor([2, 0])), ids)
    with pytest.raises(ShapeError, match="every source holds at least one token"):
        model.encode(ids[:, :0])
    with pytest.raises(ShapeError, match="a state of 2 rows does not fit inputs of 1 rows"):
        model(ids, ids[:1])


@pytest.mark.parametrize("options", [{"attention": "dot"}, {"attention": "additive", "input_feeding": True}])
def test_it_learns_to_reverse_a_few_sequences(options):
    model = RecurrentSeq2Seq(tiny(n_target=11, d_embedding=24, d_hidden=24, n_layers=1, cell="gru", **options))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    source = torch.randint(2, 11, (24, 5))
    target = torch.cat((torch.ones(24, 1, dtype=torch.long), source.flip(1)), 1)
    for _ in range(120):
        loss = F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.2


@pytest.mark.parametrize("input_feeding", [False, True])
def test_dropout_acts_before_the_output_and_not_on_what_is_fed_back(input_feeding):
    model = RecurrentSeq2Seq(tiny(dropout=0.5, tied="none", input_feeding=input_feeding, d_hidden=64)).train()
    source, target = torch.randint(1, 11, (8, 5)), torch.randint(1, 13, (8, 4))
    dropped = (model.hidden(source, target) == 0).double().mean()
    assert 0.4 < dropped < 0.6
    assert (model.advance(model.target_embedding(target[:, :1]), model.begin(source)) != 0).all()
