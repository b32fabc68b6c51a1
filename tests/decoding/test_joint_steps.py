"""Decodings that step together get, bit for bit, the logits that each would have alone."""

from __future__ import annotations

import pytest
import torch

from fast_only import needs_fast
from regard.attention import Rows
from regard.decoding.joint import Start, start_together, step_together
from regard.errors import ShapeError, UsageError
from regard.fast.cpu.fused_stack import FusedEncoder
from regard.fast.cpu.native import loaded, why
from regard.fast.cpu.packed_linear import pack_linears
from regard.models.registry import build

GPT = {"n_tokens": 300, "d_model": 44, "n_heads": 4, "n_layers": 3, "n_positions": 64}
LLAMA = {"norm": "rms", "positions": "rotary", "activation": "silu", "gated": True, "attention_bias": False,
         "feedforward_bias": False, "n_kv_heads": 2, "d_model": 40}  # fmt: skip
SEQ2SEQ = {"n_source": 300, "n_target": 300, "d_model": 44, "n_heads": 4, "d_feedforward": 33, "n_encoder_layers": 1,
           "n_decoder_layers": 3}  # fmt: skip
MODELS = {
    "gpt2": ("gpt", GPT),
    "gpt1": ("gpt", {**GPT, "order": "post"}),
    "llama": ("gpt", {**GPT, **LLAMA}),
    "transformer": ("transformer", SEQ2SEQ),
    "pre": ("transformer", {**SEQ2SEQ, "order": "pre"}),
    "rotary": ("transformer", {**SEQ2SEQ, "positions": "rotary", "d_model": 40}),
}
WIDTHS = (1, 3, 1, 5, 1, 2, 1, 1)  # rows of each decoding: beams and single ones


def model(name, precision):
    if loaded() is None:
        pytest.skip(why())
    kind, options = MODELS[name]
    torch.manual_seed(0)
    made = build(kind, options).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return pack_linears(made, precision)


class Member:
    """A decoding with tokens of its own choice: `width` rows of one prompt that change places now and then."""

    def __init__(self, module, number):
        self.draw = torch.Generator().manual_seed(number)
        self.width, self.n_steps = WIDTHS[number], 0
        ids = torch.randint(4, 300, (1, 1 + 3 * number), generator=self.draw)
        self.stepper = module.start(Rows(ids, torch.tensor([ids.shape[1]])), capacity=4)
        if self.width > 1:
            self.stepper.select(torch.zeros(self.width, dtype=torch.int64), same_source=False)

    def tokens(self):
        same = self.n_steps == 0
        drawn = torch.randint(4, 300, (1 if same else self.width,), generator=self.draw)
        return drawn.expand(self.width).contiguous()

    def move(self):
        self.n_steps += 1
        if self.width > 1:
            rows = torch.randint(0, self.width, (self.width,), generator=self.draw)
            self.stepper.select(rows, same_source=True)


@needs_fast
@torch.inference_mode()
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_do_not_depend_on_who_steps_along(name, precision):
    module = model(name, precision)
    together, alone = ([Member(module, number) for number in range(len(WIDTHS))] for _ in range(2))
    for tick in range(14):
        present = [n for n in range(len(WIDTHS)) if n <= tick < 8 + n]  # they come and go one after another
        results = step_together([together[n].stepper for n in present], [together[n].tokens() for n in present])
        for n, logits in zip(present, results, strict=True):
            own = alone[n].stepper.step(alone[n].tokens())
            assert isinstance(logits, torch.Tensor)
            assert torch.equal(logits, own), (n, tick)
            together[n].move()
            alone[n].move()


def some_inputs():
    """Prompts and sources of many lengths, one of several rows, one that is padded."""
    draw = torch.Generator().manual_seed(5)
    single = [torch.randint(4, 300, (1, n), generator=draw) for n in (1, 7, 2, 33, 16, 1, 60)]
    several = torch.randint(4, 300, (3, 9), generator=draw)
    return [*single[:4], Rows(several, torch.tensor([9, 2, 5])), *single[4:], Rows(single[3], torch.tensor([20]))]


@needs_fast
@torch.inference_mode()
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_do_not_depend_on_who_is_read_along(name, precision):
    module, inputs = model(name, precision), some_inputs()
    started = start_together([Start(module, one, capacity) for capacity, one in enumerate(inputs, start=1)])
    for one, stepper in zip(inputs, started, strict=True):
        own = module.start(one, capacity=4)
        n_rows = len(Rows.of(one).ids)
        for token in (5, 9, 200):
            tokens = torch.full((n_rows,), token)
            assert torch.equal(stepper.step(tokens), own.step(tokens)), one


@needs_fast
@torch.inference_mode()
@pytest.mark.parametrize("name", MODELS)
def test_rows_of_many_shapes_step_together(name):
    module, inputs = model(name, "int8"), some_inputs()
    together, alone = ([module.start(one, capacity=4) for one in inputs] for _ in range(2))
    for token in (5, 9, 200, 7):
        tokens = [torch.full((len(Rows.of(one).ids),), token) for one in inputs]
        for logits, own, fed in zip(step_together(together, tokens), alone, tokens, strict=True):
            assert torch.equal(logits, own.step(fed))


@needs_fast
@torch.inference_mode()
@pytest.mark.parametrize("name", ["gpt2", "llama", "transformer"])
def test_threads_change_no_bit_and_are_given_back(name):
    module, inputs = model(name, "int8"), some_inputs()
    before, steps = torch.get_num_threads(), {}
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            steppers = start_together([Start(module, one, 4) for one in inputs])
            tokens = [torch.full((len(Rows.of(one).ids),), 5) for one in inputs]
            steps[n_threads] = [torch.cat(step_together(steppers, tokens)) for _ in range(4)]
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    for one, two, three in zip(*steps.values(), strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)


@needs_fast
@torch.inference_mode()
def test_prompts_are_read_in_one_pass():
    module, calls = model("gpt2", "int8"), []
    module.get_submodule("stack.blocks.0.attention.query_key_value").register_forward_hook(lambda *_: calls.append(1))
    start_together([Start(module, one, 4) for one in some_inputs() if isinstance(one, torch.Tensor)])
    assert len(calls) == 1


@needs_fast
@torch.inference_mode()
def test_sources_are_encoded_in_one_pass(monkeypatch):
    module, calls, run = model("transformer", "int8"), [], FusedEncoder.run
    monkeypatch.setattr(FusedEncoder, "run", lambda *given: calls.append(1) or run(*given))
    start_together([Start(module, one, 4) for one in some_inputs() if isinstance(one, torch.Tensor)])
    assert len(calls) == 1


@torch.inference_mode()
def test_one_that_cannot_begin_leaves_the_others_alone():
    torch.manual_seed(0)
    module = build("gpt", GPT).eval()
    good, bad = torch.tensor([[5, 6, 7]]), torch.full((1, 65), 5)
    first, refused, last = start_together([Start(module, one, 4) for one in (good, bad, good)])
    assert isinstance(refused, ShapeError)
    own = module.start(good, capacity=4).step(torch.tensor([7]))
    assert all(torch.equal(one.step(torch.tensor([7])), own) for one in (first, last))


@needs_fast
@torch.inference_mode()
@pytest.mark.parametrize("name", ["gpt2", "transformer"])
def test_they_do_step_in_one_call(name, monkeypatch):
    module = model(name, "fp32")
    members = [Member(module, number) for number in range(3)]
    for member in members:
        monkeypatch.setattr(member.stepper, "step", None)
    results = step_together([one.stepper for one in members], [one.tokens() for one in members])
    assert [len(logits) for logits in results] == list(WIDTHS[:3])


@torch.inference_mode()
def test_models_that_cannot_share_step_one_after_another():
    torch.manual_seed(0)
    module = build("recurrent-lm", {"n_tokens": 20, "d_model": 12, "d_hidden": 8}).eval()
    prompts = [torch.tensor([[5, 6]]), torch.tensor([[7]])]
    tokens = [torch.tensor([3]), torch.tensor([4])]
    results = step_together([module.start(one) for one in prompts], tokens)
    for prompt, own, logits in zip(prompts, tokens, results, strict=True):
        assert torch.equal(logits, module.start(prompt).step(own))


@needs_fast
@torch.inference_mode()
def test_one_that_cannot_go_on_leaves_the_others_alone():
    module = model("gpt2", "fp32")
    full = module.start(torch.full((1, 64), 5), capacity=4)
    full.step(torch.tensor([5]))
    others, alone = ([Member(module, number) for number in (0, 2)] for _ in range(2))
    steppers = [others[0].stepper, full, others[1].stepper]
    results = step_together(steppers, [others[0].tokens(), torch.tensor([9]), others[1].tokens()])
    assert isinstance(results[1], UsageError)
    for logits, own in zip(results[::2], alone, strict=True):
        assert torch.equal(logits, own.stepper.step(own.tokens()))
