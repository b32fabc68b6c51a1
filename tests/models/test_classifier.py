"""Heads on backbones: right shapes and names, padding that does not matter, errors that say what is allowed."""

import pytest
import torch
import torch.nn.functional as F

from regard.attention import Rows, watch
from regard.config.toml import write_toml
from regard.errors import ConfigError, ShapeError
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.registry import build
from regard.models.span_reader import SpanReader

BACKBONES = {
    "recurrent-encoder": {"n_tokens": 19, "d_embedding": 6, "d_hidden": 4, "dropout": 0.0},
    "bert": {"n_tokens": 19, "d_model": 8, "n_heads": 2, "d_feedforward": 12, "n_layers": 2, "n_positions": 16,
             "dropout": 0.0, "attention_dropout": 0.0, "mlm": False, "nsp": False},
    "gpt": {"n_tokens": 19, "d_model": 8, "n_heads": 2, "n_layers": 2, "n_positions": 16, "dropout": 0.0},
}  # fmt: skip
HEADS = [
    ("recurrent-encoder", "attention", "none"),
    ("recurrent-encoder", "mean", "tanh"),
    ("bert", "first", "pooler"),
    ("bert", "first", "relu"),
    ("bert", "attention", "none"),
    ("gpt", "last", "none"),
    ("gpt", "mean", "tanh"),
]
LENGTHS = torch.tensor([5, 2, 7])
every_head = pytest.mark.parametrize(("backbone", "pooling", "transform"), HEADS)


def make(backbone: str, pooling: str = "mean", transform: str = "none", **options) -> Classifier:
    section = {"name": backbone} | BACKBONES[backbone] | options.pop("inner", {})
    defaults = {"n_outputs": 3, "dropout": 0.0, "pooling": pooling, "transform": transform}
    model = build("classifier", {"backbone": section} | defaults | options)
    assert isinstance(model, Classifier)
    return model.double().eval()


def batch(fill: int = 0) -> tuple[Rows, torch.Tensor]:
    ids = torch.randint(1, 19, (3, 7), generator=torch.Generator().manual_seed(1))
    segments = torch.ones_like(ids)
    segments[:, :2] = 0
    for row, length in zip(ids, LENGTHS.tolist(), strict=True):
        row[length:] = fill
    return Rows(ids, LENGTHS), segments


@every_head
def test_padding_and_neighbours_do_not_matter(backbone: str, pooling: str, transform: str) -> None:
    model = make(backbone, pooling, transform)
    rows, segments = batch()
    scores = model(rows, segments=segments)
    assert scores.shape == (3, 3)
    torch.testing.assert_close(model(batch(fill=7)[0], segments=segments), scores, rtol=0, atol=1e-10)
    for i, length in enumerate(LENGTHS.tolist()):
        alone = model(Rows(rows.ids[i : i + 1, :length]), segments=segments[i : i + 1, :length])
        torch.testing.assert_close(alone[0], scores[i], rtol=0, atol=1e-10)
    assert len({tuple(row) for row in scores.tolist()}) == 3


@pytest.mark.parametrize(("backbone", "pooling", "transform"), [h for h in HEADS if h[0] != "recurrent-encoder"])
def test_packed_documents_get_the_scores_of_padded_rows(backbone: str, pooling: str, transform: str) -> None:
    model = make(backbone, pooling, transform)
    rows, segments = batch()
    parts = [(rows.ids[i, :n], segments[i, :n]) for i, n in enumerate(LENGTHS.tolist())]
    packed = Rows.packed(torch.cat([ids for ids, _ in parts]), torch.tensor([*LENGTHS, 0]), longest=7)
    scores = model(packed, segments=torch.cat([s for _, s in parts])[None])
    torch.testing.assert_close(scores[:3], model(rows, segments=segments), rtol=0, atol=1e-10)


@every_head
def test_everything_learns(backbone: str, pooling: str, transform: str) -> None:
    model = make(backbone, pooling, transform)
    rows, segments = batch()
    F.cross_entropy(model(rows, segments=segments), torch.tensor([0, 1, 2])).backward()
    unused = "backbone.pooler" if transform != "pooler" else "nothing"
    still = [name for name, p in model.named_parameters() if p.grad is None and not name.startswith(unused)]
    assert still == []


def test_heads_are_those_of_bert_and_distilbert() -> None:
    rows, segments = batch()
    bert = make("bert", "first", "pooler")
    encoded = bert.encode(rows, segments=segments)
    expected = bert.output(torch.tanh(bert.backbone.pooler(encoded[:, 0])))
    torch.testing.assert_close(bert(rows, segments=segments), expected)
    distil = make("bert", "first", "relu", inner={"n_segments": 0, "pooler": False})
    first = distil.encode(rows)[:, 0]
    torch.testing.assert_close(distil(rows), distil.output(F.relu(distil.transform(first))))
    assert {"transform.weight", "transform.bias", "output.weight", "output.bias"} <= set(distil.state_dict())


def test_segments_reach_bert_and_nobody_else() -> None:
    rows, segments = batch()
    for backbone, differs in (("bert", True), ("gpt", False), ("recurrent-encoder", False)):
        model = make(backbone, "mean")
        same = torch.allclose(model(rows, segments=segments), model(rows))
        assert same is not differs, backbone


def test_the_lectures_classifier_is_a_config() -> None:
    """LSTM, attention between its states, a mean, one number: 209,701 parameters, as Keras counts them."""
    section = {"name": "recurrent-encoder", "n_tokens": 2000, "d_embedding": 100, "d_hidden": 20, "attention": "dot",
               "bidirectional": False}  # fmt: skip
    model = build("classifier", {"backbone": section, "n_outputs": 1, "pooling": "mean"}).eval()
    biases_keras_has_not = 4 * 20
    assert sum(p.numel() for p in model.parameters()) - biases_keras_has_not == 2000 * 100 + 9680 + 21 == 209_701
    rows, _ = batch()
    with watch(model) as seen:
        assert model(rows).shape == (3, 1)
    weights = seen.only(kind="self").weights
    torch.testing.assert_close(weights[1, 0, :, :2].sum(-1), torch.ones(7))
    assert float(weights[1, 0, :, 2:].sum()) == 0


def test_attention_on_top_can_be_watched() -> None:
    model = make("recurrent-encoder", "attention", score="additive")
    with watch(model, kinds=["cross"]) as seen:
        model(batch()[0])
    weights = seen.only().weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 1, dtype=torch.float64))


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_span_reader_scores_every_token(backbone: str) -> None:
    model = build("span-reader", {"backbone": {"name": backbone} | BACKBONES[backbone], "dropout": 0.0})
    assert isinstance(model, SpanReader)
    model = model.double().eval()
    rows, segments = batch()
    start, end = model(rows, segments=segments)
    assert start.shape == end.shape == (3, 7)
    alone = model(Rows(rows.ids[1:2, :2]), segments=segments[1:2, :2])
    torch.testing.assert_close(alone.start[0], start[1, :2], rtol=0, atol=1e-10)
    torch.testing.assert_close(alone.end[0], end[1, :2], rtol=0, atol=1e-10)
    assert not torch.allclose(start, end)


def test_a_config_fits_into_toml() -> None:
    import tomllib

    options = {"name": "classifier", "n_outputs": 2, "backbone": {"name": "bert", "size": "tiny", "mlm": False}}
    assert tomllib.loads(write_toml({"model": options}))["model"] == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the backbone has no name; given: nothing"),
        ({"backbone": {"size": "tiny"}}, "the backbone has no name; given: {'size': 'tiny'}"),
        ({"backbone": {"name": "brt"}}, "no model is called 'brt'; there are "),
        (
            {"backbone": {"name": "transformer"}},
            "a head cannot stand on 'transformer': it takes a model that reads one",
        ),
        ({"backbone": {"name": "classifier"}}, "a head cannot stand on 'classifier'"),
        ({"backbone": {"name": "gpt", "n_heds": 2}}, "no option of gpt is called 'n_heds'"),
        ({"pooling": "max"}, "classifier.pooling is 'max'; allowed: first, last, mean, attention"),
        ({"n_outputs": 0}, "n_outputs is 0, at least 1"),
        (
            {"transform": "pooler", "pooling": "last"},
            "transform \"pooler\" reads the first token, and pooling is 'last'",
        ),
        (
            {"transform": "pooler", "backbone": {"name": "recurrent-encoder"} | BACKBONES["recurrent-encoder"]},
            'transform "pooler" is the backbone\'s own, and this recurrent-encoder has none',
        ),
        (
            {"transform": "pooler", "backbone": {"name": "bert"} | BACKBONES["bert"] | {"pooler": False}},
            'transform "pooler" is the backbone\'s own, and this bert has none',
        ),
        ({"backbone": {"name": "recurrent-encoder", "n_tokens": 3, "d_hidden": 0}}, "d_hidden is 0, at least 1"),
    ],
)
def test_what_does_not_fit_is_said(options: dict, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        build("classifier", options)
    assert message in str(error.value)


def test_a_config_made_by_hand_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"pooling is 'max'; allowed: first, last, mean, attention"):
        Classifier(ClassifierConfig(backbone={"name": "bert"}, pooling="max"))  # type: ignore[arg-type]


def test_a_recurrent_encoder_reads_padded_rows_with_something_in_them() -> None:
    model = make("recurrent-encoder")
    with pytest.raises(ShapeError, match="this is a packed row"):
        model(Rows.packed(torch.ones(4, dtype=torch.long), torch.tensor([2, 2]), longest=2))
    with pytest.raises(ShapeError, match="here is an empty one"):
        model(Rows(torch.ones(2, 3, dtype=torch.long), torch.tensor([3, 0])))
