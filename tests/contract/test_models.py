"""What every registered model of two texts promises, in every variant: the same tests over all of them."""

import io
from dataclasses import asdict

import pytest
import torch
import torch.nn.functional as F

import caption_models
import image_models
import series_models
import speech_models
import text_models
from regard.attention import Causal, Rows, watch
from regard.models.interfaces.text import Seq2SeqModel, Seq2SeqStepper, offers
from regard.models.registry import build, names

LENGTHS, TARGET_LENGTHS = (6, 3, 1, 4), (5, 4, 2, 3)
N_SOURCE, N_TARGET = 11, 13
TINY = {
    "transformer": {"d_model": 16, "n_heads": 4, "d_feedforward": 24, "n_encoder_layers": 2, "n_decoder_layers": 2},
    "recurrent": {"d_embedding": 12, "d_hidden": 8},
}
VARIANTS = {
    "transformer": {
        "plain": {"tied": "output"},
        "pre": {"tied": "none", "order": "pre"},
        "tied": {"tied": "all"},
        "learned": {"tied": "output", "positions": "learned", "n_positions": 8},
        "rotary": {"tied": "output", "positions": "rotary"},
        "grouped": {"tied": "output", "n_kv_heads": 2},
        "shared_keys": {"tied": "output", "n_kv_heads": 1, "positions": "rotary", "order": "pre"},
        "modern": {"tied": "none", "order": "pre", "norm": "rms", "activation": "gelu"},
    },
    "recurrent": {
        "none": {"attention": "none"},
        "none_one_direction": {"attention": "none", "bidirectional": False, "cell": "gru", "n_layers": 1},
        "dot": {"attention": "dot"},
        "dot_one_direction": {"attention": "dot", "bidirectional": False},
        "scaled_dot": {"attention": "scaled_dot", "cell": "gru"},
        "general": {"attention": "general", "cell": "rnn"},
        "additive": {"attention": "additive", "n_layers": 1},
        "mlp": {"attention": "mlp", "bidirectional": False, "cell": "gru"},
        "projected": {"attention": "scaled_dot", "projected": True},
        "heads": {"attention": "scaled_dot", "n_heads": 4},
        "heads_additive": {"attention": "additive", "n_heads": 2, "input_feeding": True},
        "heads_general": {"attention": "general", "n_heads": 2, "cell": "rnn", "bidirectional": False},
        "feeding": {"attention": "dot", "input_feeding": True, "n_layers": 1},
        "feeding_additive": {"attention": "additive", "input_feeding": True, "cell": "gru"},
        "one_width": {"attention": "general", "d_embedding": 8},
        "untied": {"attention": "mlp", "tied": "none", "input_feeding": True, "cell": "rnn"},
        "tied": {"attention": "general", "tied": "all"},
    },
}
CASES = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]
ATTENTIVE = [(name, variant) for name, variant in CASES if not variant.startswith("none")]
every_model = pytest.mark.parametrize(("name", "variant"), CASES)
every_attentive_model = pytest.mark.parametrize(("name", "variant"), ATTENTIVE)


def options_of(name, variant, dropout=0.0):
    options = {**TINY[name], "n_source": N_SOURCE, "n_target": N_TARGET, "dropout": dropout, **VARIANTS[name][variant]}
    return {**options, "n_source": N_TARGET} if options.get("tied") == "all" else options


def make(name, variant, dropout=0.0):
    """In double precision, where equal means equal to 1e-10."""
    return build(name, options_of(name, variant, dropout)).double().eval()


def tolerance(variant):
    """Rotary positions are computed in single precision."""
    return {"rtol": 0.0, "atol": 1e-5 if variant in ("rotary", "shared_keys") else 1e-10}


def batch(fill=0):
    """Rows of different lengths; `fill` stands in the padding."""
    source, target = torch.randint(1, N_SOURCE, (4, 6)), torch.randint(1, N_TARGET, (4, 5))
    for ids, lengths in ((source, LENGTHS), (target, TARGET_LENGTHS)):
        for row, length in zip(ids, lengths, strict=True):
            row[length:] = fill
    return Rows(source, torch.tensor(LENGTHS)), Rows(target, torch.tensor(TARGET_LENGTHS))


def refill(rows, fill):
    ids = torch.where(torch.arange(rows.ids.shape[1]) < rows.lengths[:, None], rows.ids, fill)
    return Rows(ids, rows.lengths)


def real(rows):
    return torch.arange(rows.ids.shape[1]) < rows.lengths[:, None]


def cross_weights(model, source, target):
    """The cross-attention of every layer, (L, B, H, T, S), whether a layer saw all targets at once or one by one."""
    with watch(model, kinds=["cross"]) as seen:
        model(source, target)
    layers = sorted({sight.layer for sight in seen})
    return torch.stack([torch.cat([sight.weights for sight in seen.where(layer=i)], 2) for i in layers])


def test_every_registered_model_is_under_contract():
    elsewhere = {"word-vectors"}  # not a model of texts: tests/models/test_word_vectors.py
    modules = (text_models, series_models, image_models, caption_models, speech_models)
    known = set(VARIANTS).union(elsewhere, *(module.VARIANTS for module in modules))
    assert known == set(names())


@every_model
def test_shapes_and_interface(name, variant):
    model, (source, target) = make(name, variant), batch()
    assert offers(model, Seq2SeqModel)
    assert isinstance(model.start(source), Seq2SeqStepper)
    logits = model(source, target)
    assert logits.shape == (4, 5, N_TARGET)
    assert model.encode(source).shape[:2] == (4, 6)
    assert torch.equal(model.unembed(model.hidden(source, target)), logits)
    assert torch.equal(model(source.ids, target.ids), model(Rows(source.ids), Rows(target.ids)))


@every_model
def test_every_parameter_gets_a_gradient(name, variant):
    model, (source, target) = make(name, variant).train(), batch()
    logits = model(source, target)
    F.cross_entropy(logits[real(target)], torch.randint(1, N_TARGET, (sum(TARGET_LENGTHS),))).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 1e-9, parameter_name


@every_model
def test_saved_and_loaded_is_the_same(name, variant):
    model, (source, target) = make(name, variant), batch()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = build(name, asdict(model.config)).double().eval()
    assert not torch.equal(again(source, target), model(source, target))
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(again(source, target), model(source, target))


@every_model
def test_evaluation_is_deterministic_and_training_drops_out(name, variant):
    model, (source, target) = make(name, variant, dropout=0.5), batch()
    assert torch.equal(model(source, target), model(source, target))
    model.train()
    assert not torch.equal(model(source, target), model(source, target))


@every_attentive_model
def test_watching_changes_no_bit_and_sees_distributions(name, variant):
    model, (source, target) = make(name, variant), batch()
    unwatched = model(source, target)
    with watch(model) as seen:
        watched = model(source, target)
    assert torch.equal(watched, unwatched)
    for sight in seen:
        torch.testing.assert_close(sight.weights.sum(-1), torch.ones_like(sight.weights[..., 0]))
        if sight.kind != "masked":
            assert (sight.weights[(~real(source))[:, None, None, :].expand_as(sight.weights)] == 0).all()
    assert cross_weights(model, source, target).shape[1::2] == (4, 5)
    assert torch.equal(model(source, target), unwatched)


@every_model
def test_what_stands_in_the_padding_does_not_matter(name, variant):
    model, (source, target) = make(name, variant), batch()
    logits = model(source, target)
    other = model(refill(source, N_SOURCE - 1), refill(target, N_TARGET - 1))
    assert torch.equal(logits[real(target)], other[real(target)])


@every_model
def test_a_row_of_a_batch_is_the_row_alone(name, variant):
    model, (source, target) = make(name, variant), batch(fill=7)
    logits, single = model(source, target), make(name, variant).float()
    single.load_state_dict(model.state_dict())
    for i, (s, t) in enumerate(zip(LENGTHS, TARGET_LENGTHS, strict=True)):
        alone = model(source.ids[i : i + 1, :s], target.ids[i : i + 1, :t])
        torch.testing.assert_close(logits[i : i + 1, :t], alone, **tolerance(variant))
        alone_in_single_precision = single(source.ids[i : i + 1, :s], target.ids[i : i + 1, :t])
        torch.testing.assert_close(single(source, target)[i : i + 1, :t], alone_in_single_precision, rtol=0, atol=1e-5)


@every_model
def test_later_targets_do_not_change_earlier_logits(name, variant):
    model, (source, _) = make(name, variant), batch()
    target = torch.randint(1, N_TARGET, (4, 5))
    logits = model(source, target)
    for t in range(1, 5):
        changed = torch.cat((target[:, :t], (target[:, t:] + 3) % N_TARGET), 1)
        other = model(source, changed)
        torch.testing.assert_close(other[:, :t], logits[:, :t], rtol=0, atol=1e-12)
        assert not torch.allclose(other[:, t], logits[:, t])


@every_model
def test_step_by_step_is_the_whole(name, variant):
    model, (source, _) = make(name, variant), batch(fill=7)
    target = torch.randint(1, N_TARGET, (4, 5))
    logits, stepper = model(source, target), model.start(source, capacity=2)  # less room than needed
    assert stepper.device == torch.device("cpu")
    for t in range(5):
        torch.testing.assert_close(stepper.step(target[:, t]), logits[:, t], **tolerance(variant))
    assert stepper.attention() is None  # nobody watches


@every_model
@pytest.mark.parametrize("rows", [(3, 1, 0, 2), (2, 0, 2, 2, 1), (1,)], ids=["reordered", "repeated", "dropped"])
def test_selected_rows_go_on_as_themselves(name, variant, rows):
    model, (source, _), rows = make(name, variant), batch(fill=7), torch.tensor(rows)
    target = torch.randint(1, N_TARGET, (4, 5))
    logits, stepper = model(source, target), model.start(source)
    for t in range(2):
        stepper.step(target[:, t])
    stepper.select(rows, same_source=False)
    for t in range(2, 4):
        torch.testing.assert_close(stepper.step(target[rows, t]), logits[rows, t], **tolerance(variant))
    stepper.select(torch.tensor([0]), same_source=False)
    torch.testing.assert_close(stepper.step(target[rows[:1], 4]), logits[rows[:1], 4], **tolerance(variant))


@every_model
def test_beams_change_places_within_their_source(name, variant):
    model, (source, _) = make(name, variant), batch(fill=7)
    doubled = Rows(source.ids.repeat_interleave(2, 0), source.lengths.repeat_interleave(2, 0))
    target, rows = torch.randint(1, N_TARGET, (8, 5)), torch.tensor([1, 0, 2, 2, 4, 5, 7, 7])
    logits, stepper = model(doubled, target), model.start(doubled)
    for t in range(2):
        stepper.step(target[:, t])
    stepper.select(rows, same_source=True)
    for t in range(2, 5):
        torch.testing.assert_close(stepper.step(target[rows, t]), logits[rows, t], **tolerance(variant))


@every_model
def test_watched_steps_show_what_the_whole_looked_at(name, variant):
    model, (source, _) = make(name, variant), batch(fill=7)
    target = torch.randint(1, N_TARGET, (4, 5))
    logits, stepper = model(source, target), model.start(source, watched=True)
    expected = None if variant.startswith("none") else cross_weights(model, source, target).mean((0, 2))
    for t in range(5):
        torch.testing.assert_close(stepper.step(target[:, t]), logits[:, t], **tolerance(variant))
        if expected is None:
            assert stepper.attention() is None
        else:
            torch.testing.assert_close(stepper.attention(), expected[:, t], **tolerance(variant))
            assert (stepper.attention()[~real(source)] == 0).all()


@pytest.mark.parametrize("variant", VARIANTS["transformer"])
def test_packed_is_padded_in_values_and_gradients(variant):
    model, (source, target) = make("transformer", variant).train(), batch()
    answers = torch.randint(1, N_TARGET, (sum(TARGET_LENGTHS),))

    def run(source, target, pick):
        model.zero_grad()
        logits = pick(model(source, target))
        F.cross_entropy(logits, answers).backward()
        return [logits.detach()] + [parameter.grad.clone() for parameter in model.parameters()]

    packed = [Rows.packed(rows.ids[real(rows)], rows.lengths, longest=6) for rows in (source, target)]
    padded_results = run(source, target, lambda logits: logits[real(target)])
    packed_results = run(*packed, lambda logits: logits[0])
    for one, other in zip(padded_results, packed_results, strict=True):
        torch.testing.assert_close(one, other, **tolerance(variant))


@pytest.mark.parametrize("variant", VARIANTS["transformer"])
def test_masked_attention_sees_the_past_alone(variant):
    model, (source, target) = make("transformer", variant), batch()
    with watch(model, kinds=["masked"]) as seen:
        model(source, target)
    future = ~Causal().dense(5, 5, n_leading=2, device=torch.device("cpu"))
    assert len(seen) == 2
    assert all((sight.weights[..., future] == 0).all() for sight in seen)
