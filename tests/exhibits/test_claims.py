"""Exhibits that learn little or nothing make their claims, and the claims fail when what they are about is broken."""

from __future__ import annotations

import pytest
import torch

import claims
from regard.attention import Causal, ScaledDot, Sinusoidal, attend_explicitly
from regard.attention.scores import Gaussian
from regard.exhibits import account, averaging, cheating, context, order, parallel, quadratic, scaling, shift, vanishing
from regard.exhibits.exhibit import Scale
from regard.exhibits.gallery import EXHIBITS
from regard.layers import Recurrent
from taught import TAUGHT, makes_its_claim

SMALL = Scale(small=True)


@pytest.mark.parametrize("name", [name for name in EXHIBITS if name not in TAUGHT])
def test_exhibit_makes_its_claim(name, tmp_path):
    makes_its_claim(name, tmp_path)


def broken(exhibit):
    with pytest.raises(AssertionError):
        getattr(claims, exhibit.__name__.rpartition(".")[2])(exhibit.run(SMALL).figures)


def test_averaging_needs_its_bandwidth(monkeypatch):
    monkeypatch.setattr(Gaussian, "_in_bandwidths", lambda self, points: points / 5_000)
    broken(averaging)


def test_scaling_needs_the_division_inside(monkeypatch):
    monkeypatch.setattr(ScaledDot, "dot_scale", lambda self, width: 1.0)
    broken(scaling)


def test_order_needs_positions(monkeypatch):
    monkeypatch.setattr(Sinusoidal, "forward", lambda self, embedded, **_: embedded)
    broken(order)


def test_shift_needs_the_right_turn(monkeypatch):
    monkeypatch.setattr(shift, "shift_matrix", lambda t, width, **_: torch.eye(width, dtype=torch.float64))
    broken(shift)


def test_vanishing_needs_attention_to_reach_far(monkeypatch):
    kinds = vanishing.kinds()
    monkeypatch.setattr(vanishing, "kinds", lambda: kinds | {"Transformer": kinds["RNN"]})
    broken(vanishing)


def test_parallel_tells_a_loop_from_one_product(monkeypatch):
    monkeypatch.setattr(parallel, "MultiHeadAttention", lambda width, heads: Recurrent("rnn", width, d_hidden=width))
    broken(parallel)


def test_quadratic_notices_weights_that_are_kept(monkeypatch):
    monkeypatch.setattr(quadratic, "WAYS", {"fused": attend_explicitly, "written out": attend_explicitly})
    broken(quadratic)


def test_account_notices_a_layer_that_is_not_counted(monkeypatch):
    counted = account.forward_flops
    monkeypatch.setattr(account, "forward_flops", lambda config, **sizes: counted(config, **sizes).times(0.99))
    broken(account)


def test_the_same_seed_gives_the_same_figures():
    assert context.run(SMALL).figures == context.run(SMALL).figures, "a lesson is the same lesson"
    first, again, other = (scaling.run(Scale(small=True, seed=seed)).figures for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_the_mask_that_cheating_leaves_out_is_the_one_gpt_has():
    from regard.models.gpt import GPT, GPTConfig

    model = GPT(GPTConfig(n_tokens=9, d_model=8, n_heads=2, n_layers=2, n_positions=8, dropout=0.0)).eval()
    ids = torch.randint(9, (2, 6))
    ours = cheating.next_word_loss(model, ids, Causal())
    logits = model(ids[:, :-1]).flatten(0, 1)
    theirs = torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten(), ignore_index=0)
    assert torch.allclose(ours, theirs)
