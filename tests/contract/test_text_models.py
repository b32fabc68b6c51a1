"""What every registered model of one text promises, in every variant: the same tests over all of them."""

import io
from dataclasses import asdict

import pytest
import torch

from regard.attention import Rows, watch
from regard.attention.taps import Tap
from regard.models.interfaces.text import LanguageModel, Seq2SeqStepper, offers
from regard.models.registry import build
from text_models import (
    CASES,
    CAUSAL,
    LENGTHS,
    N_OUTPUTS,
    N_TOKENS,
    PACKED,
    SEGMENTED,
    WRITING,
    batch,
    by_token,
    make,
    real,
    said,
    tolerance,
)

every_model = pytest.mark.parametrize(("name", "variant"), CASES)
every_writer = pytest.mark.parametrize(("name", "variant"), WRITING)


@every_model
def test_shapes_and_interface(name, variant):
    model, rows = make(name, variant), batch()
    output = said(model, rows)
    if name == "classifier":
        assert output.shape == (4, N_OUTPUTS)
    else:
        assert output.shape[:2] == (4, 6)
    if name == "span-reader":
        assert output.shape == (4, 6, 2)
    else:
        assert model.encode(rows).shape[:2] == (4, 6)
    if name in ("gpt", "recurrent-lm") or (name == "bert" and model.config.mlm):
        assert offers(model, LanguageModel)
        assert output.shape == (4, 6, N_TOKENS)
        assert torch.equal(model.unembed(model.hidden(rows)), output)
        assert model.output_weight.shape == (N_TOKENS, model.config.d_model)
    assert torch.equal(said(model, rows.ids), said(model, Rows(rows.ids)))


@every_model
def test_every_parameter_gets_a_gradient(name, variant):
    model, rows = make(name, variant).train(), batch()
    given = (
        {"segments": (rows.ids % 2)} if (name, variant) in [*SEGMENTED, ("bert", "untied"), ("bert", "bare")] else {}
    )
    if name == "classifier" and variant == "mean":
        given = {"segments": (rows.ids % 2)}
    total = real(name, said(model, rows, **given)).square().sum()
    if name == "bert":
        encoded = model.encode(rows, **given)
        total = total + (model.next_sentence(encoded).square().sum() if model.config.nsp else 0.0)
    total.backward()
    positions = {"positions.table.weight", "backbone.positions.table.weight"}  # those of longer texts are not met
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 1e-12, parameter_name
        if parameter_name in positions:
            assert (parameter.grad[: max(LENGTHS)].abs().amax(1) > 0).all()


@every_model
def test_saved_and_loaded_is_the_same(name, variant):
    model, rows = make(name, variant), batch()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = build(name, asdict(model.config)).double().eval()
    assert not torch.equal(said(again, rows), said(model, rows))
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(said(again, rows), said(model, rows))


@every_model
def test_evaluation_is_deterministic_and_training_drops_out(name, variant):
    model, rows = make(name, variant, dropout=0.5), batch()
    assert torch.equal(said(model, rows), said(model, rows))
    model.train()
    assert not torch.equal(said(model, rows), said(model, rows))


@every_model
def test_watching_changes_no_bit_and_sees_distributions(name, variant):
    model, rows = make(name, variant), batch()
    if not any(isinstance(part, Tap) for part in model.modules()):
        assert "recurrent" in name + variant, "everything but a plain recurrent model attends"
        return
    unwatched = said(model, rows)
    with watch(model) as seen:
        watched = said(model, rows)
    assert len(seen) > 0
    assert torch.equal(real(name, watched), real(name, unwatched))
    padding = torch.arange(6) >= torch.tensor(LENGTHS)[:, None]
    for sight in seen:
        weights = (
            sight.weights
            if sight.weights.shape[2] == 1
            else sight.weights[~padding[:, None, :].expand(sight.weights.shape[:3])]
        )
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        looked_at_padding = sight.weights.transpose(2, 3)[padding[:, None].expand(-1, sight.weights.shape[1], -1)]
        if sight.kind != "masked":
            assert (looked_at_padding == 0).all()
    assert torch.equal(said(model, rows), unwatched)


@every_model
def test_what_stands_in_the_padding_does_not_matter(name, variant):
    model, rows = make(name, variant), batch()
    inside = torch.arange(rows.ids.shape[1]) < rows.lengths[:, None]
    other = Rows(torch.where(inside, rows.ids, N_TOKENS - 1), rows.lengths)
    assert torch.equal(real(name, said(model, rows)), real(name, said(model, other)))


@every_model
def test_a_row_of_a_batch_is_the_row_alone(name, variant):
    model, rows = make(name, variant), batch(fill=7)
    output = said(model, rows)
    single = make(name, variant).float()
    single.load_state_dict(model.state_dict())
    single_output = said(single, rows)
    for i, n in enumerate(LENGTHS):
        alone = rows.ids[i : i + 1, :n]
        width = n if by_token(name) else N_OUTPUTS
        torch.testing.assert_close(output[i : i + 1, :width], said(model, alone), **tolerance(variant))
        torch.testing.assert_close(single_output[i : i + 1, :width], said(single, alone), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "variant"), CAUSAL)
def test_what_comes_later_changes_no_bit_of_what_was_said_before(name, variant):
    model, ids = make(name, variant), torch.randint(1, N_TOKENS, (4, 6))
    output = said(model, ids)
    for t in range(1, 6):
        changed = torch.cat((ids[:, :t], (ids[:, t:] + 3) % N_TOKENS), 1)
        other = said(model, changed)
        assert torch.equal(other[:, :t], output[:, :t])
        assert not torch.allclose(other[:, t], output[:, t])


@pytest.mark.parametrize(
    ("name", "variant"), [case for case in CASES if case not in CAUSAL and case[0] != "classifier"]
)
def test_models_that_read_see_both_sides(name, variant):
    model, ids = make(name, variant), torch.randint(1, N_TOKENS, (4, 6))
    changed = torch.cat((ids[:, :5], (ids[:, 5:] + 3) % N_TOKENS), 1)
    first, other = said(model, ids)[:, 0], said(model, changed)[:, 0]
    one_direction = name == "recurrent-encoder" and variant == "one_direction"
    assert torch.equal(first, other) == one_direction


@pytest.mark.parametrize(("name", "variant"), SEGMENTED)
def test_segments_tell_two_texts_apart(name, variant):
    model, rows = make(name, variant), batch()
    second = torch.ones_like(rows.ids)
    assert torch.equal(said(model, rows), said(model, rows, segments=torch.zeros_like(rows.ids)))
    assert not torch.allclose(said(model, rows), said(model, rows, segments=second))


@pytest.mark.parametrize(("name", "variant"), PACKED)
def test_packed_is_padded(name, variant):
    model, rows = make(name, variant), batch()
    inside = torch.arange(6) < rows.lengths[:, None]
    packed = Rows.packed(rows.ids[inside], rows.lengths, longest=6)
    padded_output, packed_output = real(name, said(model, rows)), said(model, packed)
    packed_output = packed_output[0] if by_token(name) else packed_output
    torch.testing.assert_close(packed_output, padded_output, **tolerance(variant))


@every_writer
def test_step_by_step_is_the_whole(name, variant):
    model, ids = make(name, variant), torch.randint(1, N_TOKENS, (4, 9))
    output, stepper = said(model, ids), model.start(ids[:, :4], capacity=2)  # less room than needed
    assert isinstance(stepper, Seq2SeqStepper)
    for t in range(3, 9):
        torch.testing.assert_close(stepper.step(ids[:, t]), output[:, t], **tolerance(variant))


@every_writer
def test_prompts_of_different_lengths_go_on_as_themselves(name, variant):
    model, rows, more = make(name, variant), batch(fill=7), torch.randint(1, N_TOKENS, (4, 3))
    stepper = model.start(rows)
    last = rows.ids.gather(1, rows.lengths[:, None] - 1)
    for t, tokens in enumerate(torch.cat((last, more), 1).unbind(1)):
        logits = stepper.step(tokens)
        for i, n in enumerate(LENGTHS):
            whole = torch.cat((rows.ids[i, :n], more[i, :t]))[None]
            torch.testing.assert_close(logits[i], said(model, whole)[0, -1], **tolerance(variant))


@every_writer
@pytest.mark.parametrize("rows", [(3, 1, 0, 2), (2, 0, 2, 2, 1), (1,)], ids=["reordered", "repeated", "dropped"])
def test_selected_rows_go_on_as_themselves(name, variant, rows):
    model, ids, rows = make(name, variant), torch.randint(1, N_TOKENS, (4, 8)), torch.tensor(rows)
    output, stepper = said(model, ids), model.start(ids[:, :3])
    for t in range(2, 4):
        stepper.step(ids[:, t])
    stepper.select(rows, same_source=False)
    for t in range(4, 8):
        torch.testing.assert_close(stepper.step(ids[rows, t]), output[rows, t], **tolerance(variant))
