"""The quick step of a decoder computes what its blocks do, whatever they are made of."""

import pytest
import torch

from regard.attention import Rows, watch
from regard.fast.cpu import decoding_step as steps
from regard.fast.cpu.packed_linear import pack_linears
from regard.models.transformer import Transformer, TransformerConfig

KINDS = {
    "post": {},
    "pre": {"order": "pre"},
    "root mean square": {"norm": "rms", "order": "pre"},
    "rotary, in groups": {"positions": "rotary", "n_kv_heads": 2},
    "learned": {"positions": "learned", "activation": "gelu"},
}


def model(**options):
    sizes = {"d_model": 32, "n_heads": 4, "d_feedforward": 48, "n_encoder_layers": 1, "n_decoder_layers": 2}
    made = Transformer(TransformerConfig(n_source=30, n_target=30, **sizes, **options)).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def decode(stepper, draw):
    """Five steps of three beams a source, which change places, and the sources become fewer."""
    logits = []
    stepper.select(torch.arange(4).repeat_interleave(3), same_source=False)
    for tokens, rows, same in (
        (torch.full((12,), 2), torch.arange(12), True),
        (torch.randint(30, (12,), generator=draw), torch.tensor([2, 0, 1, 3, 3, 4, 6, 7, 7, 11, 10, 9]), True),
        (torch.randint(30, (12,), generator=draw), torch.tensor([3, 5, 5, 9, 10, 11]), False),
        (torch.randint(30, (6,), generator=draw), torch.tensor([1, 0, 2, 3, 3, 5]), True),
        (torch.randint(30, (6,), generator=draw), torch.tensor([0, 4]), False),
        (torch.randint(30, (2,), generator=draw), torch.arange(2), True),
    ):
        logits.append(stepper.step(tokens))
        stepper.select(rows, same_source=same)
    return torch.cat(logits)


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_blocks(kind):
    plain = model(**KINDS[kind])
    source = Rows(torch.randint(4, 30, (4, 6)), torch.tensor([6, 2, 5, 1]))
    steppers = plain.start(source), pack_linears(plain).start(source)
    assert not isinstance(steppers[0].kv_cache, steps.PackedDecoderKVCache)
    assert steppers[1].kv_cache.is_plain
    expected, found = (decode(stepper, torch.Generator().manual_seed(2)) for stepper in steppers)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_watched_steps_are_the_blocks_own(monkeypatch):
    quick = pack_linears(model(), native=False)
    source = torch.randint(4, 30, (3, 6))
    stepper = quick.start(source)
    asked = []
    monkeypatch.setattr(steps.HeadsStep, "attend_source", lambda self, x, *rest, **options: asked.append(self) or x)
    with watch(quick.decoder) as seen:
        stepper.step(torch.full((3,), 2))
    assert len(seen) == 4
    assert not asked
    stepper.step(torch.full((3,), 2))
    assert len(asked) == 2, "unwatched, the quick ones go on"


@torch.inference_mode()
def test_beams_that_begin_alike_are_one_row(monkeypatch):
    sizes = []
    stepper = model().start(torch.randint(4, 30, (3, 6)))
    once = stepper.embed
    monkeypatch.setattr(stepper, "embed", lambda tokens, offset: sizes.append(len(tokens)) or once(tokens, offset))
    stepper.select(torch.arange(3).repeat_interleave(2), same_source=False)
    first = stepper.step(torch.full((6,), 2))
    assert torch.equal(first[0::2], first[1::2])
    stepper.step(torch.arange(4, 10))
    other = model().start(torch.randint(4, 30, (3, 6)))
    other.select(torch.arange(3).repeat_interleave(2), same_source=False)
    assert other.step(torch.arange(4, 10)).shape == (6, 30), "beams that begin with different tokens are not"
    assert sizes == [3, 6]
