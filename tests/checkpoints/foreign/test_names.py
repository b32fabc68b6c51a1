"""One description of foreign names, read in both directions."""

import pytest
import torch

from regard.checkpoints.foreign.names import NameMap, Rule, shapes_of
from regard.errors import CheckpointError

RULES = (
    Rule("net.emb.weight", "embedding.weight"),
    Rule("net.h.{i}.up.weight", "blocks.{i}.inner.weight", transposed=True),
    Rule(
        ("net.h.{i}.q.weight", "net.h.{i}.k.weight", "net.h.{i}.v.weight"),
        "blocks.{i}.query_key_value.weight",
        rows=(4, 2, 2),
    ),
    Rule(("net.h.{i}.gate.weight", "net.h.{i}.one.weight"), "blocks.{i}.gate_inner.weight", transposed=True),
    Rule("net.scale", "scale", taken=lambda scale: scale + 1, given=lambda scale: scale - 1),
)
MAP = NameMap(
    RULES,
    prefixes=("net.",),
    tied={"head.weight": "net.emb.weight"},
    ignored=("net.h.{i}.attn.bias", "net.position_ids"),
    respelled={".gamma": ".weight"},
)
SHAPES = {"embedding.weight": (7, 4), "scale": (4,)} | {
    f"blocks.{i}.{name}.weight": shape
    for i in (0, 11)
    for name, shape in (("inner", (6, 4)), ("query_key_value", (8, 4)), ("gate_inner", (10, 4)))
}


@pytest.fixture
def ours():
    return {name: torch.randn(shape) for name, shape in SHAPES.items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_written_and_read_they_are_the_same(ours):
    theirs = MAP.write(ours)
    assert theirs["net.h.11.up.weight"].shape == (4, 6)
    assert torch.equal(theirs["net.h.0.k.weight"], ours["blocks.0.query_key_value.weight"][4:6])
    assert torch.equal(theirs["net.h.0.one.weight"], ours["blocks.0.gate_inner.weight"][5:].t())
    torch.testing.assert_close(theirs["net.scale"], ours["scale"] - 1)
    assert all(tensor.is_contiguous() for tensor in theirs.values())
    theirs["net.scale"] = theirs["net.scale"].round()
    ours["scale"] = theirs["net.scale"] + 1
    assert same(MAP.read(theirs, SHAPES, origin="file"), ours)


def test_a_bare_backbone_and_old_spellings_are_read(ours):
    theirs = {name.removeprefix("net."): tensor for name, tensor in MAP.write(ours).items()}
    theirs["emb.gamma"] = theirs.pop("emb.weight")
    read = MAP.read(theirs, SHAPES, origin="file")
    assert torch.equal(read["embedding.weight"], ours["embedding.weight"])


def test_buffers_are_ignored_and_ties_may_be_absent_either_way(ours):
    theirs = MAP.write(ours) | {"net.h.3.attn.bias": torch.ones(1), "position_ids": torch.ones(2)}
    full = theirs | {"head.weight": theirs["net.emb.weight"].clone()}
    only_copy = {name: tensor for name, tensor in full.items() if name != "net.emb.weight"}
    for given in (theirs, full, only_copy):
        assert torch.equal(MAP.read(given, SHAPES, origin="file")["embedding.weight"], ours["embedding.weight"])
    with pytest.raises(CheckpointError, match=r"head.weight: differs from net.emb.weight, which it has to equal"):
        MAP.read(full | {"head.weight": torch.zeros(7, 4)}, SHAPES, origin="file")


def test_every_number_becomes_single_precision(ours):
    theirs = MAP.write(ours)
    theirs["net.emb.weight"] = theirs["net.emb.weight"].bfloat16()
    theirs["net.h.0.q.weight"] = theirs["net.h.0.q.weight"].half()
    theirs["net.h.0.k.weight"] = torch.ones(2, 4, dtype=torch.int8)
    read = MAP.read(theirs, SHAPES, origin="file")
    assert {tensor.dtype for tensor in read.values()} == {torch.float32}
    assert torch.equal(read["embedding.weight"], ours["embedding.weight"].bfloat16().float())
    assert torch.equal(read["blocks.0.query_key_value.weight"][4:6], torch.ones(2, 4))


def test_everything_that_does_not_fit_is_said_at_once(ours):
    theirs = MAP.write(ours)
    del theirs["net.h.0.q.weight"], theirs["net.scale"]
    theirs |= {"net.h.11.v.weight": torch.ones(3, 4), "net.h.0.up.weight": torch.ones(6, 4), "net.more": torch.ones(1)}
    theirs["net.h.12.up.weight"] = torch.ones(4, 6)
    with pytest.raises(CheckpointError) as problem:
        MAP.read(theirs, SHAPES | {"ours.only": (1,)}, origin="x/model.safetensors")
    assert str(problem.value) == (
        "x/model.safetensors: 7 weights do not fit:\n"
        "  net.scale: missing\n"
        "  net.h.0.up.weight: [6, 4], the model has [4, 6]\n"
        "  net.h.0.q.weight: missing\n"
        "  net.h.11.v.weight: [3, 4], the model has [2, 4]\n"
        "  ours.only: the model has it, this format does not\n"
        "  net.more: unknown\n"
        "  net.h.12.up.weight: unknown"
    )
    assert "config" in problem.value.hint


def test_a_part_that_the_format_cannot_hold(ours):
    with pytest.raises(
        CheckpointError, match=r"export: 1 weight does not fit:\n  extra: this format has no place"
    ) as e:
        MAP.write(ours | {"extra": torch.ones(1)})
    assert e.value.hint == "the model has parts that this format cannot hold"


def test_names_as_the_rules_spell_them():
    assert MAP.canonical(["h.3.q.weight", "net.emb.gamma", "other"]) == {
        "net.h.3.q.weight": "h.3.q.weight",
        "net.emb.weight": "net.emb.gamma",
        "other": "other",
    }


def test_shapes_without_weights():
    options = {"n_source": 9, "n_target": 9, "d_model": 8, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    shapes = shapes_of("transformer", options)
    assert shapes["source_embedding.weight"] == (9, 8)
    assert shapes["encoder.blocks.0.attention.query_key_value.weight"] == (24, 8)
