"""Captured steps equal ordinary ones: on a processor all but the capture itself, on a GPU that too."""

import pickle
import threading
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import ClassVar

import pytest
import torch
from torch import nn

from regard.attention import Rows, watch
from regard.decoding import DecodeOptions, decode
from regard.decoding.paths import Paths
from regard.decoding.plan import SyncPolicy, make_plan
from regard.decoding.scoring import force_decode
from regard.errors import ShapeError, UsageError
from regard.fast.gpu.capture import rounded
from regard.fast.gpu.fused_greedy import FusedPaths
from regard.fast.gpu.graph_models import graph_model
from regard.fast.gpu.graph_pool import GraphPool, pool_of
from regard.fast.gpu.graph_stepper import start_graphs
from regard.models.gpt import GPT, GPTConfig
from regard.models.interfaces.text import Seq2SeqStepper
from regard.models.transformer import Transformer, TransformerConfig

V = 19
TRANSFORMERS = {
    "plain": {},
    "pre": {"order": "pre", "tied": "none", "output_bias": True},
    "learned": {"positions": "learned", "n_positions": 24},
    "rotary": {"positions": "rotary", "n_kv_heads": 2},
    "shared_keys": {"n_kv_heads": 1},
}
GPTS = {
    "gpt1": {"order": "post"},
    "gpt2": {},
    "llama": {"norm": "rms", "positions": "rotary", "gated": True, "n_kv_heads": 2, "d_head": 6, "tied": False},
    "sinusoidal": {"positions": "sinusoidal", "n_positions": 4},
}
STRATEGIES = {
    "greedy": {"strategy": "greedy"},
    "beam": {"strategy": "beam", "beam": 3, "n_best": 2},
    "groups": {"strategy": "beam", "beam": 4, "groups": 2, "diversity": 0.5},
    "sample": {"strategy": "sample", "n_samples": 2, "seed": 3, "temperature": 0.8},
}
POLICIES = {"eager": SyncPolicy(1, 1.0, True), "steady": SyncPolicy(3, 0.75, False)}


def spread(model):
    """In double precision, with random biases and norms: they start as zeros and ones, which hides mistakes."""
    model = model.double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def transformer(variant="plain", **options):
    tiny = {"d_model": 16, "n_heads": 4, "d_feedforward": 24, "n_encoder_layers": 1, "n_decoder_layers": 2}
    sizes = {"n_source": V, "n_target": V, "tied": "output"}
    return spread(Transformer(TransformerConfig(**{**tiny, **sizes, **TRANSFORMERS[variant], **options})))


def gpt(variant="gpt2", **options):
    tiny = {"n_tokens": V, "d_model": 16, "n_heads": 4, "n_layers": 2, "n_positions": 32}
    return spread(GPT(GPTConfig(**{**tiny, **GPTS[variant], **options})))


def ragged(*lengths):
    return Rows(torch.randint(1, V, (len(lengths), max(lengths))), torch.tensor(lengths))


def last_tokens(rows):
    return rows.ids.gather(1, rows.lengths[:, None] - 1)[:, 0]


def decoded(stepper, rows, *, first, sync=None, n_steps=9, **options):
    return decode(
        stepper,
        n_rows=len(rows.ids),
        bos_id=first,
        eos_id=V - 1,
        pad_id=0,
        options=DecodeOptions(max_length=n_steps, **options),
        sync=sync,
    )


def same(found, expected, tolerance=1e-5):
    """The same hypotheses in the same order, as likely; and they are worth a comparison."""
    assert [[h.tokens for h in row] for row in found] == [[h.tokens for h in row] for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=tolerance)
    assert len({h.finished for row in expected for h in row} | {len(h.tokens) for row in expected for h in row}) > 1


@pytest.mark.parametrize("sync", POLICIES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("variant", TRANSFORMERS)
def test_translates_as_uncaptured(variant, strategy, sync):
    model, source = transformer(variant), ragged(7, 2, 5, 4, 3)
    steppers = model.start(source), start_graphs(model, source, capacity=3)
    assert not isinstance(steppers[0], type(steppers[1]))
    options = {**STRATEGIES[strategy], "sync": POLICIES[sync]}
    expected, found = (decoded(stepper, source, first=1, **options) for stepper in steppers)
    same(found, expected)


@pytest.mark.parametrize("sync", POLICIES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("variant", GPTS)
def test_writes_as_uncaptured(variant, strategy, sync):
    model = gpt(variant)
    for prompts in (ragged(7, 1, 5, 2), ragged(1, 1, 1), ragged(4, 4)):
        steppers = model.start(prompts), start_graphs(model, prompts, capacity=3)
        options = {**STRATEGIES[strategy], "sync": POLICIES[sync], "first": last_tokens(prompts)}
        expected, found = (decoded(stepper, prompts, n_steps=12, **options) for stepper in steppers)
        same(found, expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled for the GPU then, this runs beside it")
@pytest.mark.parametrize("sync", POLICIES)
@pytest.mark.parametrize("min_length", [0, 5])
@pytest.mark.parametrize("make", [transformer, gpt])
def test_greedy_writing_stays_on_the_device_and_comes_to_the_same(make, min_length, sync):
    model, rows = make(), ragged(7, 2, 5, 4, 3)
    plan = make_plan(
        DecodeOptions(max_length=12, min_length=min_length),
        torch.device("cpu"),
        n_rows=5,
        bos_id=last_tokens(rows),
        eos_id=V - 1,
        pad_id=0,
        max_lengths=[6, 12, 9, 7, 8],
        sync=POLICIES[sync],
    )
    ways = Paths(model.start(rows), plan), FusedPaths(start_graphs(model, rows, capacity=3), plan)
    for paths in ways:
        with torch.inference_mode():
            paths.advance()
            while not paths.is_over():
                paths.advance()
    same(ways[1].hypotheses(), ways[0].hypotheses())


def both(model, rows, capacity=8):
    """An ordinary stepper and one over static caches that do the same, and have to come to the same."""
    steppers = model.start(rows), start_graphs(model, rows, capacity=capacity)

    def step(tokens):
        expected, found = (stepper.step(tokens) for stepper in steppers)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
        return found.clone()

    def select(rows, same_source):
        for stepper in steppers:
            stepper.select(torch.tensor(rows), same_source=same_source)

    return steppers[1], step, select


def test_rows_change_places_repeat_leave_and_multiply():
    model, source = transformer("rotary"), ragged(6, 2, 4)
    stepper, step, select = both(model, source)
    assert isinstance(stepper, Seq2SeqStepper)
    select([0, 1, 2], same_source=True)  # before any step
    select([0, 0, 1, 1, 2, 2], same_source=False)  # two beams each
    step(torch.tensor([1, 2, 3, 4, 5, 6]))
    select([1, 1, 3, 2, 4, 4], same_source=True)
    step(torch.tensor([7, 8, 9, 7, 8, 9]))
    select([1, 0, 2, 2, 5, 4], same_source=True)
    select([1, 0, 3, 2, 4, 5], same_source=True)  # twice without a step between
    step(torch.tensor([3, 3, 4, 4, 5, 5]))
    select([4, 5, 1, 1], same_source=False)  # the second sentence leaves, the others change places
    step(torch.tensor([2, 4, 6, 8]))
    select([0, 3, 2], same_source=False)  # uneven: no sharing of sources from here on
    select([2, 1, 0], same_source=False)
    step(torch.tensor([5, 6, 7]))
    select([0, 0, 0, 1, 1, 1, 2, 2, 2], same_source=False)
    step(torch.arange(1, 10))


def test_prompts_keep_where_they_begin():
    model, prompts = gpt("llama"), ragged(6, 2, 4)
    _, step, select = both(model, prompts)
    select([2, 1, 1, 0], same_source=False)
    step(torch.tensor([1, 2, 3, 4]))
    select([3, 2, 1, 1], same_source=False)  # as many as before, of other sources
    step(torch.tensor([1, 2, 3, 4]))
    select([0, 2, 1, 3], same_source=False)
    step(torch.tensor([4, 3, 2, 1]))


@pytest.mark.parametrize("make", [transformer, gpt])
def test_room_grows_when_it_is_outrun(make, monkeypatch):
    monkeypatch.setattr("regard.fast.gpu.graph_stepper._CAPACITY_STEP", 1)
    model, rows = make(), ragged(4, 2)
    stepper, step, select = both(model, rows, capacity=2)
    rooms = []
    for i in range(12):
        step(torch.tensor([i + 1, 3]))
        rooms.append(stepper._captured.shape.capacity)
        if i % 5 == 4:
            select([1, 0], same_source=False)
    assert rooms == sorted(rooms)
    assert rooms[-1] >= stepper.length
    assert 3 <= len(set(rooms)) <= 4, "it doubles"


def test_forced_decoding_is_the_same():
    model, source = transformer(), ragged(5, 3, 4)
    targets = [[3, 4, 5], [6], [7, 8, 9, 10, 11]]
    expected, found = (
        force_decode(stepper, targets, bos_id=1, eos_id=2, pad_id=0)
        for stepper in (model.start(source), start_graphs(model, source))
    )
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_logits_hold_until_the_next_step():
    model, source = transformer(), ragged(5, 3)
    stepper = start_graphs(model, source)
    first = stepper.step(torch.tensor([1, 1]))
    kept = first.clone()
    second = stepper.step(torch.tensor([4, 5]))
    assert second.data_ptr() == first.data_ptr(), "they lie where a replayed step leaves them"
    assert not torch.allclose(second, kept)


def test_captures_serve_again_but_never_two_at_once():
    model, source = transformer(), ragged(5, 3)
    first, second = start_graphs(model, source), start_graphs(model, source)
    tokens = torch.tensor([1, 2])
    expected = first.step(tokens).clone()
    second.step(tokens)
    one, other = first._captured, second._captured
    assert one is not other
    assert len(pool_of(model)) == 0
    del first
    assert len(pool_of(model)) == 1
    third = start_graphs(model, source)
    torch.testing.assert_close(third.step(tokens), expected)
    assert third._captured is one
    third.step(tokens)
    third.select(torch.tensor([0, 0, 1, 1]), same_source=False)
    assert len(pool_of(model)) == 0, "it holds what the rows hold until that has moved"
    third.step(torch.tensor([1, 1, 2, 2]))
    assert len(pool_of(model)) == 1
    assert third._captured.shape.per_source == 2
    # A few rows more, in a room that is rounded up, over what others left there.
    ids = torch.randint(1, V, (17, 5))
    again = start_graphs(model, ids)
    tokens = torch.randint(1, V, (17,))
    torch.testing.assert_close(again.step(tokens), model.start(ids).step(tokens))
    assert again._captured.shape.n_rows == 18
    del again
    once_more = start_graphs(model, ragged(*[4, 2] * 9))
    assert once_more.step(torch.ones(18, dtype=torch.long)).shape == (18, V)


@pytest.mark.parametrize("make", [transformer, gpt])
def test_a_capture_that_serves_again_has_forgotten(make):
    model = make()
    for rows in (ragged(5, 3, 4), ragged(2, 5, 1)):
        options = {**STRATEGIES["beam"], "first": last_tokens(rows), "sync": SyncPolicy(100, 0.0, False)}
        expected, found = (
            decoded(start(rows), rows, **options) for start in (model.start, partial(start_graphs, model))
        )
        same(found, expected)
        assert len(pool_of(model)) == 1


def test_captures_are_forgotten_when_weights_move_or_there_are_too_many():
    model, source = transformer(), ragged(5, 3)
    for _ in range(2):
        start_graphs(model, source).step(torch.tensor([1, 2]))
    assert len(pool_of(model)) == 1
    before = pool_of(model)._idle[0]
    weight = model.decoder.blocks[0].attention.out.weight
    weight.data = weight.data.clone() * 2
    changed = start_graphs(model, source)
    torch.testing.assert_close(changed.step(torch.tensor([1, 2])), model.start(source).step(torch.tensor([1, 2])))
    assert changed._captured is not before
    assert len(pool_of(model)) == 0
    model._graph_pool = GraphPool(max_captures=2)
    for n_rows in (1, 2, 3, 4):
        start_graphs(model, ragged(*[3] * n_rows)).step(torch.ones(n_rows, dtype=torch.long))
    assert [one.shape.n_rows for one in pool_of(model)._idle] == [3, 4]
    pool_of(model).max_bytes = 1
    start_graphs(model, source).step(torch.tensor([1, 2]))
    assert [one.shape.n_rows for one in pool_of(model)._idle] == [2], "the latest stays"
    pool_of(model).clear()
    assert len(pool_of(model)) == 0


def test_copies_of_a_model_capture_for_themselves():
    model = transformer()
    pool_of(model).compiled = True
    pool_of(model).enabled = False
    pool_of(model)._idle = [None]
    for copy in (deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert len(pool_of(copy)) == 0
        assert pool_of(copy).compiled
        assert not pool_of(copy).enabled
    assert "pool" not in "".join(model.state_dict())
    assert pool_of(transformer()).why_not(graph_model(model)) == "no GPU"


def test_refusals():
    model, source = transformer(), ragged(5, 3)
    stepper = start_graphs(model, source)
    with pytest.raises(ShapeError, match="3 tokens were given for 2 rows"):
        stepper.step(torch.tensor([1, 2, 3]))
    with watch(model), pytest.raises(UsageError, match="captured steps cannot be watched") as info:
        stepper.step(torch.tensor([1, 2]))
    assert "watched=True" in info.value.hint
    assert stepper.attention() is None
    packed = Rows.packed(torch.ones(4, dtype=torch.long), torch.tensor([3, 1]), longest=3)
    with pytest.raises(ShapeError, match="not a packed row"):
        start_graphs(model, packed)


def test_learned_positions_end_as_uncaptured():
    short = transformer("learned", n_positions=4)
    stepper = start_graphs(short, ragged(4, 2))
    for _ in range(4):
        stepper.step(torch.tensor([1, 2]))
    with pytest.raises(ShapeError, match="5 positions are more than the 4 learned ones"):
        stepper.step(torch.tensor([1, 2]))
    model, prompts = gpt(n_positions=8), ragged(6, 2)
    _, step, _ = both(model, prompts)
    step(last_tokens(prompts))
    for token in (3, 4, 5, 6, 7):  # the long row is done after two, and fed padding until it leaves
        step(torch.tensor([0, token]))
    stepper = start_graphs(model, prompts)
    for token in (3, 4, 5):
        stepper.step(torch.tensor([token, token]))
    with pytest.raises(UsageError, match="a text of 9 tokens was begun, and the model has 8 learned positions"):
        stepper.step(torch.tensor([6, 6]))


def test_in_mixed_precision():
    model, source = transformer().float(), ragged(5, 3)
    tokens = torch.tensor([1, 2])
    with torch.autocast("cpu", torch.bfloat16):
        captured, plain = start_graphs(model, source), model.start(source)
        for _ in range(3):
            found, expected = captured.step(tokens), plain.step(tokens)
            torch.testing.assert_close(found, expected, atol=0.15, rtol=0.05)
        assert found.dtype == torch.bfloat16
        assert captured._captured.cache.past[0].keys.dtype == torch.bfloat16


@pytest.mark.parametrize("make", [partial(transformer, "rotary"), gpt])
def test_a_step_can_be_compiled_as_a_whole(make, monkeypatch):
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **options: plain(function, backend="eager", **options))
    model, rows = make(), ragged(4, 2)
    pool_of(model).compiled = True
    _, step, _ = both(model, rows)
    for _ in range(3):
        step(torch.tensor([3, 4]))
    _, step, _ = both(model, ragged(3, 3, 1))
    step(torch.tensor([3, 4, 5]))


class PretendedStream:
    device = torch.device("cpu")

    def wait_stream(self, other):
        assert isinstance(other, PretendedStream)


class PretendedGraph:
    """Notes what would happen on a GPU."""

    told: ClassVar[list[str]] = []

    def capture_begin(self, *, pool, capture_error_mode):
        self.told.append("begin")

    def capture_end(self):
        self.told.append("end")

    def replay(self):
        self.told.append("replay")


def test_the_first_step_is_run_the_second_captured_and_the_others_replayed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", PretendedGraph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: PretendedStream())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    monkeypatch.setattr(GraphPool, "stream", lambda pool, device: PretendedStream())
    monkeypatch.setattr(GraphPool, "read", lambda pool, model, inputs: model.read_plainly(inputs))
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)  # not of a CPU's build
    PretendedGraph.told.clear()
    model, source = transformer(), ragged(5, 3)
    stepper, tokens = start_graphs(model, source), torch.tensor([1, 2])
    torch.testing.assert_close(stepper.step(tokens), model.start(source).step(tokens))
    other = threading.Thread(target=stepper.step, args=[tokens])
    other.start()
    other.join()
    assert PretendedGraph.told == [], "a thread that has not worked before captures nothing"
    stepper.step(tokens)
    assert PretendedGraph.told == ["begin", "end", "replay"]
    stepper.step(tokens)
    stepper.select(torch.tensor([1, 0]), same_source=True)
    stepper.step(tokens)
    assert PretendedGraph.told == ["begin", "end", *["replay"] * 3]
    del stepper
    start_graphs(model, ragged(4, 4)).step(tokens)
    assert PretendedGraph.told[2:] == ["replay"] * 4, "what is captured already is replayed from the first step on"
    start_graphs(model, ragged(4, 4, 4)).step(torch.tensor([1, 2, 3]))
    assert len(PretendedGraph.told) == 6


def test_rounding_wastes_little():
    assert [rounded(n) for n in (1, 7, 15, 17, 33, 64, 65, 1000)] == [1, 7, 15, 18, 36, 64, 72, 1024]
    assert [rounded(n, 32) for n in (1, 32, 33, 288, 1000)] == [32, 32, 64, 288, 1024]
    assert all(n <= rounded(n) <= 1.125 * n for n in range(1, 3000))


def needs_gpu(test):
    skip = pytest.mark.skipif(not torch.cuda.is_available(), reason="graph capture needs a GPU")
    return pytest.mark.gpu(skip(test))


def on_gpu(model, dtype=torch.float32):
    return model.to("cuda", dtype)


def there(rows):
    return Rows(rows.ids.cuda(), rows.lengths.cuda())


@needs_gpu
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("variant", TRANSFORMERS)
def test_captured_translation_on_a_gpu(variant, strategy):
    model, source = on_gpu(transformer(variant)), there(ragged(7, 2, 5, 4, 3))
    options = {**STRATEGIES[strategy], "n_steps": 20}
    for _ in range(3):  # run, captured, replayed from the first step on
        stepper = model.start(source, capacity=5)
        found = decoded(stepper, source, first=1, **options)
        assert stepper._captured is None or stepper._captured.tokens.is_cuda
    captures = [one for one in (*pool_of(model)._idle, stepper._captured) if one is not None]
    assert any(graph is not None for one in captures for graph in one._graphs.values())
    pool_of(model).enabled = False
    same(found, decoded(model.start(source), source, first=1, **options), 1e-3)


@needs_gpu
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("variant", GPTS)
def test_captured_writing_on_a_gpu(variant, strategy):
    model, prompts = on_gpu(gpt(variant)), there(ragged(7, 1, 5, 2))
    options = {**STRATEGIES[strategy], "n_steps": 20, "first": last_tokens(prompts)}
    for _ in range(3):
        found = decoded(model.start(prompts, capacity=5), prompts, **options)
    pool_of(model).enabled = False
    same(found, decoded(model.start(prompts), prompts, **options), 1e-3)


@needs_gpu
@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_captured_steps_in_half_precision_on_a_gpu(compiled):
    for make in (partial(transformer, d_model=64), partial(gpt, d_model=64)):
        model, rows = on_gpu(make(), torch.bfloat16), there(ragged(7, 2, 5))
        pool_of(model).compiled = compiled
        captured, exact = model.start(rows), deepcopy(model).float()
        pool_of(exact).enabled = False
        plain, tokens = exact.start(rows), torch.tensor([3, 4, 5], device="cuda")
        for _ in range(6):
            found, expected = captured.step(tokens), plain.step(tokens)
            torch.testing.assert_close(found.float(), expected, atol=0.08 * float(expected.abs().max()), rtol=0)
        assert any(graph is not None for graph in captured._captured._graphs.values())


@needs_gpu
@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 64])
def test_compiled_steps_outlive_what_the_compiler_captures_for_others(rows):
    config = GPTConfig(n_tokens=50_257, d_model=768, n_heads=12, n_layers=2, n_positions=64)
    model, prompts = on_gpu(GPT(config).eval(), torch.bfloat16), there(ragged(*[4] * rows))
    pool_of(model).compiled = True

    def written():
        found = decoded(model.start(prompts), prompts, n_steps=20, first=last_tokens(prompts), strategy="greedy")
        return [[h.tokens for h in row] for row in found]

    written()
    captured = written()
    other = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768)).to("cuda", torch.bfloat16)
    theirs, given = torch.compile(other, mode="reduce-overhead"), torch.randn(rows, 768, device="cuda").bfloat16()
    with torch.no_grad():
        for _ in range(4):  # it gives back what cuBLAS works in before it captures
            theirs(given)
    assert written() == captured
    torch.cuda.synchronize()


@needs_gpu
def test_what_is_not_captured_on_a_gpu():
    def why_not(module):
        return pool_of(module).why_not(graph_model(module))

    model, source = on_gpu(transformer()), there(ragged(5, 3))
    assert why_not(model) == ""
    assert not model.start(source, watched=True).step(torch.tensor([1, 2], device="cuda")).isnan().any()
    with watch(model):
        assert why_not(model) == "watched"
    assert why_not(model.train()) == "in training"
    assert why_not(model.eval().double()) == "in float64"
    wide = on_gpu(transformer(d_model=320, n_heads=2))
    assert why_not(wide) == "head width 160 > 128"
