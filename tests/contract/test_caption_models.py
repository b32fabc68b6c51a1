"""What every registered captioner promises, in every variant: the same tests over all of them."""

import io
from dataclasses import asdict

import pytest
import torch
import torch.nn.functional as F

import caption_models
from regard.attention import Rows, watch
from regard.decoding import DecodeOptions, EnsembleStepper, decode
from regard.decoding.scoring import force_decode
from regard.errors import ConfigError, ShapeError
from regard.models.interfaces.captions import Captioner
from regard.models.interfaces.text import offers
from regard.models.registry import build

N, S = 13, 9  # words; locations of a 20 × 20 image: ⌈20/8⌉²
LENGTHS = (5, 4, 2, 3)
MARKS = {"bos_id": 2, "eos_id": 3, "pad_id": 0}
every_model = pytest.mark.parametrize(("name", "variant"), caption_models.CASES)
attentive = pytest.mark.parametrize(("name", "variant"), caption_models.ATTENTIVE)


def make(name, variant, dropout=0.0):
    """In double precision, where equal means equal to 1e-10."""
    torch.manual_seed(3)
    model = build(name, caption_models.options_of(name, variant, dropout)).double()
    model.train().encode(images(seed=9))  # batch norms have seen something
    return model.eval()


def images(n=4, seed=0):
    return torch.randint(0, 256, (n, 3, 20, 20), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def captions(fill=0):
    ids = torch.randint(4, N, (4, 5), generator=torch.Generator().manual_seed(1))
    for row, length in zip(ids, LENGTHS, strict=True):
        row[length:] = fill
    return Rows(ids, torch.tensor(LENGTHS))


def real():
    return torch.arange(5) < torch.tensor(LENGTHS)[:, None]


@every_model
def test_shapes_and_interface(name, variant):
    model = make(name, variant)
    assert offers(model, Captioner)
    assert model(images(), captions()).shape == (4, 5, N)
    assert model.encode(images()).shape[:2] == (4, S)
    assert model.words(model.encode(images())).shape == (4, N)
    with pytest.raises(ShapeError, match=r"images are \(batch, 3, 20, 20\), got \(4, 3, 20, 19\)"):
        model(images()[..., 1:], captions())
    with pytest.raises(ShapeError, match="4 captions cannot be shared out to 3 images"):
        model(images(3), captions())


@every_model
def test_bytes_and_numbers_are_the_same_image(name, variant):
    model = make(name, variant)
    torch.testing.assert_close(
        model(images(), captions()), model(images().double() / 255, captions()), rtol=0, atol=1e-10
    )


@every_model
def test_every_parameter_gets_a_gradient(name, variant):
    model = make(name, variant).train()
    logits = model(images(), captions())[real()]
    F.cross_entropy(logits, torch.randint(4, N, (len(logits),))).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 1e-12, parameter_name


@every_model
def test_a_row_of_a_batch_is_the_row_alone(name, variant):
    model, rows = make(name, variant), captions(fill=7)
    together = model(images(), rows)
    for i, length in enumerate(LENGTHS):
        alone = model(images()[i : i + 1], rows.ids[i : i + 1, :length])
        torch.testing.assert_close(alone[0], together[i, :length], rtol=0, atol=1e-10)


@every_model
def test_what_stands_in_the_padding_does_not_matter(name, variant):
    model = make(name, variant)
    assert torch.equal(model(images(), captions())[real()], model(images(), captions(fill=9))[real()])


@every_model
def test_captions_of_one_image_are_told_as_if_each_had_its_own(name, variant):
    model, rows = make(name, variant), captions()
    several = model.tell(model.encode(images(2)), rows)
    single = model.tell(model.encode(images(2).repeat_interleave(2, 0)), rows)
    torch.testing.assert_close(several[real()], single[real()], rtol=0, atol=1e-10)


@every_model
def test_the_image_matters_and_so_does_where_things_are(name, variant):
    model, rows = make(name, variant), captions()
    here = model(images(), rows)
    assert not torch.allclose(here, model(images(seed=5), rows), atol=1e-4)
    assert not torch.allclose(here, model(images().flip(-1), rows), atol=1e-7)


@every_model
def test_saved_and_loaded_is_the_same(name, variant):
    model, file = make(name, variant), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = build(name, asdict(model.config)).double().eval()
    assert not torch.equal(again(images(), captions()), model(images(), captions()))
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(again(images(), captions()), model(images(), captions()))


@every_model
def test_evaluation_is_deterministic_and_training_drops_out(name, variant):
    model = make(name, variant, dropout=0.5)
    assert torch.equal(model(images(), captions()), model(images(), captions()))
    model.train()
    assert not torch.equal(model(images(), captions()), model(images(), captions()))


@attentive
def test_watching_changes_no_bit_and_sees_distributions_over_locations(name, variant):
    model = make(name, variant)
    unwatched = model(images(), captions())
    with watch(model) as seen:
        assert torch.equal(model(images(), captions()), unwatched)
    for sight in seen:
        torch.testing.assert_close(sight.weights.sum(-1), torch.ones_like(sight.weights[..., 0]))
        assert sight.weights.shape[-1] == (5 if sight.kind == "masked" else S)


@every_model
def test_step_by_step_is_all_at_once(name, variant):
    model, rows = make(name, variant), captions()
    targets = [rows.ids[i, 1:length].tolist() for i, length in enumerate(LENGTHS)]
    fed = Rows(torch.cat((torch.full((4, 1), 2), rows.ids[:, 1:]), 1), rows.lengths)
    whole = model(images(), fed).log_softmax(-1).detach()
    stepped = force_decode(model.start(images()), targets, **MARKS)
    for i, row in enumerate(stepped):
        wanted = [float(whole[i, t, token]) for t, token in enumerate([*targets[i], 3])]
        assert row == pytest.approx(wanted, abs=1e-5)


@every_model
@pytest.mark.parametrize("options", [DecodeOptions(max_length=7), DecodeOptions(strategy="beam", beam=3, max_length=7)])
def test_decoding_does_not_feel_the_neighbours(name, variant, options):
    model = make(name, variant)
    together = decode(model.start(images()), n_rows=4, options=options, **MARKS)
    for i in range(4):
        alone = decode(model.start(images()[i : i + 1]), n_rows=1, options=options, row_keys=[i], **MARKS)
        assert alone[0][0].tokens == together[i][0].tokens
        assert alone[0][0].score == pytest.approx(together[i][0].score, abs=1e-6)


@attentive
def test_watched_steps_offer_attention_and_beams_keep_their_own(name, variant):
    model = make(name, variant)
    stepper, again = model.start(images(), watched=True), model.start(images(), watched=True)
    stepper.step(torch.full((4,), 2))
    weights = stepper.attention()
    assert weights.shape == (4, S)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, dtype=torch.double))
    rows = torch.tensor([0, 0, 2, 2])
    again.select(rows, same_source=False)
    again.step(torch.full((4,), 2))
    torch.testing.assert_close(again.attention(), weights[rows])
    assert model.start(images()).attention() is None


def test_two_models_vote():
    one, other = make("captioner", "additive"), make("transformer-captioner", "plain")
    stepper = EnsembleStepper([one.start(images()), other.start(images())])
    mean = stepper.step(torch.full((4,), 2)).exp()
    parts = [model.start(images()).step(torch.full((4,), 2)).softmax(-1) for model in (one, other)]
    torch.testing.assert_close(mean.double(), (parts[0] + parts[1]) / 2, rtol=1e-4, atol=1e-6)


def test_without_attention_the_mean_of_the_locations_is_what_is_seen():
    model = make("captioner", "none")
    locations = model.encode(images())
    shuffled = locations[:, torch.randperm(S)]
    torch.testing.assert_close(model.tell(locations, captions()), model.tell(shuffled, captions()), rtol=0, atol=1e-10)
    assert not any(name.startswith("attention") for name, _ in model.named_parameters())


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("captioner", {"attention": "bahdanau"}, "attention"),
        ("captioner", {"widths": (4, 6)}, r"widths \[4, 6\] with 1 blocks make no network"),
        ("captioner", {"dropout": 1.0}, "dropout is 1"),
        ("captioner", {"feature_dropout": -0.1}, "feature_dropout is "),
        ("captioner", {"n_target": 0}, "n_target is 0, at least 1"),
        ("captioner", {"d_hidden": 0}, "d_hidden is 0, at least 1"),
        ("captioner", {"image_size": 8}, "image_size is at least 9"),
        ("captioner", {"norm": "layer"}, "norm"),
        ("transformer-captioner", {"n_target": 0}, "n_target is 0, at least 1"),
        ("transformer-captioner", {"n_decoder_layers": 0}, "n_decoder_layers is 0, at least 1"),
    ],
)
def test_configs_that_make_no_model(name, wrong, message):
    variant = next(iter(caption_models.VARIANTS[name]))
    with pytest.raises(ConfigError, match=message):
        build(name, caption_models.options_of(name, variant) | wrong)


def test_the_captioner_begins_and_goes_on_by_its_equations():
    """s₀, c₀ = tanh(W gist(mean)), then z = β mean, an LSTM and the output: written out, gate by gate."""
    model = make("captioner", "none")
    with torch.no_grad():
        model.first_state.weight.mul_(20)  # so that the tanh bends what it is given
    mean = model.encode(images(1))[0].mean(0)
    gist = model.gist.weight @ mean + model.gist.bias
    state, memory = (model.first_state.weight @ gist + model.first_state.bias).tanh().chunk(2)
    assert state.abs().max() > 0.5
    begun = model.begin(model.encode(images(1)))
    torch.testing.assert_close(begun.hidden[0], state)
    torch.testing.assert_close(begun.memory[0], memory)
    expected, ids = [], captions().ids[:1]
    for token in ids[0]:
        word = model.embedding(token[None])[0]
        context = mean * (model.gate.weight @ state + model.gate.bias).sigmoid()
        inputs, cell = torch.cat((word, context)), model.cell
        gates = cell.weight_ih @ inputs + cell.bias_ih + cell.weight_hh @ state + cell.bias_hh
        enter, forget, new, out = gates.chunk(4)
        memory = forget.sigmoid() * memory + enter.sigmoid() * new.tanh()
        state = out.sigmoid() * memory.tanh()
        hidden = model.combine.weight @ torch.cat((word, state, context)) + model.combine.bias
        expected.append(model.embedding.weight @ hidden)
    torch.testing.assert_close(model(images(1), Rows(ids, torch.tensor([5])))[0], torch.stack(expected))
