"""Shortlists: a row's tokens are its own, all others have no chance, and what is left out inside changes no bit."""

import math

import pytest
import torch

from fast_only import needs_fast
from regard.attention import Rows
from regard.decoding.joint import step_together
from regard.decoding.shortlist import Shortlist, ShortlistStepper, restricted
from regard.decoding.stepper import log_probs_of
from regard.errors import UsageError
from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.packed_linear import pack_linears
from regard.models.registry import build

V = 301
OPTIONS = {"n_source": V, "n_target": V, "d_model": 40, "n_heads": 4, "d_feedforward": 33, "n_encoder_layers": 1,
           "n_decoder_layers": 2}  # fmt: skip
ROWS = [[3, 7, 300, 7], [3, 250, 12, 0], [3, 7, 45], list(range(100))]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def model(precision=None, **options):
    made = build("transformer", OPTIONS | options).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    if precision is None:
        return made
    if loaded() is None:
        pytest.skip(why())
    return pack_linears(made, precision)


def started(module, n=4):
    lengths = torch.arange(3, 3 + n)
    source = torch.randint(4, V, (n, int(lengths.max())), generator=torch.Generator().manual_seed(1))
    return module.start(Rows(source, lengths), capacity=16)


def test_a_shortlist_is_the_union_and_who_may_what():
    shortlist = Shortlist.of([[5, 2, 5], [9, 2]])
    assert shortlist.columns.tolist() == [2, 5, 9]
    assert shortlist.allowed.tolist() == [[True, True, False], [True, False, True]]
    with pytest.raises(UsageError, match=r"a row of the shortlist has no tokens"):
        Shortlist.of([[1], []])


def test_logits_are_those_of_the_model_or_none_and_probabilities_sum_to_one():
    module, tokens = model(), torch.tensor([1, 1, 1, 1])
    hidden = ShortlistStepper(started(module), Shortlist.of(ROWS))
    assert hidden.device == torch.device("cpu")
    assert hidden.attention() is None
    plain = started(module)
    with torch.inference_mode():
        logits, free = hidden.step(tokens), plain.step(tokens)
    for row, chosen in enumerate(ROWS):
        assert set(logits[row].isfinite().nonzero()[:, 0].tolist()) == set(chosen)
        assert torch.equal(logits[row, chosen], free[row, chosen])
        own = torch.tensor([sorted(set(chosen))])
        assert log_probs_of(logits[row : row + 1], own).exp().sum().item() == pytest.approx(1, abs=1e-5)


def moves(stepper):
    """Steps with reordered beams, samples, and rows that leave: all logits on the way."""
    draw = torch.Generator().manual_seed(3)
    found, n = [], 4

    def step(same=False):
        tokens = torch.randint(4, V, (n,), generator=draw)
        found.append(stepper.step(tokens[:1].expand(n).contiguous() if same else tokens).clone())

    stepper.select(torch.arange(4).repeat_interleave(3), same_source=False)
    n = 12
    step(same=True)
    step()
    stepper.select(torch.tensor([2, 0, 0, 5, 4, 4, 6, 7, 8, 11, 11, 9]), same_source=True)
    step()
    stepper.select(torch.tensor([6, 7, 8, 0, 1, 2]), same_source=False)  # half of them are gone
    n = 6
    step()
    stepper.select(torch.tensor([0, 3, 4]), same_source=False)  # unequal shares
    n = 3
    step()
    return found


@needs_fast
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("options", [{}, {"tied": "none", "output_bias": True}, {"d_model": 44}], ids=str)
@torch.inference_mode()
def test_what_is_left_out_inside_changes_no_bit(precision, options):
    module = model(precision, **options)
    inside = restricted(started(module), Shortlist.of(ROWS))
    assert not isinstance(inside, ShortlistStepper), "the stepper does it itself"
    twin = ShortlistStepper(started(module), Shortlist.of(ROWS))
    for one, other in zip(moves(inside), moves(twin), strict=True):
        assert torch.equal(one, other)
        assert (one == -math.inf).any()


@needs_fast
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@torch.inference_mode()
def test_a_row_does_not_feel_its_neighbours(precision):
    module, tokens = model(precision), torch.tensor([1, 8, 1, 9])
    together = restricted(started(module), Shortlist.of(ROWS))
    each = []
    for row, chosen in enumerate(ROWS):
        length = 3 + row
        source = torch.randint(4, V, (4, 6), generator=torch.Generator().manual_seed(1))[row : row + 1, :length]
        each.append(restricted(module.start(Rows(source), capacity=16), Shortlist.of([chosen])))
    for _ in range(3):
        logits = together.step(tokens)
        assert torch.equal(logits, torch.cat([one.step(tokens[i : i + 1]) for i, one in enumerate(each)]))


@needs_fast
@torch.inference_mode()
def test_decodings_that_step_together_each_have_their_own():
    module, tokens = model("int8"), [torch.tensor([1]), torch.tensor([8]), torch.tensor([9])]
    sources = [torch.randint(4, V, (1, n), generator=torch.Generator().manual_seed(n)) for n in (3, 5, 7)]

    def begin():
        steppers = [module.start(Rows(source), capacity=8) for source in sources]
        return [restricted(one, Shortlist.of([ROWS[i]])) if i < 2 else one for i, one in enumerate(steppers)]

    joined, alone = begin(), begin()
    assert joined[0].joins(joined[2])
    for _ in range(3):
        for found, one, own in zip(step_together(joined, tokens), alone, tokens, strict=True):
            assert torch.equal(found, one.step(own))


def test_without_kernels_the_twin_does_it():
    module = model()
    assert isinstance(restricted(started(module), Shortlist.of(ROWS)), ShortlistStepper)
    recurrent = build("recurrent", {"n_source": V, "n_target": V, "d_embedding": 12, "d_hidden": 12}).eval()
    assert isinstance(restricted(started(recurrent), Shortlist.of(ROWS)), ShortlistStepper)
