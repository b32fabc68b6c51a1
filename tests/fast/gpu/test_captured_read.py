"""Inputs read by graphs give what reading them gives; on a processor the same reading runs without graphs."""

import threading

import pytest
import torch
from torch import nn

from regard.attention import Rows
from regard.fast.gpu import captured_read
from regard.fast.gpu.captured_read import CapturedReads
from regard.fast.gpu.graph_models import graph_model
from regard.models.gpt import GPT, GPTConfig
from regard.models.transformer import Transformer, TransformerConfig

V, DEVICE = 19, torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu
STREAM = torch.cuda.Stream(DEVICE) if DEVICE.type == "cuda" else None
TINY = {"d_model": 16, "n_heads": 4}


def gpt(**options):
    model = GPT(GPTConfig(**{"n_tokens": V, "n_layers": 2, "n_positions": 40, **TINY, **options}))
    return randomised(model)


def transformer(**options):
    sizes = {"n_source": V, "n_target": V, "d_feedforward": 24, "n_encoder_layers": 2, "n_decoder_layers": 2}
    return randomised(Transformer(TransformerConfig(**{**sizes, **TINY, **options})))


MODELS = {
    "gpt2": gpt,
    "llama": lambda: gpt(norm="rms", positions="rotary", gated=True, n_kv_heads=2, activation="silu"),
    "sinusoidal gpt": lambda: gpt(positions="sinusoidal"),
    "transformer": transformer,
    "rotary transformer": lambda: transformer(positions="rotary"),
}


def randomised(model):
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval().to(DEVICE)


def inputs(*lengths, whole=False):
    ids = torch.randint(1, V, (len(lengths), max(lengths)), device=DEVICE)
    return ids if whole else Rows(ids, torch.tensor(lengths, device=DEVICE))


def held(contents):
    """What counts: the keys and values of each row up to its end."""
    parts = []
    for layer in contents.past:
        parts += [x[: int(n), i] for x in layer for i, n in enumerate(contents.positions)]
    for layer in contents.source:
        assert contents.lengths is not None
        parts += [x[i, :, : int(n)] for x in layer for i, n in enumerate(contents.lengths)]
    return parts


def check(found, expected):
    assert torch.equal(found.positions, expected.positions)
    pairs = list(zip(held(found), held(expected), strict=True))
    assert pairs or not expected.past
    for one, other in pairs:
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_read_is_the_same(name):
    model, reads = graph_model(MODELS[name]()), CapturedReads()
    for lengths in [(5, 3), (5, 3), (7, 7), (6, 1), (4, 4), (33, 2), (20, 20), (30, 4), (24, 19)]:
        for rows in (inputs(*lengths), inputs(*lengths, whole=True)):
            check(reads.read(model, rows, stream=STREAM), model.read_plainly(rows))


@pytest.mark.parametrize("name", MODELS)
def test_what_was_read_stays_when_others_are_read(name):
    model, reads = graph_model(MODELS[name]()), CapturedReads()
    several = [inputs(5, 3) for _ in range(5)]
    found = [reads.read(model, rows, stream=STREAM) for rows in several]
    for rows, contents in zip(several, found, strict=True):
        check(contents, model.read_plainly(rows))


def test_a_prompt_of_one_token_is_nothing_to_read():
    model, reads = graph_model(gpt()), CapturedReads()
    for _ in range(3):
        contents = reads.read(model, inputs(1, 1), stream=STREAM)
        assert contents.past == []
        assert contents.positions.tolist() == [0, 0]


def test_prompts_up_to_the_last_position():
    model, reads = graph_model(gpt()), CapturedReads()
    for _ in range(4):
        rows = inputs(40, 38)  # rounded up there would be no position for the last
        check(reads.read(model, rows, stream=STREAM), model.read_plainly(rows))


def test_weights_that_moved_are_read_where_they_are():
    module, reads = gpt(), CapturedReads()
    for _ in range(2):
        model, rows = graph_model(module), inputs(6, 4)
        for _ in range(4):
            check(reads.read(model, rows, stream=STREAM), model.read_plainly(rows))
        for parameter in module.parameters():
            parameter.data = torch.randn_like(parameter)


def test_how_many_are_held(monkeypatch):
    monkeypatch.setattr(captured_read, "MOST_TOKENS", 64)
    monkeypatch.setattr(captured_read, "_most_tokens", lambda model: 256)
    model, reads = graph_model(gpt()), CapturedReads()
    for lengths in [[n] * n_rows for n_rows in (1, 2, 3, 4, 5) for n in (8, 24)] + [[34]]:
        rows = inputs(*lengths)
        check(reads.read(model, rows, stream=STREAM), model.read_plainly(rows))
    # Of more than 64 tokens none is held, and what came first had to go.
    assert [(shape.n_rows, shape.length) for shape in reads._reads] == [(2, 16), (2, 32), (3, 16), (4, 16), (1, 40)]


def test_large_models_hold_fewer():
    few, many = (captured_read._most_tokens(graph_model(gpt(d_model=width))) for width in (64, 16))
    assert 0 < 4 * few <= many + 4


def test_several_threads_at_once():
    module, problems = transformer(), []

    def read(several):
        try:
            for rows in several:
                check(graph_model(module).read(rows), graph_model(module).read_plainly(rows))
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=read, args=[[inputs(5, 3) for _ in range(12)]]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_reading_that_goes_wrong_is_told_and_done_without_a_graph(monkeypatch, caplog):
    model, reads, rows = graph_model(transformer()), CapturedReads(), inputs(5, 3)
    keep, calls = captured_read._Read._keep, []

    def broken(*args):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("no room\nand more")
        keep(*args)

    monkeypatch.setattr(captured_read._Read, "_keep", broken)
    for _ in range(5):
        check(reads.read(model, rows, stream=STREAM), model.read_plainly(rows))
    assert len(calls) == 6
    told = [record.getMessage() for record in caplog.records]
    assert told == ["inputs of 2 × 16 are read without a CUDA graph: no room"]


def test_bits_are_the_same_however_often_inputs_are_read():
    model, reads, rows = graph_model(gpt()), CapturedReads(), inputs(5, 3)
    first, *others = [held(reads.read(model, rows, stream=STREAM)) for _ in range(5)]
    for parts in others:
        assert all(torch.equal(one, other) for one, other in zip(first, parts, strict=True))


def test_shapes_wait_for_one_another(monkeypatch):
    """Their graphs share memory, and whoever reads may come on another stream."""
    told = []

    class Event:
        def record(self, stream):
            told.append("over")

    class Stream:
        device = DEVICE

        def wait_event(self, event):
            told.append("waits")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    model, reads = graph_model(gpt()), CapturedReads()
    for rows in (inputs(5, 3), inputs(30, 4)):
        reads.read(model, rows, stream=Stream())
    assert told == ["over", "waits", "over"]
