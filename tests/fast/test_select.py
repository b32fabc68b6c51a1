"""Twins are found by name, and only where they are allowed; what would run for a model is told with its reasons."""

import pytest
import torch

import regard.fast
from regard.attention import MLP, Documents, MultiHeadAttention, attend, watch
from regard.config import twins
from regard.errors import UsageError
from regard.fast import select
from regard.fast.cpu.native import loaded
from regard.fast.cpu.packed_linear import pack_linears
from regard.layers import EncoderBlock, EncoderStack, FeedForward
from regard.metrics.cross_entropy import linear_cross_entropy
from regard.metrics.r_drop import symmetric_kl
from regard.models.gpt import GPT, GPTConfig
from regard.models.precision import in_precision
from regard.models.transformer import Transformer, TransformerConfig


@pytest.fixture
def switch(monkeypatch):
    """Sets `REGARD_FAST` and has it read; afterwards it is read again."""

    def set_to(value):
        monkeypatch.setenv(twins.SWITCH, value)
        twins.reset()

    yield set_to
    monkeypatch.undo()
    twins.reset()


def transformer(**options):
    sizes = {"d_model": 16, "n_heads": 2, "d_feedforward": 24, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return Transformer(TransformerConfig(n_source=20, n_target=20, **sizes, **options)).eval()


def told(model):
    return {choice.place: choice for choice in regard.fast.explain(model)}


def test_every_entry_is_there_and_the_switch_takes_all_away(switch):
    switch("1")
    assert all(twins.twin(place) is getattr(select, path.rpartition(".")[2]) for place, path in twins.TABLE.items())
    for value in ("0", "off", "No"):
        switch(value)
        assert all(twins.twin(place) is None for place in twins.TABLE)
    with pytest.raises(KeyError):
        twins.twin("nowhere")


def test_losses_are_those_of_the_textbook(switch):
    hidden, weight, bias = (torch.randn(shape, requires_grad=True) for shape in ((3, 5, 8), (30, 8), (30,)))
    labels = torch.randint(0, 30, (3, 5))
    found = []
    for value in ("1", "0"):
        switch(value)
        losses = linear_cross_entropy(hidden, weight, labels, smoothing=0.1, bias=bias)
        grads = torch.autograd.grad(losses.total, (hidden, weight, bias))
        pair = (hidden @ weight.T, hidden @ weight.T * 2)
        apart = symmetric_kl(*pair, labels)
        found.append([*losses, *grads, apart, *torch.autograd.grad(apart, (hidden, weight))])
        assert losses.n_tokens == (labels != 0).sum()
    for ours, textbook in zip(*found, strict=True):
        torch.testing.assert_close(ours, textbook, rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match="smoothing is 1"):
        linear_cross_entropy(hidden, weight, labels, smoothing=1.0)


def test_models_are_those_of_the_textbook(switch):
    model, packed = transformer(), torch.randint(1, 20, (1, 9))
    source, tokens = torch.randint(1, 20, (3, 5)), torch.tensor([1, 2, 3])
    q, mask = torch.randn(1, 2, 9, 8), Documents(torch.tensor([4, 5]), longest=5)
    found = []
    for value in ("1", "0"):
        switch(value)
        with torch.inference_mode():
            stepper = in_precision(model, "fp32").start(source)
            steps = [stepper.step(tokens), stepper.step(tokens)]
            found.append([*steps, model(source, source), attend(q, q * 2, q, mask=mask), model(packed, packed)])
    for ours, textbook in zip(*found, strict=True):
        torch.testing.assert_close(ours, textbook, rtol=1e-4, atol=1e-5)


def test_precisions_without_twins(switch):
    switch("0")
    model = transformer()
    assert in_precision(model, "auto") is in_precision(model, "fp32") is model
    with torch.inference_mode():
        stepper = in_precision(model, "bf16").start(torch.randint(1, 20, (3, 5)))
        assert stepper.step(torch.tensor([1, 2, 3])).dtype == torch.bfloat16
    with pytest.raises(UsageError, match=r"int8 needs regard\.fast") as refusal:
        in_precision(model, "int8")
    assert refusal.value.hint == "unset REGARD_FAST"
    with pytest.raises(UsageError, match="allowed are auto, fp32, bf16, int8"):
        in_precision(model, "fp8")


def test_what_runs_on_a_cpu_is_told_with_its_reasons():
    plain = told(transformer())
    assert plain["decoding steps"] == ("decoding steps", "one by one", "no GPU")
    assert plain["decoder stack"].why_not_faster == "its linear layers are not packed"
    assert plain["packed documents"].why_not_faster == plain["search"].why_not_faster == "no GPU"
    packed = pack_linears(transformer(), "fp32")
    kernels = loaded() is not None
    assert told(packed)["decoder stack"].runs == ("one native call" if kernels else "layer by layer")
    assert told(packed)["linear layers"].runs.startswith("packed in fp32, ")
    assert told(packed)["shortlist"].runs.startswith("scores of listed tokens only" if kernels else "all scores")
    assert plain["shortlist"].runs.startswith("all scores")
    assert "shortlist" not in told(GPT(GPTConfig(n_tokens=20, d_model=16, n_heads=2, n_layers=1, n_positions=8)))
    with watch(packed):
        assert told(packed)["encoder stack"].why_not_faster == "watched"
    assert told(packed.train())["encoder stack"].why_not_faster == "in training"
    gpt = GPT(GPTConfig(n_tokens=9, d_model=8, n_heads=2, n_layers=1))
    assert "decoder stack" not in told(gpt)
    assert told(pack_linears(gpt))["encoder stack"].why_not_faster == "causal"
    assert told(gpt.bfloat16())["attention"].why_not_faster.startswith("in bfloat16")


def test_other_scores_other_reasons_and_lines_to_read(monkeypatch):
    heads = MultiHeadAttention(8, 2, score=MLP(4, 4))
    stack = EncoderStack([EncoderBlock(8, attention=heads, feedforward=FeedForward(8, 8))]).eval()
    assert told(stack)["attention"] == ("attention", "the textbook", "compares by MLP")
    monkeypatch.setenv("REGARD_NATIVE", "0")
    lines = [str(choice) for choice in regard.fast.explain(pack_linears(transformer(), "int8"))]
    assert "decoder stack      layer by layer (REGARD_NATIVE=0 switches them off)" in lines


def test_switched_off_all_is_textbook(switch):
    switch("0")
    choices = regard.fast.explain(transformer())
    assert len(choices) > 6
    assert {choice[1:] for choice in choices} == {("the textbook", "REGARD_FAST=0")}
