"""AdamW and Muon: who updates what, exact continuation, and Newton–Schulz against the singular value decomposition."""

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from regard.attention import MultiHeadAttention
from regard.errors import CheckpointError, ConfigError, ShapeError
from regard.layers import EncoderBlock, GatedFeedForward
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.muon import Muon, orthogonal
from regard.training.optimizers import clip_gradients, make_optimizer

BATCH = torch.tensor([[3, 4, 5, 2], [6, 3, 2, 0]])


def tiny(seed=0, **options):
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "n_heads": 4, "d_feedforward": 24, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return Transformer(TransformerConfig(n_source=11, n_target=11, dropout=0.0, **sizes, **options))


def train(model, optimizer, steps):
    for step in steps:
        loss = nn.functional.cross_entropy(model(BATCH, BATCH)[:, :-1].flatten(0, 1), BATCH[:, 1:].flatten())
        loss.backward()
        optimizer.step(1e-2 / step)
        optimizer.zero_grad()


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def holders(optimizer):
    """Parameter name → its optimizer and group."""
    return {
        name: (type(o).__name__, next(g for g in o.param_groups if any(p is q for q in g["params"])))
        for name, (p, o) in optimizer._owners.items()
    }


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_stored_and_loaded_optimizer_goes_on_to_the_bit(name):
    settings = {"name": name, "lr": 1e-2, "weight_decay": 0.1}
    straight = tiny()
    train(straight, make_optimizer(straight, **settings), range(1, 11))

    first = tiny()
    optimizer = make_optimizer(first, **settings)
    train(first, optimizer, range(1, 6))
    stored, halfway = load(save(optimizer.state_tensors())), weights(first)
    second = tiny(seed=1)
    second.load_state_dict(halfway, strict=False)
    again = make_optimizer(second, **settings)
    again.load_state_tensors(stored)
    before = {key: value.clone() for key, value in stored.items()}
    train(second, again, range(6, 11))

    assert all(torch.equal(stored[key], before[key]) for key in stored), "the loaded tensors are copies"
    for key, expected in weights(straight).items():
        assert torch.equal(weights(second)[key], expected), key
    fresh = tiny(seed=1)
    fresh.load_state_dict(halfway, strict=False)
    train(fresh, make_optimizer(fresh, **settings), range(6, 11))
    assert not torch.equal(fresh.source_embedding.weight, straight.source_embedding.weight), "the state matters"


def test_adamw_updates_by_the_formula():
    layer = nn.Linear(2, 2, bias=False)
    start, gradient = layer.weight.detach().clone(), torch.tensor([[1.0, -2.0], [0.5, 4.0]])
    optimizer = make_optimizer(layer, name="adamw", lr=9.0, weight_decay=0.5, epsilon=1e-9)
    layer.weight.grad = gradient.clone()
    optimizer.step(0.1)
    # At the first step the corrected moments are g and g², so that the update is the sign of g.
    torch.testing.assert_close(layer.weight.detach(), start * (1 - 0.1 * 0.5) - 0.1 * gradient.sign())
    optimizer.zero_grad()
    assert layer.weight.grad is None


def test_biases_norms_and_embeddings_are_not_decayed():
    held = holders(make_optimizer(tiny(positions="learned", tied="none"), lr=1e-3, weight_decay=0.1))
    decays = {name for name, (_, group) in held.items() if group["weight_decay"]}
    spared = held.keys() - decays
    assert decays == {name for name in held if name.endswith(".weight") and "norm" not in name} - {
        "source_embedding.weight", "target_embedding.weight", "positions.table.weight",
    }  # fmt: skip
    assert "output.weight" in decays
    assert any("norm.weight" in name for name in spared)


def test_muon_takes_the_matrices_inside_blocks_and_adamw_the_rest():
    model = tiny(tied="none", n_kv_heads=2)
    held = holders(make_optimizer(model, name="muon", lr=1e-3, weight_decay=0.1))
    muon = {name for name, (kind, _) in held.items() if kind == "Muon"}
    assert muon == {n for n in held if ".blocks." in n and n.endswith(".weight") and "norm" not in n}
    assert {kind for name, (kind, _) in held.items() if name not in muon} == {"AdamW"}
    splits = {name.removesuffix(".weight"): held[name][1]["splits"] for name in muon}
    assert splits["encoder.blocks.0.attention.query_key_value"] == (16, 8, 8)
    assert splits["decoder.blocks.0.cross.key_value"] == (8, 8)
    assert splits["decoder.blocks.0.cross.query"] is None
    assert splits["decoder.blocks.0.feedforward.inner"] is None
    assert held.keys() == dict(model.named_parameters()).keys()


def test_the_gate_and_what_it_weighs_are_two_matrices():
    block = EncoderBlock(8, attention=MultiHeadAttention(8, 2), feedforward=GatedFeedForward(8, 12))
    held = holders(make_optimizer(block, name="muon", lr=1e-3))
    assert held["feedforward.gate_inner.weight"][1]["splits"] == (12, 12)


def test_shared_parameters_appear_once():
    model = tiny(tied="all")
    optimizer = make_optimizer(model, lr=1e-3)
    train(model, optimizer, [1])
    names = [name for name in optimizer.state_tensors() if "embedding" in name]
    assert names == [f"source_embedding.weight.{key}" for key in ("step", "exp_avg", "exp_avg_sq")]
    held = [p for o in optimizer.optimizers for g in o.param_groups for p in g["params"]]
    assert len(held) == len({id(p) for p in held}) == len(dict(model.named_parameters()))


def test_parameters_that_are_not_trained_are_left_out():
    model = tiny()
    model.source_embedding.weight.requires_grad_(False)
    model.encoder.blocks[0].attention.out.weight.requires_grad_(False)
    for name in ("adamw", "muon"):
        held = holders(make_optimizer(model, name=name, lr=1e-3))
        assert not {"source_embedding.weight", "encoder.blocks.0.attention.out.weight"} & held.keys()


def test_a_state_that_does_not_fit_is_refused_with_all_reasons():
    model = tiny()
    optimizer = make_optimizer(model, lr=1e-3)
    train(model, optimizer, [1])
    stored = optimizer.state_tensors()
    del stored["encoder.blocks.0.attention.out.bias.exp_avg"]
    stored["source_embedding.weight.exp_avg_sq"] = torch.zeros(3, 3)
    stored["something.momentum"] = torch.zeros(1)
    with pytest.raises(CheckpointError) as problem:
        make_optimizer(tiny(), lr=1e-3).load_state_tensors(stored)
    assert "3 tensors do not fit the optimizer" in str(problem.value)
    assert "encoder.blocks.0.attention.out.bias.exp_avg: missing" in str(problem.value)
    assert "source_embedding.weight.exp_avg_sq: [3, 3], expected [11, 16]" in str(problem.value)
    assert "something.momentum: unknown" in str(problem.value)


def test_unknown_names_and_models_without_blocks_are_refused():
    with pytest.raises(ConfigError, match=r"no optimizer is called 'sgd'; there are \['adamw', 'muon'\]"):
        make_optimizer(tiny(), name="sgd", lr=1.0)
    with pytest.raises(ConfigError, match="matrices inside attention blocks, and Linear has none") as problem:
        make_optimizer(nn.Linear(3, 3), name="muon", lr=1.0)
    assert "adamw" in problem.value.hint


@pytest.mark.parametrize("shape", [(8, 8), (5, 12), (12, 5)])
def test_newton_schulz_comes_near_the_orthogonal_factor(shape):
    matrices = torch.randn(3, *shape, dtype=torch.float64)
    u, _, vt = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonal(matrices)
    along = torch.linalg.svdvals(found)
    assert along.min() > 0.6
    assert along.max() < 1.3
    # The singular vectors are those of the matrix: in their basis the result is diagonal.
    inside = u.mT @ found @ vt.mT
    assert (inside - torch.diag_embed(inside.diagonal(dim1=1, dim2=2))).abs().max() < 1e-9


def test_muon_by_hand():
    weight = nn.Parameter(torch.randn(4, 6))
    start, gradients = weight.detach().clone(), [torch.randn(4, 6), torch.randn(4, 6)]
    optimizer = Muon([{"params": [weight]}], lr=0.1, weight_decay=0.5, momentum=0.9)
    expected, mean = start, torch.zeros(4, 6)
    for gradient in gradients:
        weight.grad = gradient
        optimizer.step()
        mean = 0.9 * mean + 0.1 * gradient
        update = orthogonal((0.1 * gradient + 0.9 * mean)[None])[0]
        expected = expected * (1 - 0.1 * 0.5) - 0.1 * 0.2 * 6**0.5 * update
    torch.testing.assert_close(weight.detach(), expected)


def test_muon_agrees_with_torch_on_whole_matrices():
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 48).sin().view(6, 8)) for _ in range(2))
    settings = {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.95}
    optimizers = [
        Muon([{"params": [ours]}], **settings),
        torch.optim.Muon([theirs], adjust_lr_fn="match_rms_adamw", **settings),
    ]
    for _ in range(4):
        ours.grad, theirs.grad = (gradient := torch.randn(6, 8)), gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(ours, theirs, atol=0.01, rtol=0)  # torch computes in bfloat16


def test_parts_of_a_joint_matrix_are_updated_as_if_alone():
    joint = nn.Parameter(torch.randn(12, 5))
    apart = [nn.Parameter(part.clone()) for part in joint.detach().split((6, 3, 3))]
    gradient = torch.randn(12, 5)
    joint.grad = gradient.clone()
    for part, piece in zip(apart, gradient.split((6, 3, 3)), strict=True):
        part.grad = piece.clone()
    whole = nn.Parameter(joint.detach().clone())
    whole.grad = gradient.clone()
    Muon([{"params": [joint], "splits": (6, 3, 3)}], lr=0.1).step()
    Muon([{"params": apart}], lr=0.1).step()
    Muon([{"params": [whole]}], lr=0.1).step()
    torch.testing.assert_close(joint.detach(), torch.cat([part.detach() for part in apart]))
    assert not torch.allclose(joint, whole, atol=1e-3)


def test_muon_refuses_what_is_no_matrix():
    with pytest.raises(ShapeError, match=r"muon works on matrices, got a parameter \[3\]"):
        Muon([{"params": [nn.Parameter(torch.zeros(3))]}], lr=1.0)
    with pytest.raises(ShapeError, match=r"parts of \[2, 3\] rows do not make up a matrix of 4"):
        Muon([{"params": [nn.Parameter(torch.zeros(4, 2))], "splits": (2, 3)}], lr=1.0)


def test_clipping_scales_all_gradients_together():
    one, other = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    one.grad, other.grad = torch.tensor([3.0]), torch.tensor([4.0])
    norm = clip_gradients([one, other], 1.0)
    assert isinstance(norm, torch.Tensor)
    assert norm.item() == pytest.approx(5.0)
    assert [one.grad.item(), other.grad.item()] == pytest.approx([0.6, 0.8], rel=1e-5)
    clip_gradients([one, other], 10.0)
    assert [one.grad.item(), other.grad.item()] == pytest.approx([0.6, 0.8], rel=1e-5)
