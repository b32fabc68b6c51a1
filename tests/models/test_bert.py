"""BERT as a model: its heads, what padding and neighbours may not change, and what it refuses. Parity is elsewhere."""

import pytest
import torch
from torch import nn

from regard.attention import Rows
from regard.errors import ConfigError, ShapeError, UsageError
from regard.models.bert import SIZES, Bert, BertConfig
from regard.models.registry import build, configure

TINY = {"n_tokens": 23, "d_model": 12, "n_heads": 3, "d_feedforward": 20, "n_layers": 2, "n_positions": 16}


def tiny(**options):
    """Biases and norms start as zeros and ones; random ones make mistakes visible."""
    model = Bert(BertConfig(**{**TINY, **options})).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


@pytest.fixture
def ids():
    return torch.randint(1, 23, (3, 9))


def test_shapes_and_the_parts_of_the_output(ids):
    model = tiny()
    encoded = model.encode(ids, segments=torch.ones_like(ids))
    assert encoded.shape == (3, 9, 12)
    assert model.pooled(encoded).shape == (3, 12)
    assert model.next_sentence(encoded).shape == (3, 2)
    logits = model(ids, segments=torch.ones_like(ids))
    assert logits.shape == (3, 9, 23)
    by_hand = model.mlm_hidden(encoded) @ model.output_weight.T + model.output_bias
    torch.testing.assert_close(logits, by_hand)


def test_the_masked_positions_alone_give_the_same(ids):
    model, places = tiny(), (torch.tensor([0, 2, 2]), torch.tensor([1, 0, 8]))
    some = model.unembed(model.mlm_hidden(model.encode(ids)[places]))
    torch.testing.assert_close(some, model(ids)[places])


def test_every_parameter_gets_a_gradient(ids):
    for options in ({}, {"tied": False, "n_segments": 3, "activation": "silu"}, {"nsp": False, "pooler": False}):
        model = tiny(**options).train()
        loss = model(ids, segments=ids % 3 if options.get("n_segments") == 3 else ids % 2).square().mean()
        if model.judge is not None:
            loss = loss + model.next_sentence(model.encode(ids)).square().mean()
        loss.backward()
        without = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
        assert without == []


def test_what_stands_in_the_padding_does_not_matter(ids):
    model, lengths = tiny(), torch.tensor([9, 4, 1])
    other = ids.clone()
    for row, length in enumerate(lengths):
        other[row, length:] = torch.randint(1, 23, (9 - int(length),))
    one, two = model(Rows(ids, lengths)), model(Rows(other, lengths))
    for row, length in enumerate(lengths):
        torch.testing.assert_close(one[row, :length], two[row, :length], rtol=0, atol=0)
        alone = model(ids[row : row + 1, :length])
        torch.testing.assert_close(one[row : row + 1, :length], alone, rtol=0, atol=1e-5)
    assert not torch.allclose(model(ids)[1, :4], one[1, :4])


def test_packed_documents_equal_each_alone(ids):
    model, texts = tiny(), [ids[0, :5], ids[1, :1], ids[2]]
    lengths = torch.tensor([5, 1, 9])
    rows = Rows.packed(torch.cat(texts), lengths, longest=9)
    segments = rows.ids % 2
    encoded = model.encode(rows, segments=segments)
    alone = [model.encode(text[None], segments=text[None] % 2) for text in texts]
    torch.testing.assert_close(encoded, torch.cat(alone, 1), rtol=0, atol=1e-5)
    pairs = torch.cat([model.next_sentence(one) for one in alone])
    torch.testing.assert_close(model.next_sentence(encoded, rows), pairs, rtol=0, atol=1e-5)


def test_both_sides_positions_and_segments_matter(ids):
    model = tiny()
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] % 22) + 1
    assert not torch.allclose(model.encode(ids)[:, 0], model.encode(changed)[:, 0])
    same = model.encode(torch.full((1, 3), 7))
    assert not torch.allclose(same[0, 0], same[0, 1])
    zeros = torch.zeros_like(ids)
    torch.testing.assert_close(model.encode(ids), model.encode(ids, segments=zeros))
    assert not torch.allclose(model.encode(ids), model.encode(ids, segments=zeros + 1))


def test_the_graph_has_no_breaks(ids):
    model = tiny(nsp=False, pooler=False)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(Rows(ids, torch.tensor([9, 4, 1]))), model(Rows(ids, torch.tensor([9, 4, 1]))))


def test_heads_that_are_absent(ids):
    model = tiny(mlm=False, nsp=False, pooler=False, n_segments=0)
    encoded = model.encode(ids)
    assert model.output_bias is None
    for call, option in ((model, "mlm"), (model.pooled, "pooler"), (model.next_sentence, "nsp")):
        with pytest.raises(UsageError, match="this model has no head that") as error:
            call(ids if call is model else encoded)
        assert option in error.value.hint
    with pytest.raises(UsageError, match="this model has no segments"):
        model.encode(ids, segments=ids)


def test_refusals(ids):
    with pytest.raises(ConfigError, match="n_tokens is 0, at least 1"):
        Bert(BertConfig())
    with pytest.raises(ConfigError, match="stands on the pooler, which is off"):
        tiny(pooler=False)
    with pytest.raises(ConfigError, match="activation is 'mish'; allowed: relu, gelu"):
        tiny(activation="mish")
    with pytest.raises(ConfigError, match="n_segments is -1, at least 0"):
        tiny(n_segments=-1)
    with pytest.raises(ShapeError, match="17 positions are more than the 16 learned ones"):
        tiny().encode(torch.ones(1, 17, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"segments \(3, 2\) do not fit ids \(3, 9\)"):
        tiny().encode(ids, segments=ids[:, :2])


def test_the_published_sizes():
    """Devlin et al. (2019) count 110M and 340M; these are the parameters of the published files."""
    counts = {"base": 109_482_240, "large": 335_141_888}
    for size, count in counts.items():
        with torch.device("meta"):
            model = build("bert", {"size": size, "n_tokens": 30522, "mlm": False, "nsp": False})
        assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert set(SIZES) == {"tiny", "small", "minilm", "base", "large"}
    assert configure("bert", "minilm", n_tokens=9).n_heads == 12
