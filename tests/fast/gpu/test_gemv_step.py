"""A language model's step in few kernels equals the ordinary one, on Triton's interpreter or a GPU."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import Rows
from regard.decoding.options import DecodeOptions
from regard.decoding.paths import Paths
from regard.decoding.plan import SyncPolicy, make_plan
from regard.fast.gpu.capture import CapturedDecoding, CaptureShape
from regard.fast.gpu.fused_greedy import FusedPaths
from regard.fast.gpu.graph_models import graph_model
from regard.fast.gpu.graph_pool import pool_of
from regard.fast.gpu.graph_stepper import start_graphs
from regard.models.gpt import GPT, GPTConfig

steps = pytest.importorskip(
    "regard.fast.gpu.few_rows.gemv_step", reason="Triton is not installed: it is part of the dev extra on Linux"
)

V, DEVICE = 19, torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu
DTYPE, TOLERANCE = (torch.float32, 1e-3) if DEVICE.type == "cuda" else (torch.float64, 1e-6)
GPTS = {
    "gpt2": {},
    "without biases": {"attention_bias": False, "feedforward_bias": False, "norm_bias": False, "activation": "gelu"},
    "llama": {"norm": "rms", "positions": "rotary", "gated": True, "n_kv_heads": 2, "d_head": 6, "activation": "silu"},
    "untied": {"tied": False, "activation": "relu", "d_model": 24, "n_kv_heads": 1},
}
OTHERS = {
    "gpt1": {"order": "post"},
    "sinusoidal": {"positions": "sinusoidal"},
}


def gpt(variant="gpt2", **options):
    """With random biases and norms: they start as zeros and ones, which hides mistakes."""
    tiny = {"n_tokens": V, "d_model": 16, "n_heads": 4, "n_layers": 2, "n_positions": 32}
    model = GPT(GPTConfig(**{**tiny, **{**GPTS, **OTHERS}[variant], **options})).eval().to(DEVICE, DTYPE)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    pool = pool_of(model)
    pool.gemv_rows, pool.enabled = 4, False  # only `start_graphs` captures
    return model


def ragged(*lengths):
    return Rows(torch.randint(1, V, (len(lengths), max(lengths)), device=DEVICE), torch.tensor(lengths, device=DEVICE))


@pytest.fixture
def taken(monkeypatch):
    """Few rows go this way on any device; how many steps did, before they were replayed."""
    monkeypatch.setattr(CapturedDecoding, "uses_gemv", property(lambda one: one.shape.n_rows <= one.gemv_rows))
    if DEVICE.type == "cpu":
        monkeypatch.setattr(
            "regard.fast.gpu.few_rows.gemv.OUTPUTS", 64
        )  # the interpreter goes through programs one by one
    calls, call = [], steps.GemvStep.__call__
    monkeypatch.setattr(steps.GemvStep, "__call__", lambda *args: calls.append(1) or call(*args))
    return calls


@pytest.mark.parametrize("lengths", [(5,), (1,), (6, 2), (3, 7, 1, 4)], ids=str)
@pytest.mark.parametrize("variant", GPTS)
def test_steps_come_to_the_same(variant, lengths, taken):
    model, prompts = gpt(variant), ragged(*lengths)
    plain, captured = model.start(prompts), start_graphs(model, prompts, capacity=6)
    for _ in range(4):
        tokens = torch.randint(1, V, (len(lengths),), device=DEVICE)
        torch.testing.assert_close(captured.step(tokens), plain.step(tokens), atol=TOLERANCE, rtol=0)
    assert taken


@pytest.mark.parametrize("variant", GPTS)
def test_with_attention_in_parts(variant, taken, monkeypatch):
    """As on a GPU; its sums are in single precision."""
    monkeypatch.setattr(steps, "_has_kernels", lambda device: True)
    monkeypatch.setattr("regard.fast.gpu.few_rows.split_kv.BLOCK", 16)
    model, prompts = gpt(variant), ragged(28, 3)
    plain, captured = model.start(prompts), start_graphs(model, prompts, capacity=6)
    for _ in range(2):
        tokens = torch.randint(1, V, (2,), device=DEVICE)
        torch.testing.assert_close(captured.step(tokens), plain.step(tokens), atol=1e-3, rtol=0)
    assert taken


def test_beams_change_places(taken):
    model, prompts = gpt(), ragged(5, 2)
    steppers = model.start(prompts), start_graphs(model, prompts, capacity=6)
    for i, rows in enumerate(([0, 0, 1, 1], [1, 0, 2, 2], [0, 0, 3, 2], [2, 2, 0, 1])):
        for stepper in steppers:
            stepper.select(torch.tensor(rows, device=DEVICE), same_source=0 < i < 3)
        tokens = torch.randint(1, V, (4,), device=DEVICE)
        expected, found = (stepper.step(tokens) for stepper in steppers)
        torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    assert taken


@pytest.mark.parametrize("min_length", [0, 5])
def test_greedy_writing(min_length, taken):
    model, prompts = gpt(), ragged(7, 2, 5)
    plan = make_plan(
        DecodeOptions(max_length=8, min_length=min_length),
        DEVICE,
        n_rows=3,
        bos_id=prompts.ids.gather(1, prompts.lengths[:, None] - 1)[:, 0],
        eos_id=V - 1,
        pad_id=0,
        max_lengths=[6, 8, 7],
        sync=SyncPolicy(2, 1.0, True),
    )
    ways = Paths(model.start(prompts), plan), FusedPaths(start_graphs(model, prompts, capacity=3), plan)
    for paths in ways:
        with torch.inference_mode():
            paths.advance()
            while not paths.is_over():
                paths.advance()
    expected, found = (paths.hypotheses() for paths in ways)
    assert [[h.tokens for h in row] for row in found] == [[h.tokens for h in row] for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[0].token_log_probs == pytest.approx(theirs[0].token_log_probs, abs=10 * TOLERANCE)
    assert taken


def test_rows_beyond_the_last_position_are_done_and_do_no_harm(taken):
    model, prompts = gpt(n_positions=8), ragged(6, 2)
    plain, captured = model.start(prompts), start_graphs(model, prompts)
    for token in (3, 4, 5, 6, 7):  # the long row is done after two, and fed padding until it leaves
        tokens = torch.tensor([0, token], device=DEVICE)
        torch.testing.assert_close(captured.step(tokens)[1], plain.step(tokens)[1], atol=TOLERANCE, rtol=0)
    assert taken


@pytest.mark.parametrize("variant", OTHERS)
def test_what_the_kernels_do_not_know_goes_the_ordinary_way(variant, taken):
    model, prompts = gpt(variant), ragged(3)
    assert graph_model(model).gemv_step() is None
    token = torch.tensor([4], device=DEVICE)
    expected, found = (start(prompts).step(token) for start in (model.start, partial(start_graphs, model)))
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    assert not taken


def test_what_is_unusual_goes_the_ordinary_way(taken):
    assert graph_model(gpt().train()).gemv_step() is None
    mixed, wide, own = gpt(), gpt(), gpt()
    mixed.stack.final_norm.bfloat16()
    wide.stack.blocks[1].feedforward.outer = nn.Linear(steps.LONGEST + 1, 16).to(DEVICE, DTYPE)
    own.stack.blocks[0].attention.out = nn.Sequential(own.stack.blocks[0].attention.out)
    assert graph_model(mixed).gemv_step() is graph_model(wide).gemv_step() is graph_model(own).gemv_step() is None
    assert graph_model(gpt()).gemv_step() is not None
    model, prompts = gpt(), ragged(*[3] * 5)
    start_graphs(model, prompts).step(torch.ones(5, dtype=torch.long, device=DEVICE))
    assert not taken, "five rows are not few"


class Launches(TorchDispatchMode):
    """Counts what would be a kernel: all of PyTorch's work that is not a view or an allocation."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        if not func.is_view and name not in ("empty", "new_empty"):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


def test_a_step_is_five_kernels_a_block_and_two_around_them(monkeypatch):
    calls = []

    def pretended(name, result):
        def call(*args, **options):
            calls.append(name)
            return result(*args, **options)

        monkeypatch.setattr(steps, name, call)

    pretended("embed_step", lambda tokens, slots, table, places: table.new_empty((len(tokens), table.shape[1])))
    pretended("gemv", lambda x, weight, bias, **options: x.new_empty((len(x), len(weight))))
    pretended("attend_split_kv", lambda q, *args, **options: (q.new_empty(len(q), 1, 16), q.new_empty(len(q), 1, 4)))
    monkeypatch.setattr(steps, "_has_kernels", lambda device: True)
    model = gpt(n_layers=3)
    cache = CapturedDecoding(graph_model(model), CaptureShape(2, 1, 0, 8, DTYPE, autocast=False)).cache
    tokens = torch.ones(2, dtype=torch.long, device=DEVICE)
    with torch.inference_mode(), Launches() as launches:
        graph_model(model).gemv_step()(tokens, cache)
    assert launches.names == []
    assert len(calls) == 1 + 5 * 3 + 1
