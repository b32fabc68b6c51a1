"""Exhibits that teach a model make their claims, and the claims fail when what they are about is broken."""

from __future__ import annotations

import pytest
import torch

import claims
from regard.attention import Dense, MultiHeadAttention
from regard.exhibits import cheating, context
from regard.exhibits.exhibit import Scale
from regard.exhibits.gallery import EXHIBITS
from taught import TAUGHT, makes_its_claim

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", TAUGHT)
def test_exhibit_makes_its_claim(name, tmp_path):
    makes_its_claim(name, tmp_path)


def test_every_exhibit_has_a_claim_that_is_tested():
    assert all(callable(getattr(claims, name)) for name in EXHIBITS)
    assert set(TAUGHT) < set(EXHIBITS)


def test_cheating_needs_the_mask(monkeypatch):
    monkeypatch.setattr(cheating, "MASKS", {"with the mask": None, "without": None})
    with pytest.raises(AssertionError):
        claims.cheating(cheating.run(Scale(small=True)).figures)


def test_context_needs_to_look_at_other_words(monkeypatch):
    whole = MultiHeadAttention.forward

    def only_oneself(self, hidden, memory=None, **options):
        return whole(self, hidden, memory, **(options | {"mask": Dense(torch.eye(hidden.shape[1], dtype=torch.bool))}))

    monkeypatch.setattr(MultiHeadAttention, "forward", only_oneself)
    with pytest.raises(AssertionError):
        claims.context(context.run(Scale(small=True)).figures)
