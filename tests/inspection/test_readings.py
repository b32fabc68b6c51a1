"""What records say: figures of heads, rollout, gradients, silenced heads, comparisons, each against a count by hand."""

import numpy as np
import pytest
import torch
from looking_scenes import IDS, SCENES

from regard.attention import watch
from regard.errors import UsageError
from regard.inspection.ablation import ablate_heads, silence
from regard.inspection.comparison import compare
from regard.inspection.gradients import weigh_by_gradient
from regard.inspection.look import look_at
from regard.inspection.record import Axis, Look, Map
from regard.inspection.rollout import roll_out
from regard.inspection.summaries import summarise
from regard.inspection.words import Words


def look_of(weights, kind="self", marks=0):
    weights = np.asarray(weights, np.float32)
    n_layers, n_heads, _, n = weights.shape
    words = Words(["w"] * (n - marks), [*([-1] * marks), *range(n - marks)])
    axis = Axis([f"{i}" for i in range(n)], words=words)
    found = Map(kind, "text", "text", weights, tuple(range(n_layers)), tuple(range(n_heads)))
    return Look({"text": axis}, {kind: found})


def test_figures_of_heads_that_are_easy_to_see():
    n = 8
    sharp, even, first = np.eye(n), np.full((n, n), 1 / n), np.eye(n)[[0] * n]
    one, other, sink = summarise(look_of([[sharp, even, first]], marks=1))
    assert (one.entropy, one.focus, one.distance) == pytest.approx((0, 1, 0))
    assert (other.entropy, other.focus) == pytest.approx((np.log(n), 0), abs=1e-6)
    assert other.distance == pytest.approx(np.abs(np.arange(n)[:, None] - np.arange(n)).mean())
    assert (one.diagonality, other.diagonality) == pytest.approx((1, 0))
    assert (one.marks, other.marks, sink.marks, sink.first) == pytest.approx((1 / n, 1 / n, 1, 1))
    assert [(s.layer, s.head) for s in (one, other, sink)] == [(0, 0), (0, 1), (0, 2)]
    back = summarise(look_of([[sharp[::-1]]]))[0]
    assert back.diagonality == pytest.approx(-1)


def test_who_looks_back_only_has_fewer_places_to_look_at():
    n = 5
    even = np.tri(n) / np.arange(1, n + 1)[:, None]
    found = summarise(look_of([[even]], kind="masked"))[0]
    assert found.focus == pytest.approx(0, abs=1e-6)
    assert found.ceiling == pytest.approx(np.log(np.arange(1, n + 1)).mean())


def test_rollout_is_the_product_of_layers_with_the_way_around():
    weights = np.random.default_rng(1).dirichlet(np.ones(4), size=(3, 2, 4))
    seen = look_of(weights)
    expected = np.eye(4)
    for layer in weights:
        expected = (0.5 * layer.mean(0) + 0.5 * np.eye(4)) @ expected
    np.testing.assert_allclose(roll_out(seen), expected, atol=1e-6)
    np.testing.assert_allclose(roll_out(seen).sum(-1), 1, atol=1e-6)
    first = roll_out(seen, upto=0, residual=0)
    np.testing.assert_allclose(first, weights[0].mean(0), atol=1e-6)
    with pytest.raises(UsageError, match="a residual share of 1 "):
        roll_out(seen, residual=1)
    case = SCENES["transformer"]()
    with pytest.raises(UsageError, match=r"rollout needs every layer, and the record has \[1\]") as problem:
        roll_out(look_at(case, layers=[1], kinds=["self"]))
    assert "without layers" in problem.value.hint
    with pytest.raises(UsageError, match="seen was cross"):
        roll_out(look_at(case, kinds=["cross"]))


@pytest.mark.parametrize("name", ["transformer", "gpt", "recurrent fed", "classifier pooled"])
def test_gradient_times_attention_is_the_slope_of_the_log_probability(name):
    case = SCENES[name]()
    kind = case.sides["cross" if name != "gpt" else "masked"][0]
    seen = weigh_by_gradient(case, signed=True, kinds=[kind])
    plain = look_at(case, kinds=[kind])
    slopes = seen.maps[kind].weights
    assert slopes.shape == plain.maps[kind].weights.shape
    assert np.abs(slopes).max() > 1e-5
    assert (weigh_by_gradient(case, kinds=[kind]).maps[kind].weights == np.maximum(slopes, 0)).all()
    row, column = divmod(int(np.abs(slopes[-1, 0]).argmax()), slopes.shape[-1])
    step = 1e-2
    nudged = [_log_prob_with(case, kind, (row, column), 1 + sign * step) for sign in (1, -1)]
    assert (nudged[0] - nudged[1]) / (2 * step) == pytest.approx(float(slopes[-1, 0, row, column]), rel=0.05)


def _log_prob_with(case, kind, at, factor):
    """The log-probability of the last output with one weight of the last layer's first head multiplied."""
    from regard.attention import taps

    tap_kind = next(tap for tap, (name, _, _) in case.sides.items() if name == kind)
    last = [part for part in case.module.modules() if isinstance(part, taps.Tap) and part.kind == tap_kind][-1]
    weigh, calls = taps.weigh, []

    def changed(weights, value, **options):
        if last.watchers and weights.data_ptr() == watcher_weights():
            calls.append(1)
            step = len(calls) - 1
            mine = at[0] - step if weights.shape[-2] == 1 and at[0] else at[0]  # one row a call, or all in one
            if 0 <= mine < weights.shape[-2]:
                weights = weights.clone()
                weights[0, 0, mine, at[1]] *= factor
        return weigh(weights, value, **options)

    with torch.inference_mode(), watch(last, through=True) as seen, pytest.MonkeyPatch.context() as patch:

        def watcher_weights():
            return seen.sights[-1].weights.data_ptr() if seen.sights else None

        patch.setattr(taps, "weigh", changed)
        log_probs = case.log_probs(case.run())[-1]
    assert calls
    given = case.output_names.given[-1] if case.output_names.given else None
    with torch.inference_mode():
        usual = case.log_probs(case.run())[-1]
    return float(log_probs[int(usual.argmax()) if given is None else given])


def test_what_is_explained_has_to_be_there():
    case = SCENES["gpt"]()
    with pytest.raises(UsageError, match=f"there is no place 6; the output has {len(IDS)}"):
        weigh_by_gradient(case, position=6)
    with pytest.raises(UsageError, match="there is no choice 900"):
        weigh_by_gradient(case, choice=900)
    with pytest.raises(UsageError, match="gives no probabilities"):
        weigh_by_gradient(SCENES["bert without words"]())
    early = weigh_by_gradient(case, position=1, choice=3).maps["masked"].weights
    assert (early[:, :, 2:] == 0).all(), "what comes later had no say"
    assert early.any()


@pytest.mark.parametrize("kind", ["cross", "self", "masked"])
def test_a_silenced_head_is_one_whose_columns_of_the_projection_are_zero(kind):
    case = SCENES["transformer"]()
    found = ablate_heads(case, kind)
    stack = case.module.encoder if kind == "self" else case.module.decoder
    blocks = [block.cross if kind == "cross" else block.attention for block in stack.blocks]
    assert found.kl.shape == found.change.shape == (len(blocks), 4)
    layer, head = 1, 2
    with torch.no_grad():
        before = case.log_probs(case.run())
        blocks[layer].out.weight[:, head * 4 : head * 4 + 4] = 0
        after = case.log_probs(case.run())
    assert found.kl[layer, head] == pytest.approx(float((before.exp() * (before - after)).sum(-1).mean()), rel=1e-4)
    places, given = range(len(case.output_names.given)), list(case.output_names.given)
    assert found.change[layer, head] == pytest.approx(float((after - before)[places, given].mean()), rel=1e-4)
    best = found.ranked()[0]
    assert best[2] == found.kl.max() > 0


def test_silence_leaves_nothing_behind_and_refuses_what_is_not_there():
    case = SCENES["gpt"]()
    with torch.inference_mode():
        before = case.run()
    assert not torch.equal(silence(case, "masked", layer=0, head=1), case.log_probs(before))
    with torch.inference_mode():
        assert torch.equal(case.run(), before)
    with pytest.raises(UsageError, match="there is no head 4; layer 1 has heads 0 to 3"):
        silence(case, "masked", layer=1, head=4)
    with pytest.raises(UsageError, match="nothing to watch"):
        silence(case, "masked", layer=7, head=0)
    labels = ablate_heads(SCENES["classifier"](), "self", layers=[2])
    assert labels.layers == (2,)
    assert labels.change is None


def test_two_records_of_one_input():
    p = np.array([[[[1, 0], [0.5, 0.5]], [[1, 0], [0, 1]]]])
    q = np.array([[[[0, 1], [0.5, 0.5]], [[1, 0], [0, 1]]]])
    found = compare(look_of(p), look_of(q))["self"]
    np.testing.assert_allclose(found.divergence, [[np.log(2) / 2, 0]], atol=1e-7)
    np.testing.assert_array_equal(found.difference, (q - p).astype(np.float32))
    assert found.most_different(1) == [(0, 0, pytest.approx(np.log(2) / 2))]


def test_records_that_cannot_be_compared():
    one = look_of(np.ones((1, 1, 1, 1)))
    with pytest.raises(UsageError, match="share no kind: self, and masked"):
        compare(one, look_of(np.ones((1, 1, 1, 1)), kind="masked"))
    other = Look({"text": Axis(["else"])}, dict(one.maps))
    with pytest.raises(UsageError, match="of different inputs: 'w', and 'else'") as problem:
        compare(one, other)
    assert "by_words" in problem.value.hint
