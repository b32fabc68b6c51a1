"""Rows that many decodings share: each gets what it would get alone. On a processor all but the capture itself."""

import random
from functools import partial

import pytest
import torch

from regard.attention import Rows
from regard.decoding import DecodeOptions, decode
from regard.errors import ShapeError, UsageError
from regard.fast.gpu.capture import CaptureShape, static_caches
from regard.fast.gpu.graph_models import graph_model
from regard.fast.gpu.shared_decoding import SharedDecoding, SharedModel
from regard.fast.gpu.shared_rows.launch_plan import LaunchPlan
from regard.models.gpt import GPT

pytest.importorskip("greenlet", reason="the extra serve is not installed")
from tests.fast.gpu.test_graph_stepper import GPTS, V, gpt, transformer

from regard.serve.joining import Decoding, JoinedModel, advance, begin

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.gpu
EOS, PAD = 2, 0
KINDS = {
    "greedy": {"strategy": "greedy"},
    "beam": {"strategy": "beam", "beam": 3, "n_best": 2},
    "sample": {"strategy": "sample", "seed": 3, "temperature": 0.8},
    "samples": {"strategy": "sample", "n_samples": 3, "seed": 5},
    "nucleus": {"strategy": "sample", "seed": 4, "top_p": 0.7},
    "banned": {"strategy": "greedy", "banned": (3, 4)},
    "no repeats": {"strategy": "greedy", "no_repeat_ngram": 2},
    "least": {"strategy": "greedy", "min_length": 4},
}
MODELS = {**{f"gpt {name}": partial(gpt, name) for name in GPTS}, "transformer": transformer}


def asked(model, ids, kind, max_length, key, *, prompted):
    """What a decoding of one row comes to, with a model as it is or one that is shared: tokens, end, log-probs."""
    found = decode(
        model.start(Rows(torch.tensor([ids], device=DEVICE)), capacity=max_length),
        n_rows=1,
        bos_id=ids[-1] if prompted else 1,
        eos_id=EOS,
        pad_id=PAD,
        options=DecodeOptions(max_length=max_length, **KINDS[kind]),
        row_keys=[key],
    )
    return [(one.tokens, one.finished, one.token_log_probs) for one in found[0]]


def requests_of(n, *, seed, kinds=tuple(KINDS)):
    draw = random.Random(seed)
    return [
        ([draw.randrange(3, V) for _ in range(draw.randint(1, 7))], draw.choice(kinds), draw.randint(5, 12), i)
        for i in range(n)
    ]


def n_rows_of(kind):
    return KINDS[kind].get("beam", KINDS[kind].get("n_samples", 1))


def served(model, shared, requests, *, most):
    """All requests through one engine's ticks, a few at a time as rows become free."""
    joined, waiting, live, outcomes = JoinedModel(SharedModel(model, shared)), list(enumerate(requests)), {}, {}
    while waiting or live:
        while waiting and sum(n_rows_of(requests[number][1]) for number in live.values()) < most:
            number, request = waiting.pop(0)
            one = Decoding(partial(asked, joined, *request, prompted=isinstance(model, GPT)))
            live[one] = number
            one.start()
        begin(list(live))
        advance(list(live))
        for one in [one for one in live if one.over]:
            outcomes[live.pop(one)] = one.outcome
    return [outcomes[i] for i in range(len(requests))]


def alone(model, requests):
    return [asked(model, *request, prompted=isinstance(model, GPT)) for request in requests]


def assert_same(found, expected):
    assert [[one[:2] for one in each] for each in found] == [[one[:2] for one in each] for each in expected]
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one[2] == pytest.approx(other[2], abs=1e-4)


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("exact", [False, True], ids=["batched", "exact"])
@pytest.mark.parametrize("name", MODELS)
def test_everybody_gets_what_they_would_get_alone(name, exact):
    model, requests = MODELS[name]().to(DEVICE), requests_of(30, seed=1)
    shared = SharedDecoding(graph_model(model), n_rows=9, exact=exact)
    assert_same(served(model, shared, requests, most=6), alone(model, requests))
    assert shared.n_free() == 9, "all rows are given back"


def test_rows_that_only_write_do_so_several_steps_at_a_time(monkeypatch):
    model, requests = gpt().to(DEVICE), requests_of(40, seed=2, kinds=("greedy", "sample", "samples"))
    shared, launches = SharedDecoding(graph_model(model), n_rows=16), []
    launch = shared._launch
    monkeypatch.setattr(shared, "_launch", lambda n, **how: launches.append(n) or launch(n, **how))
    assert_same(served(model, shared, requests, most=13), alone(model, requests))
    assert max(launches) > 1


@pytest.mark.parametrize("plan", [LaunchPlan(1, 1), LaunchPlan(2, 2), LaunchPlan(5, 4)], ids=str)
def test_any_plan_of_launches_gives_the_same(plan):
    model, requests = gpt().to(DEVICE), requests_of(30, seed=6, kinds=("greedy", "sample", "samples", "beam"))
    shared = SharedDecoding(graph_model(model), n_rows=16, plan=plan)
    assert_same(served(model, shared, requests, most=13), alone(model, requests))


def test_rows_told_of_several_launches_at_once_get_the_same(monkeypatch):
    monkeypatch.setattr(LaunchPlan, "n_held", lambda *_, **__: 3)
    model, requests = gpt().to(DEVICE), requests_of(30, seed=7, kinds=("greedy", "sample", "samples"))
    shared = SharedDecoding(graph_model(model), n_rows=16, plan=LaunchPlan(2, 2))
    monkeypatch.setattr(shared, "_n_steps", lambda: 2)
    assert_same(served(model, shared, requests, most=13), alone(model, requests))
    assert not shared._writing


def test_the_first_tokens_and_the_last_are_not_held_back(monkeypatch):
    monkeypatch.setattr(LaunchPlan, "n_held", lambda *_, **__: 1000)
    model = gpt().to(DEVICE)
    shared = SharedDecoding(graph_model(model), n_rows=4, plan=LaunchPlan(2, 2))
    monkeypatch.setattr(shared, "_n_steps", lambda: 2)
    one = Decoding(partial(asked, JoinedModel(SharedModel(model, shared)), [3, 4], "banned", 12, 0, prompted=True))
    one.start()
    begin([one])
    tokens = [advance([one]).n_tokens for _ in range(20) if not one.over]
    n = len(one.outcome[0][0]) + one.outcome[0][1]
    assert tokens[:3] == [0, min(2, n), 0 if n > 4 else n - 2], "of the second launch, the first is looked at"
    assert sum(tokens) == n
    assert len(tokens) == 1 + -(-n // 2), "the last launch that brought a token is the last that was looked at"


@pytest.mark.parametrize("name", ["gpt llama", "transformer"])
def test_layers_in_one_tensor_hold_what_layers_by_themselves_do(name):
    model = graph_model(MODELS[name]().to(DEVICE))
    dtype, n_source = model.module.output_weight.dtype, 12 if name == "transformer" else 0
    shape = CaptureShape(9, 1, n_source, 12, dtype, autocast=False)
    together, apart = (static_caches(model, shape, together=which) for which in (True, False))
    ids, lengths = torch.randint(3, V, (3, 6), device=DEVICE), torch.tensor([6, 2, 4], device=DEVICE)
    for n, rows in ((3, [7, 0, 4]), (2, [4, 8])):
        contents = model.read(Rows(ids[:n], lengths[:n]))
        for cache in (together, apart):
            contents.copy_to(cache, torch.tensor(rows, device=DEVICE))
    assert (together.whole_past is None, apart.whole_past) == (False, None)
    for ours, theirs in zip([*together.past, *together.source], [*apart.past, *apart.source], strict=True):
        assert torch.equal(ours.keys, theirs.keys)
        assert torch.equal(ours.values, theirs.values)
        assert theirs.keys.any() or name == "transformer"
    assert torch.equal(together.slots.positions, apart.slots.positions)


@pytest.mark.parametrize(
    ("rows", "step_seconds", "plan", "n_steps"),
    [
        (256, 0.0024, LaunchPlan(), 8),
        (256, 0.0030, LaunchPlan(), 8),
        (256, 0.0200, LaunchPlan(), 1),
        (256, 0.0024, LaunchPlan(4, 2), 4),
        (256, 0.0028, LaunchPlan(16, 2), 16),
        (1, 0.0003, LaunchPlan(), 32),
        (1, 0.00001, LaunchPlan(12, 2), 60),
    ],
)
def test_launches_are_whole_graphs_where_steps_are_short(rows, step_seconds, plan, n_steps):
    assert plan.n_steps(rows, step_seconds=step_seconds) == n_steps
    assert sum(plan.graphs(n_steps)) == n_steps


@pytest.mark.parametrize("name", ["gpt llama", "transformer"])
def test_more_room_is_made_while_others_go_on(name, monkeypatch):
    monkeypatch.setattr("regard.fast.gpu.shared_decoding._ROOM", 4)
    model, requests = MODELS[name]().to(DEVICE), requests_of(25, seed=3)
    shared = SharedDecoding(graph_model(model), n_rows=9)
    assert_same(served(model, shared, requests, most=6), alone(model, requests))


def test_whoever_finds_no_free_row_steps_alone():
    model, requests = gpt().to(DEVICE), requests_of(6, seed=4, kinds=("greedy",))
    shared = SharedDecoding(graph_model(model), n_rows=2)
    assert_same(served(model, shared, requests, most=6), alone(model, requests))
    assert shared.n_free() == 2


def test_one_who_leaves_frees_its_rows_and_harms_nobody():
    model, requests = gpt().to(DEVICE), requests_of(4, seed=5)
    shared = SharedDecoding(graph_model(model), n_rows=12)
    joined = JoinedModel(SharedModel(model, shared))
    stays = Decoding(partial(asked, joined, *requests[0], prompted=True))
    goes = [Decoding(partial(asked, joined, ids, "samples", 12, key, prompted=True)) for ids, _, _, key in requests[1:]]
    for one in (stays, *goes):
        one.start()
    begin([stays, *goes])
    advance([stays, *goes])
    for one in goes:
        one.stop(RuntimeError("gone"))
    assert shared.n_free() >= 9
    while not stays.over:
        advance([stays])
    assert_same([stays.outcome], alone(model, requests[:1]))


def test_refusals():
    model = gpt(n_positions=8).to(DEVICE)
    shared = SharedDecoding(graph_model(model), n_rows=2)
    stepper = shared.start([torch.tensor([[3, 4, 5]], device=DEVICE)], capacities=[9])[0]
    with pytest.raises(ShapeError, match="2 tokens were given for 1 rows"):
        stepper.step(torch.tensor([3, 4], device=DEVICE))
    with pytest.raises(ShapeError, match="2 rows are wanted, and 1 of 2 are free"):
        shared.start([torch.tensor([[3], [4]], device=DEVICE)], capacities=[3])
    with pytest.raises(ShapeError, match="positions"):
        shared.start([torch.full((1, 12), 3, device=DEVICE)], capacities=[3])
    assert shared.n_free() == 1, "rows of who could not be read are given back"
    for _ in range(6):
        stepper.step(torch.tensor([3], device=DEVICE))
    with pytest.raises(UsageError, match="a text of 9 tokens was begun, and the model has 8 learned positions"):
        stepper.step(torch.tensor([3], device=DEVICE))


@pytest.mark.parametrize("plan", [(0, 2), (65, 2), (8, 0)])
def test_plans_of_launches_that_cannot_be_are_refused(plan):
    with pytest.raises(UsageError, match="allowed are 1 to 64, and 1 or more"):
        LaunchPlan(*plan)
