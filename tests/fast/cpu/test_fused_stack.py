"""Whole stacks in one call compute what the blocks do, row for row and bit for bit the same in every batch."""

from copy import deepcopy

import pytest
import torch

import regard.fast.cpu.packed_linear as quick
from regard.attention import Documents, Padding, Rows, watch
from regard.fast.cpu.fused_stack import LONGEST, FusedDecoder, FusedEncoder
from regard.fast.cpu.head_cache import HalfHeadCache, HeadCache
from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.packed_linear import pack_linears
from regard.models.transformer import Transformer, TransformerConfig

KINDS = {
    "post": {},
    "pre": {"order": "pre"},
    "root mean square": {"order": "pre", "norm": "rms"},
    "groups": {"n_kv_heads": 2},
    "learned": {"positions": "learned"},
    "heads of 64": {"d_model": 128, "n_heads": 2, "d_feedforward": 40},
    "heads of 32": {"d_model": 64, "n_heads": 2},
    "odd heads": {"d_model": 44, "n_heads": 4, "d_feedforward": 33},
    "gelu": {"activation": "gelu"},
    "gelu by tanh": {"order": "pre", "activation": "gelu_tanh"},
}
NEAR = {"fp32": 1e-5, "bf16": 2e-2, "int8": 2e-2}  # how far the kernels may be from PyTorch in the same precision


@pytest.fixture(params=["native", "haswell"])
def machine(request, monkeypatch):
    """This processor's kernels, and those of one without AVX-512."""
    kernels = loaded(machine=request.param)
    if kernels is None:
        pytest.skip(why(machine=request.param))
    monkeypatch.setattr(quick, "loaded", lambda: kernels)
    return kernels


def model(**options):
    sizes = {"d_model": 32, "n_heads": 4, "d_feedforward": 48, "n_encoder_layers": 2, "n_decoder_layers": 3}
    torch.manual_seed(0)
    made = Transformer(TransformerConfig(n_source=40, n_target=40, **(sizes | options))).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def sources():
    ids = torch.randint(4, 40, (5, 21), generator=torch.Generator().manual_seed(7))
    return Rows(ids, torch.tensor([21, 3, 17, 1, 16]))


def follow(stepper, n_rows, *, steps=20, seed=3):
    draw = torch.Generator().manual_seed(seed)
    return torch.stack([stepper.step(torch.randint(40, (n_rows,), generator=draw)) for _ in range(steps)])


def near(machine, precision):
    """Where there are 7 bits for inputs, and PyTorch takes 8, they are a little further apart."""
    return 5e-2 if precision == "int8" and machine.bits < 8 else NEAR[precision]


def apart(found, expected):
    return float((found - expected).norm() / expected.norm())


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", NEAR)
def test_the_encoder_is_its_blocks(machine, precision, kind):
    plain = model(**KINDS[kind])
    ours, theirs = (pack_linears(plain, precision, native=native).encoder for native in (True, False))
    hidden, lengths = torch.randn(5, 21, plain.config.d_model), torch.tensor([21, 3, 17, 0, 16])
    suits = precision != "bf16" or machine.has_bfloat
    assert (FusedEncoder.of(list(ours.blocks)) is not None) == suits
    assert FusedEncoder.of(list(theirs.blocks)) is None
    for mask in (None, Padding(lengths)):
        assert apart(ours(hidden, mask=mask), theirs(hidden, mask=mask)) < near(machine, precision)


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["pre", "heads of 64", "odd heads"])
@pytest.mark.parametrize("precision", NEAR)
def test_long_sentences_and_short_ones_beside_them(machine, precision, kind):
    """More than are worked on at once, of queries, of keys and of positions; each is what it is alone, bit for bit."""
    if precision == "bf16" and not machine.has_bfloat:
        pytest.skip("this processor has no bf16")
    plain = model(**KINDS[kind])
    ours, theirs = (pack_linears(plain, precision, native=native).encoder for native in (True, False))
    lengths = torch.tensor([700, 1, 33, 1500, 25, 96, 481])
    hidden = [torch.randn(1, n, plain.config.d_model) for n in lengths.tolist()]
    packed = ours(torch.cat(hidden, 1), mask=Documents(lengths, longest=1500)).split(lengths.tolist(), 1)
    for alone, among in zip(hidden, packed, strict=True):
        assert torch.equal(ours(alone), among)
        assert apart(among, theirs(alone)) < near(machine, precision)
        padded = torch.nn.functional.pad(alone, (0, 0, 0, 40), value=7.0)
        n = alone.shape[1]
        assert torch.equal(ours(padded, mask=Padding(torch.tensor([n])))[:, :n], among)


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", NEAR)
def test_steps_are_the_blocks(machine, precision, kind):
    plain = model(**KINDS[kind])
    ours, theirs = (pack_linears(plain, precision, native=native).start(sources()) for native in (True, False))
    assert (ours.kv_cache.fused is not None) == (precision != "bf16" or machine.has_bfloat)
    assert theirs.kv_cache.fused is None
    assert apart(follow(ours, 5), follow(theirs, 5)) < near(machine, precision)


CHANGES = {
    "a layer": lambda blocks: setattr(blocks[0].feedforward, "inner", blocks[1].feedforward.inner),
    "a part": lambda blocks: setattr(blocks[0], "attention", blocks[1].attention),
    "a block": lambda blocks: blocks.__setitem__(0, blocks[1]),
    "one block less": lambda blocks: blocks.pop(0),
    "a norm": lambda blocks: setattr(blocks[0].around_attention, "norm", blocks[1].around_feedforward.norm),
    "numbers of a norm": lambda blocks: setattr(blocks[0].around_attention.norm.weight, "data", torch.ones(32)),
}


@torch.no_grad()
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_replaced_is_seen(machine, change):
    encoder, hidden = pack_linears(model()).encoder, torch.randn(2, 5, 32)
    before = encoder(hidden)
    CHANGES[change](encoder.blocks)
    after, unknown = encoder(hidden), deepcopy(encoder)(hidden)
    assert torch.equal(after, unknown)
    assert not torch.allclose(after, before)


@torch.inference_mode()
@pytest.mark.parametrize("precision", NEAR)
def test_a_sentence_is_the_same_in_every_batch_bit_for_bit(machine, precision):
    if precision == "bf16" and not machine.has_bfloat:
        pytest.skip("this processor has no bf16")
    ours, rows = pack_linears(model(**KINDS["heads of 64"]), precision), sources()
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(40, (12, 5), generator=draw)
    stepper = ours.start(rows)
    together = torch.stack([stepper.step(step) for step in tokens])
    for row, length in enumerate(rows.lengths.tolist()):
        alone = ours.start(rows.ids[row : row + 1, :length])
        logits = torch.stack([alone.step(step[row : row + 1]) for step in tokens])
        assert torch.equal(logits[:, 0], together[:, row]), row


@torch.inference_mode()
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_beams_that_share_their_past_are_rows_by_themselves(machine, precision):
    """Three beams a source change places for a while, and one that is left over has the logits of its own history."""
    ours, rows = pack_linears(model(), precision), sources()
    draw = torch.Generator().manual_seed(5)
    stepper = ours.start(rows)
    stepper.select(torch.arange(5).repeat_interleave(3), same_source=False)
    histories = [[] for _ in range(15)]
    for step in range(14):
        tokens = torch.full((15,), 2) if step == 0 else torch.randint(40, (15,), generator=draw)
        histories = [[*history, int(token)] for history, token in zip(histories, tokens, strict=True)]
        logits = stepper.step(tokens)
        parents = torch.randint(3, (15,), generator=draw) + torch.arange(15) // 3 * 3
        if step < 13:
            stepper.select(parents, same_source=True)
            histories = [histories[parent] for parent in parents]
    for row in (0, 4, 11, 14):
        source = row // 3
        alone = ours.start(Rows(rows.ids[source : source + 1], rows.lengths[source : source + 1]))
        for token in histories[row]:
            expected = alone.step(torch.tensor([token]))
        assert torch.equal(logits[row], expected[0]), row


@torch.inference_mode()
def test_threads_change_nothing(machine):
    ours, rows = pack_linears(model(**KINDS["heads of 64"]), "int8"), Rows(torch.randint(4, 40, (30, 9)))
    before, found = torch.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            found.append(follow(ours.start(rows), 30, steps=4))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@torch.inference_mode()
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_looking_on_for_a_step_changes_little(precision):
    if loaded() is None:
        pytest.skip(why())
    ours = pack_linears(model(), precision)
    expected, found = ours.start(sources()), ours.start(sources())
    assert type(expected.kv_cache.past[0]) is (HeadCache if precision == "fp32" else HalfHeadCache)
    for step in range(6):
        tokens = torch.full((5,), 4 + step)
        before = expected.step(tokens)
        if step == 3:
            with watch(ours.decoder) as seen:
                after = found.step(tokens)
            assert len(seen) == 6
        else:
            after = found.step(tokens)
        assert apart(after, before) < 1e-2


@torch.inference_mode()
def test_a_source_with_nothing_to_see_goes_the_usual_way():
    rows = Rows(torch.randint(4, 40, (3, 6)), torch.tensor([6, 0, 2]))
    plain = model()
    found, expected = pack_linears(plain).start(rows), plain.start(rows)
    torch.testing.assert_close(follow(found, 3, steps=3), follow(expected, 3, steps=3), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"positions": "rotary"}, {"activation": "silu"}])
def test_blocks_of_another_make_do_not_suit(options):
    ours = pack_linears(model(**options))
    assert FusedDecoder.of(list(ours.decoder.blocks)) is None
    assert FusedEncoder.of(list(ours.encoder.blocks)) is None
    assert FusedDecoder.of([]) is None


def test_blocks_of_different_sizes_do_not_suit():
    if loaded() is None:
        pytest.skip(why())
    small, large = pack_linears(model()), pack_linears(model(d_feedforward=64))
    assert FusedDecoder.of([*small.decoder.blocks]) is not None
    assert FusedDecoder.of([*small.decoder.blocks, *large.decoder.blocks]) is None
    assert FusedDecoder.of([*small.decoder.blocks, *pack_linears(model(), "int8").decoder.blocks]) is None


def test_what_the_encoder_takes():
    x = torch.randn(2, 5, 8)
    assert FusedEncoder.takes(x, None)
    assert FusedEncoder.takes(x, Padding([5, 3]))
    assert not FusedEncoder.takes(x.double(), None)
    assert not FusedEncoder.takes(x, torch.ones(5, 5, dtype=torch.bool))
    assert not FusedEncoder.takes(x.clone().requires_grad_(), None)
    assert FusedEncoder.takes(torch.randn(1, LONGEST, 8), None)
    assert not FusedEncoder.takes(torch.randn(1, LONGEST + 1, 8), None), "scores of some queries are kept near"
    with torch.autocast("cpu"):
        assert not FusedEncoder.takes(x, None)
