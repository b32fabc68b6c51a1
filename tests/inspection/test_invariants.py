"""Promises are measured, and broken ones are found: each finding against a model that breaks just that."""

import pytest
import torch
from torch import nn

from regard.attention import Rows
from regard.inspection.invariants import MORE, Check, Given, Trial, compare_draws, measure_alone, measure_reading
from regard.models.registry import build

BERT = {"n_tokens": 11, "d_model": 16, "n_heads": 2, "d_feedforward": 16, "n_layers": 1, "n_positions": 16}


@pytest.fixture
def trial():
    ids = torch.randint(1, 11, (4, 6))
    rows = Rows(ids, torch.tensor([6, 3, 1, 4]))
    return Trial(build("bert", BERT).eval(), Given((rows,), (ids > 5).long()), limit=16)


class Wrong(nn.Module):
    """A model that does one thing wrong."""

    def __init__(self, inner, wrong):
        super().__init__()
        self.inner, self.wrong, self.calls = inner, wrong, 0

    def forward(self, rows, segments):
        return self.wrong(self.inner(rows, segments=segments), rows)


def failing(trial, wrong):
    broken = Trial(Wrong(trial.module, wrong), trial.given, limit=trial.limit)
    found = [measure_alone(broken), *measure_reading(broken)]
    return [finding.promise for finding in found if not finding.kept]


def test_a_sound_model_keeps_every_promise(trial):
    found = [measure_alone(trial), *measure_reading(trial)]
    assert len(found) == 5
    assert all(finding.kept for finding in found), found
    assert [finding.allowed for finding in found if "saved" in finding.promise] == [0.0]


def test_each_broken_promise_is_found(trial):
    assert failing(trial, lambda said, rows: said + len(said)) == ["a batch of one = a batch of 4"]
    padding = "what padding holds does not matter"
    assert padding in failing(trial, lambda said, rows: said + rows.ids.float().sum() * 1e-6)
    assert failing(trial, lambda said, rows: said + (said.shape[1] > 6)) == [
        "how much padding there is does not matter"
    ]


def test_weights_that_are_not_saved_are_found(trial):
    model = Wrong(trial.module, lambda said, rows: said)
    model.register_buffer("shift", torch.ones(1), persistent=False)
    model.wrong = None

    def run(module, given):
        return module.inner(given.rows[0], segments=given.segments) + (0 if module is model else 1)

    broken = Trial(model, trial.given, run=run, limit=16)
    assert "saved and loaded = itself" in [f.promise for f in measure_reading(broken) if not f.kept]


def test_no_more_padding_is_added_than_a_model_can_read(trial):
    assert trial.more == MORE
    full = Trial(trial.module, trial.given, limit=6)
    assert full.more == 0
    assert "how much padding there is does not matter" not in [f.promise for f in measure_reading(full)]


def test_small_outputs_are_held_to_a_small_tolerance(trial):
    small = Trial(trial.module, trial.given, run=lambda module, given: module(given.rows[0]) * 1e-3, limit=16)
    assert measure_alone(small).allowed < 1e-5


def test_a_finding_is_kept_only_if_no_text_differs():
    assert Check("p", 0.0, 0.0).kept
    assert not Check("p", 0.0, 0.0, n_different=1).kept
    assert not Check("p", 2.0, 1.0).kept


def drawn(*ids, score=0.0):
    """Two samples, as a model that writes gives them."""
    return [Written([*ids, sample], score) for sample in range(2)]


class Written:
    def __init__(self, ids, score):
        self.ids, self.score = ids, score


def test_draws_that_depend_on_anything_but_the_text_are_found():
    texts = [3, 1, 4, 1, 5]
    sound = compare_draws(lambda places: [drawn(texts[i]) for i in places], len(texts))
    assert (sound.promise, sound.kept) == ("a draw depends on its own text", True)
    wrong = {
        "the place in the list": lambda places: [drawn(texts[i], n) for n, i in enumerate(places)],
        "the size of the list": lambda places: [drawn(texts[i], len(places)) for i in places],
        "how often it was there before": lambda places: [drawn(i, places[:n].count(i)) for n, i in enumerate(places)],
    }
    for name, write in wrong.items():
        found = compare_draws(write, len(texts))
        assert not found.kept, name
        assert found.n_different
    louder = compare_draws(lambda places: [drawn(texts[i], score=0.01 * len(places)) for i in places], len(texts))
    assert not louder.kept
    assert louder.n_different == 0
