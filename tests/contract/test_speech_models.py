"""What every registered model of speech promises, in every variant: the same tests over all of them."""

import io
from dataclasses import asdict

import pytest
import torch
import torch.nn.functional as F

import speech_models
from regard.attention import Rows, watch
from regard.errors import ConfigError, ShapeError
from regard.models.interfaces.speech import Frames, SpeechModel
from regard.models.interfaces.text import Seq2SeqStepper
from regard.models.registry import build

LENGTHS, TARGET_LENGTHS = (11, 6, 1, 8), (5, 4, 2, 3)
EXACT = {"rtol": 0.0, "atol": 1e-10}
every_model = pytest.mark.parametrize(("name", "variant"), speech_models.CASES)


def make(name, variant, dropout=0.0):
    """In double precision, where equal means equal to 1e-10."""
    torch.manual_seed(3)
    return build(name, speech_models.options_of(name, variant, dropout)).double().eval()


def heard_frames(fill=0.0):
    """Rows of different lengths; `fill` stands behind their ends."""
    torch.manual_seed(1)
    values = torch.randn(4, max(LENGTHS), speech_models.N_MELS, dtype=torch.double)
    for row, length in zip(values, LENGTHS, strict=True):
        row[length:] = fill
    return Frames(values, torch.tensor(LENGTHS))


def texts(fill=0):
    torch.manual_seed(2)
    ids = torch.randint(1, speech_models.N_TARGET, (4, max(TARGET_LENGTHS)))
    for row, length in zip(ids, TARGET_LENGTHS, strict=True):
        row[length:] = fill
    return Rows(ids, torch.tensor(TARGET_LENGTHS))


def real(lengths, width):
    return torch.arange(width) < torch.as_tensor(lengths)[:, None]


def in_text(target):
    return real(target.lengths, target.ids.shape[1])


@every_model
def test_shapes_and_interface(name, variant):
    model, frames, target = make(name, variant), heard_frames(), texts()
    assert isinstance(model, SpeechModel)
    heard = model.listen(frames)
    expected = [-(-length // model.config.reduction) for length in LENGTHS]
    assert heard.lengths.tolist() == expected
    assert heard.memory.shape[:2] == (4, max(expected))
    assert isinstance(model.start(heard), Seq2SeqStepper)
    logits = model(frames, target)
    assert logits.shape == (4, 5, speech_models.N_TARGET)
    assert torch.equal(model.unembed(model.spell(heard, target)), logits)
    assert torch.equal(F.linear(model.spell(heard, target), model.output_weight, model.output_bias), logits)
    scores = model.align(heard)
    assert (scores is None) == (variant != "ctc")
    assert scores is None or scores.shape == (*heard.memory.shape[:2], speech_models.N_TARGET)


@every_model
def test_every_parameter_gets_a_gradient(name, variant):
    model, frames, target = make(name, variant).train(), heard_frames(), texts()
    heard = model.listen(frames)
    logits = model.unembed(model.spell(heard, target))
    loss = F.cross_entropy(logits[in_text(target)], torch.randint(1, speech_models.N_TARGET, (sum(TARGET_LENGTHS),)))
    scores = model.align(heard)
    if scores is not None:
        loss = loss + scores[real(heard.lengths, scores.shape[1])].square().mean()
    loss.backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 1e-9, parameter_name


@every_model
def test_saved_and_loaded_is_the_same(name, variant):
    model, file = make(name, variant), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    torch.manual_seed(9)
    again = build(name, asdict(model.config)).double().eval()
    assert not torch.equal(again(heard_frames(), texts()), model(heard_frames(), texts()))
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(again(heard_frames(), texts()), model(heard_frames(), texts()))


@every_model
def test_evaluation_is_deterministic_and_training_drops_out(name, variant):
    model, frames, target = make(name, variant, dropout=0.5), heard_frames(), texts()
    assert torch.equal(model(frames, target), model(frames, target))
    model.train()
    assert not torch.equal(model(frames, target), model(frames, target))


@every_model
def test_what_stands_behind_the_end_does_not_matter(name, variant):
    model = make(name, variant)
    logits = model(heard_frames(), texts())
    other = model(heard_frames(fill=7.0), texts(fill=3))
    assert torch.equal(logits[in_text(texts())], other[in_text(texts())])


@every_model
def test_a_row_of_a_batch_is_the_row_alone(name, variant):
    model, frames, target = make(name, variant), heard_frames(fill=7.0), texts(fill=3)
    logits, heard = model(frames, target), model.listen(frames)
    for i, (n, u) in enumerate(zip(LENGTHS, TARGET_LENGTHS, strict=True)):
        only = Frames(frames.values[i : i + 1, :n], frames.lengths[i : i + 1])
        torch.testing.assert_close(model(only, target.ids[i : i + 1, :u])[0], logits[i, :u], **EXACT)
        if model.align(heard) is not None:
            alone, s = model.align(model.listen(only))[0], int(heard.lengths[i])
            torch.testing.assert_close(alone, model.align(heard)[i, :s], **EXACT)


@every_model
def test_later_tokens_do_not_change_earlier_logits(name, variant):
    model, frames = make(name, variant), heard_frames()
    target = texts(fill=3).ids
    logits = model(frames, target)
    for t in range(1, 5):
        changed = torch.cat((target[:, :t], (target[:, t:] + 3) % speech_models.N_TARGET), 1)
        torch.testing.assert_close(model(frames, changed)[:, :t], logits[:, :t], rtol=0, atol=1e-12)
        assert not torch.allclose(model(frames, changed)[:, t], logits[:, t])


@every_model
def test_watching_changes_no_bit_and_sees_distributions(name, variant):
    model, frames, target = make(name, variant), heard_frames(), texts()
    unwatched, heard = model(frames, target), model.listen(frames)
    with watch(model) as seen:
        assert torch.equal(model(frames, target), unwatched)
    silent = ~real(heard.lengths, heard.memory.shape[1])
    for sight in seen:
        torch.testing.assert_close(sight.weights.sum(-1), torch.ones_like(sight.weights[..., 0]))
        if sight.kind == "cross":
            assert (sight.weights[silent[:, None, None, :].expand_as(sight.weights)] == 0).all()
    assert {"cross"} <= {sight.kind for sight in seen}


@every_model
def test_step_by_step_is_the_whole_and_rows_go_on_as_themselves(name, variant):
    model, frames = make(name, variant), heard_frames(fill=7.0)
    target, heard = texts(fill=3).ids, model.listen(frames)
    logits, stepper = model(frames, target), model.start(heard, capacity=2)  # less room than needed
    for t in range(5):
        torch.testing.assert_close(stepper.step(target[:, t]), logits[:, t], **EXACT)
    assert stepper.attention() is None  # nobody watches
    for rows in ((3, 1, 0, 2), (2, 0, 2, 2, 1), (1,)):
        chosen, stepper = torch.tensor(rows), model.start(heard)
        for t in range(2):
            stepper.step(target[:, t])
        stepper.select(chosen, same_source=False)
        for t in range(2, 5):
            torch.testing.assert_close(stepper.step(target[chosen, t]), logits[chosen, t], **EXACT)


@every_model
def test_beams_change_places_within_their_recording(name, variant):
    model, frames = make(name, variant), heard_frames(fill=7.0)
    doubled = Frames(frames.values.repeat_interleave(2, 0), frames.lengths.repeat_interleave(2, 0))
    torch.manual_seed(5)
    target = torch.randint(1, speech_models.N_TARGET, (8, 5))
    target[:, 0] = 2
    stepper, rows = model.start(model.listen(frames)), torch.tensor([1, 0, 2, 2, 4, 5, 7, 7])
    stepper.select(torch.arange(4).repeat_interleave(2), same_source=False)
    for t in range(2):
        stepper.step(target[:, t])
    stepper.select(rows, same_source=True)
    logits = model(doubled, target)
    for t in range(2, 5):
        torch.testing.assert_close(stepper.step(target[rows, t]), logits[rows, t], **EXACT)


@every_model
def test_watched_steps_show_what_the_whole_looked_at(name, variant):
    model, frames = make(name, variant), heard_frames(fill=7.0)
    target = texts(fill=3).ids
    with watch(model, kinds=["cross"]) as seen:
        model(frames, target)
    layers = sorted({sight.layer for sight in seen})
    whole = torch.stack([torch.cat([sight.weights for sight in seen.where(layer=i)], 2) for i in layers]).mean((0, 2))
    stepper = model.start(model.listen(frames), watched=True)
    for t in range(5):
        stepper.step(target[:, t])
        torch.testing.assert_close(stepper.attention(), whole[:, t], **EXACT)


@every_model
def test_frames_of_another_shape_are_refused(name, variant):
    model = make(name, variant)
    with pytest.raises(ShapeError, match="frames have 4 bands, the model reads 5"):
        model.listen(Frames(torch.zeros(1, 6, 4, dtype=torch.double), torch.tensor([6])))
    with pytest.raises(ShapeError, match="at least one frame"):
        model.listen(Frames(torch.zeros(2, 6, 5, dtype=torch.double), torch.tensor([6, 0])))
    with pytest.raises(ShapeError, match=r"\(batch, time, bands\)"):
        Frames(torch.zeros(6, 5), torch.tensor([6]))


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("las", {"attention": "none"}, "hears nothing"),
        ("las", {"attention": "cosine"}, "las.attention is 'cosine'; allowed: none, dot"),
        ("las", {"n_halvings": 9}, "n_halvings is 9, from 0 to 5"),
        ("las", {"n_target": 0}, "n_target is 0, at least 1"),
        ("speech-transformer", {"strides": ()}, "strides are whole numbers from 1"),
        ("speech-transformer", {"strides": (0, 2)}, "strides holds 0, at least 1"),
        ("speech-transformer", {"n_mels": 0}, "n_mels is 0, at least 1"),
        ("speech-transformer", {"encoder_positions": "rotary"}, "encoder_positions"),
    ],
)
def test_options_that_make_no_model(name, wrong, message):
    with pytest.raises(ConfigError, match=message):
        build(name, speech_models.options_of(name, "plain") | wrong)


def test_more_places_than_positions():
    model = make("speech-transformer", "whisper")
    with pytest.raises(ShapeError, match="13 places are more than the 12"):
        model.listen(Frames(torch.zeros(1, 26, 5, dtype=torch.double), torch.tensor([26])))


def test_las_spells_by_its_equations():
    """s = LSTM([y; ã], s), c = Σ softmax(s · h) h, ã = tanh(W[c; s]): written out, gate by gate."""
    torch.manual_seed(3)
    model = build("las", speech_models.options_of("las", "plain") | {"attention": "dot"}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)  # so that a tanh bends what it is given
    memory = model.listen(Frames(heard_frames().values[:1], torch.tensor([11]))).memory[0]
    target = texts().ids[:1]
    w_in, w_state, b_in, b_state = model.speller.layers.parameters()
    state = cell = fed = torch.zeros(8, dtype=torch.double)
    expected = []
    for token in target[0]:
        inputs = torch.cat((model.target_embedding(token[None])[0], fed))
        enter, forget, new, out = (w_in @ inputs + b_in + w_state @ state + b_state).chunk(4)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        state = out.sigmoid() * cell.tanh()
        context = (memory @ state).softmax(0) @ memory
        fed = (model.combine.weight @ torch.cat((context, state)) + model.combine.bias).tanh()
        expected.append(model.output.weight @ fed + model.output.bias)
    found = model(Frames(heard_frames().values[:1], torch.tensor([11])), Rows(target, torch.tensor([5])))
    torch.testing.assert_close(found[0], torch.stack(expected), **EXACT)
