"""The engine: every answer is what `regard predict` says to that input alone, whoever else is asking."""

from __future__ import annotations

import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

import regard
from regard.checkpoints.run import RunFolder
from regard.config.twins import enabled
from regard.errors import UsageError
from regard.fast.cpu.native import why
from regard.serve.engine import Engine
from regard.serve.limits import Limits
from regard.serve.threads.walk_loop import WalkLoop
from regard.serve.tickets import Ask, BusyError, CancelledError, LateError, NobodyWatches, StoppingError
from regard.tasks.translation.shortlist import ShortlistTable

RUNS = Path(__file__).parents[1] / "golden" / "finished"
DATA = RUNS.parent / "data"
NUMERALS = ("one", "two", "three", "four", "five", "six")
PIECES = ("the ", "cat ", "sees ", "a ", "dog ", "hears ", ". ", "\n")


needs_kernels = pytest.mark.skipif(
    not enabled() or bool(why()), reason="inputs are read beside the steps where there are native kernels"
)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def alone():
    """Predictors that nobody else uses."""
    return {name: regard.load(RUNS / name, "cpu") for name in ("translation", "language", "captions-transformer")}


def engine_of(name, **limits):
    return Engine(regard.load(RUNS / name, "cpu"), Limits(**limits))


@pytest.fixture
def engine(request):
    made = engine_of(*request.param) if isinstance(request.param, tuple) else engine_of(request.param)
    yield made
    made.stop(0.1)


def record(output):
    return json.dumps(output.record(), ensure_ascii=False)


def some_request(chance):
    """A text of 1 to 200 words and a way to decode it."""
    name = chance.choice(["translation", "language"])
    words = NUMERALS if name == "translation" else PIECES
    text = (" " if name == "translation" else "").join(chance.choices(words, k=int(200 ** chance.random())))
    length = int(200 ** chance.random())
    ways = [
        {"strategy": "greedy"},
        {"beam": chance.randint(2, 5), "n_best": 2},
        {"strategy": "sample", "seed": chance.randrange(1000), "n_samples": chance.randint(1, 3), "top_k": 8},
    ]
    return name, text, chance.choice(ways) | {"max_length": length}


def test_500_mixed_requests_of_32_users_are_answered_as_each_alone(alone):
    chance = Random(7)
    requests = [some_request(chance) for _ in range(500)]
    engines = {name: engine_of(name, queue=64) for name in ("translation", "language")}

    def ask(request):
        name, text, options = request
        return engines[name].submit([Ask(text, options, finish=record)])[0].result(60)

    with ThreadPoolExecutor(32) as users:
        answers = list(users.map(ask, requests))
    for engine in engines.values():
        engine.stop(1.0)
    for (name, text, options), answer in zip(requests, answers, strict=True):
        assert answer == record(alone[name](text, **options)), (name, text, options)


def test_requests_out_of_a_shortlist_are_answered_as_each_alone(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(RUNS / "translation", run)
    languages = regard.load(run, "cpu").languages
    n_source, n_target = (len(side.tokenizer) for side in (languages.source, languages.target))
    draw = np.random.default_rng(0)
    frequent = np.unique(np.r_[0:4, draw.integers(0, n_target, 5)]).astype(np.int32)
    best = draw.integers(-1, n_target, (n_source, 2)).astype(np.int32)
    ShortlistTable(best, frequent, copied=False).save(RunFolder(run))
    own, chance = regard.load(run, "cpu"), Random(9)
    engine = Engine(regard.load(run, "cpu"), Limits(queue=64))
    requests = [request for request in (some_request(chance) for _ in range(120)) if request[0] == "translation"]
    listed = [(text, options | {"shortlist": chance.random() < 0.7}) for _, text, options in requests]
    try:
        with ThreadPoolExecutor(16) as users:
            asked = lambda one: engine.submit([Ask(*one, finish=record)])[0].result(60)  # noqa: E731
            answers = list(users.map(asked, listed))
    finally:
        engine.stop(1.0)
    for (text, options), answer in zip(listed, answers, strict=True):
        assert answer == record(own(text, **options)), (text, options)
    assert any(answer != record(own(text, **options | {"shortlist": False})) for (text, options), answer in
               zip(listed, answers, strict=True))  # fmt: skip


def test_requests_are_decoded_side_by_side():
    seen = []
    watcher = type("Seen", (NobodyWatches,), {"stepped": lambda self, n, s: seen.append(n)})()
    engine = Engine(regard.load(RUNS / "translation", "cpu"), Limits(), watcher=watcher)
    try:
        held = threading.Event()
        first = engine.submit([Ask("one", finish=lambda output: held.wait(10))])
        tickets = engine.submit([Ask("one two three", {"max_length": 40})] * 8)
        held.set()
        for ticket in [*first, *tickets]:
            ticket.result(20)
        assert max(seen) == 8
    finally:
        engine.stop(0.1)


@needs_kernels
def test_inputs_are_read_beside_the_steps_and_no_bit_changes(alone):
    torch.set_num_threads(2)
    chance, engines = Random(3), {}
    try:
        engines = {name: engine_of(name) for name in ("translation", "language", "labels")}
        assert [engine._worker.beside is not None for engine in engines.values()] == [True, True, False]
        asked = [some_request(chance) for _ in range(60)]
        tickets = [engines[name].submit([Ask(text, options, finish=record)])[0] for name, text, options in asked]
        for (name, text, options), ticket in zip(asked, tickets, strict=True):
            assert ticket.result(30) == record(alone[name](text, **options)), (name, text, options)
        assert torch.get_num_threads() == 2, "what an engine takes for itself is nobody else's"
    finally:
        torch.set_num_threads(1)
        for engine in engines.values():
            engine.stop(0.1)


@needs_kernels
def test_whoever_walks_and_whoever_does_not_may_come_at_any_moment(alone, monkeypatch):
    """Between a walk's last step and its hand-over others come and go; here there is time for that."""
    run, chance = WalkLoop.run, Random(0)

    def dawdling(loop):
        run(loop)
        time.sleep(chance.choice((0.0, 0.001, 0.004)))

    monkeypatch.setattr(WalkLoop, "run", dawdling)
    ways = {"greedy": {"strategy": "greedy", "beam": 1}, "beam": {"beam": 3}}
    texts = [" ".join(chance.choices(NUMERALS, k=n)) for n in (1, 3, 5, 8, 13)]
    right = {(t, way): alone["translation"](t, **options).text for t in texts for way, options in ways.items()}
    torch.set_num_threads(2)
    engine = engine_of("translation")

    def ask(seed):
        own, wrong = Random(seed), []
        for _ in range(60):
            text, way = own.choice(texts), own.choice(("greedy", "greedy", "greedy", "beam"))
            ticket = engine.submit([Ask(text, ways[way], finish=lambda output: output.text)])[0]
            if own.random() < 0.1:
                ticket.cancel()
                assert isinstance(ticket.future.exception(20), CancelledError | None)
            elif (said := ticket.result(20)) != right[text, way]:
                wrong.append((text, way, said))
        return wrong

    try:
        with ThreadPoolExecutor(8) as pool:
            assert [wrong for each in pool.map(ask, range(8)) for wrong in each] == []
    finally:
        torch.set_num_threads(1)
        engine.stop(0.1)


@needs_kernels
@pytest.mark.parametrize("options", [{"max_length": 300, "min_length": 299}, {"max_length": 300}])
def test_an_input_that_is_being_read_holds_up_nobody_who_has_begun(options):
    torch.set_num_threads(2)
    engine, begun, held = engine_of("translation"), threading.Event(), threading.Event()
    try:
        model = engine._models[0]
        start = model.start_each

        def slow(inputs, **how):
            if inputs[0].ids.numel() > 64:
                begun.set()
                assert held.wait(20)
            return start(inputs, **how)

        model.start_each = slow
        other = engine.submit([Ask("one two", options)])[0]
        while not other.has_begun:
            time.sleep(0.001)
        long = engine.submit([Ask("three four five " * 40, {"max_length": 2})])[0]
        assert begun.wait(20)
        assert other.result(20)
        assert engine.submit([Ask("six", {"max_length": 3})])[0].result(20), "nor who comes now"
        assert not long.future.done()
        long.cancel()
        with pytest.raises(CancelledError):
            long.result(5)
        held.set()
        assert engine.submit([Ask("six", {"max_length": 3})])[0].result(20)
    finally:
        held.set()
        torch.set_num_threads(1)
        engine.stop(0.1)


@needs_kernels
def test_whoever_leaves_or_fails_beside_the_steps_is_let_go():
    class Failing(NobodyWatches):
        def stepped(self, n_rows, seconds):
            if n_rows == 3:
                raise ZeroDivisionError

    torch.set_num_threads(2)
    engine = Engine(regard.load(RUNS / "language", "cpu"), Limits(), watcher=Failing())
    endless = Ask("the cat", {"max_length": 4000, "min_length": 3999})
    try:
        assert engine._worker.beside is not None
        left = engine.submit([endless])[0]
        while left.n_steps < 5:
            time.sleep(0.001)
        left.cancel()
        with pytest.raises(CancelledError):
            left.result(5)
        with pytest.raises(LateError):
            engine.submit([endless], deadline=0.1)[0].result(5)
        with pytest.raises(ZeroDivisionError):
            engine.submit([Ask("the", {"beam": 3})])[0].result(5)
        assert engine.n_running == engine._worker.beside.stepping.n_members == 0
        assert engine.submit([Ask("the", {"max_length": 3})])[0].result(5).text is not None
    finally:
        torch.set_num_threads(1)
        engine.stop(0.1)


@pytest.mark.parametrize("engine", ["captions-transformer"], indirect=True)
def test_captions_join_too(engine, alone):
    pictures = sorted(str(path) for path in (DATA / "captions" / "pictures").glob("*.png"))[:12]
    ways = [{}, {"beam": 3, "n_best": 2}, {"strategy": "sample", "seed": 3}]
    asks = [Ask(picture, ways[number % 3], finish=record) for number, picture in enumerate(pictures)]
    answers = [ticket.result(30) for ticket in engine.submit(asks)]
    assert answers == [record(alone["captions-transformer"](one.input, **one.options)) for one in asks]


@pytest.mark.parametrize("engine", ["speech"], indirect=True)
def test_recordings_join_too(engine):
    sounds = sorted(str(path) for path in (DATA / "speech").rglob("*.wav"))[:6]
    own = regard.load(RUNS / "speech", "cpu")
    asks = [Ask(sound, {"beam": 2} if number % 2 else {}, finish=record) for number, sound in enumerate(sounds)]
    answers = [ticket.result(30) for ticket in engine.submit(asks)]
    assert answers == [record(own(one.input, **one.options)) for one in asks]


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("labels", ["the cat sees a dog .", "the bird", "a", "so the dog hears a bird . the cat likes a cat ."]),
        ("masked", ["the [MASK] sees a dog .", "the cat [MASK] a [MASK] .", "[MASK]"]),
        ("answers", ["who sees\tso so the cat sees a dog .", "who hears\tthe dog hears a bird ."]),
    ],
)
def test_models_that_decode_nothing_answer_as_alone(name, inputs):
    own, engine = regard.load(RUNS / name, "cpu"), engine_of(name)
    try:
        answers = [ticket.result(30) for ticket in engine.submit([Ask(text, finish=record) for text in inputs * 5])]
        assert answers == [record(own(text)) for text in inputs * 5]
    finally:
        engine.stop(0.1)


def test_a_batch_is_one_prediction_and_its_bad_ones_are_told():
    predictor = regard.load(RUNS / "labels", "cpu")
    sizes, predict = [], predictor.predict
    predictor.predict = lambda inputs, **options: sizes.append(len(inputs)) or predict(inputs, **options)
    engine = Engine(predictor, Limits(gather=0.1), exact=False)
    try:
        tickets = engine.submit([Ask("the cat"), Ask(3), *[Ask("the dog")] * 4])
        assert {ticket.result(20).label for ticket in [tickets[0], *tickets[2:]]} <= set(predictor.space.names)
        with pytest.raises(UsageError):
            tickets[1].result(20)
        assert max(sizes) > 1
    finally:
        engine.stop(0.1)


@pytest.mark.parametrize("engine", ["language"], indirect=True)
def test_a_stream_says_what_a_call_says(engine, alone):
    pieces, speech = [], alone["language"].detokenizer("the cat", max_length=30)
    ask = Ask("the cat", {"max_length": 30}, kind="stream", tell=pieces.append)
    end = engine.submit([ask])[0].result(20)
    whole = alone["language"]("the cat", max_length=30)
    assert "".join([*map(speech.add, pieces), speech.rest()]) == whole.text
    assert (end.n_tokens, end.finished) == (len(whole.ids), whole.finished)


@pytest.mark.parametrize("engine", ["translation"], indirect=True)
def test_one_that_fails_harms_no_other(engine, alone):
    def fail(output):
        raise RuntimeError("no")

    good = Ask("one two", {"max_length": 30}, finish=record)
    bad = [Ask("one", finish=fail), Ask(7), Ask("one \ud800")]
    tickets = engine.submit([good, bad[0], good, bad[1], good, bad[2], good])
    for ticket in tickets[::2]:
        assert ticket.result(20) == record(alone["translation"]("one two", max_length=30))
    for ticket, kind in zip(tickets[1::2], (RuntimeError, UsageError, UsageError), strict=True):
        with pytest.raises(kind):
            ticket.result(20)


@pytest.mark.parametrize("engine", ["language"], indirect=True)
def test_cancelling_frees_the_rows_within_a_step(engine):
    endless = Ask("the cat", {"max_length": 4000, "min_length": 3999, "beam": 1, "strategy": "greedy"})
    ticket = engine.submit([endless])[0]
    while ticket.n_steps < 5:
        time.sleep(0.005)
    ticket.cancel()
    with pytest.raises(CancelledError):
        ticket.result(5)
    assert ticket.n_steps < 3990
    assert engine.n_running == 0
    assert engine.submit([Ask("the", {"max_length": 3})])[0].result(5)


@pytest.mark.parametrize("engine", ["language"], indirect=True)
def test_who_is_late_is_told_so(engine):
    endless = Ask("the cat", {"max_length": 4000, "min_length": 3999})
    with pytest.raises(LateError, match=r"longer than 0\.1 seconds"):
        engine.submit([endless], deadline=0.1)[0].result(5)


@pytest.mark.parametrize("engine", [("language",)], indirect=True)
def test_a_full_queue_refuses(engine):
    engine.limits = Limits(queue=3, rows=1)
    with pytest.raises(BusyError):
        engine.submit([Ask("the")] * 4)
    assert engine.n_waiting == 0


@pytest.mark.parametrize("engine", ["translation"], indirect=True)
@pytest.mark.parametrize("options", [{"beam": 65}, {"strategy": "sample", "n_samples": 70}, {"max_length": 5000}])
def test_more_than_allowed_is_refused_at_once(engine, options):
    with pytest.raises(UsageError, match="allowed"):
        engine.submit([Ask("one", options)])


def test_an_engine_that_fails_goes_on_with_others(caplog):
    class Failing(NobodyWatches):
        def stepped(self, n_rows, seconds):
            if n_rows == 3:
                raise ZeroDivisionError

    engine = Engine(regard.load(RUNS / "translation", "cpu"), Limits(), watcher=Failing())
    try:
        with pytest.raises(ZeroDivisionError):
            engine.submit([Ask("one two", {"beam": 3})])[0].result(5)
        assert engine.submit([Ask("one two", {"beam": 2})])[0].result(5).text is not None
    finally:
        engine.stop(0.1)


def test_stopping_finishes_what_it_can_and_ends_the_rest():
    engine = engine_of("language")
    endless = Ask("the cat", {"max_length": 4000, "min_length": 3999})
    long, short = engine.submit([endless, Ask("the", {"max_length": 3})])
    engine.stop(0.2)
    assert short.result(1).text is not None
    with pytest.raises(StoppingError):
        long.result(1)
    with pytest.raises(StoppingError):
        engine.submit([endless])
