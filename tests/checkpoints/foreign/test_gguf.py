"""GGUF files, written by the `gguf` package as llama.cpp's converter would and read into our terms."""

import numpy as np
import pytest
import torch

import regard
from fast_only import needs_fast
from regard.attention import Rotary, Rows, Stretch
from regard.checkpoints.foreign.hub import open_foreign
from regard.checkpoints.weights import load_weights, weights_of
from regard.errors import CheckpointError
from regard.fast.cpu.native import loaded
from regard.fast.cpu.packed_linear import PackedBlocks
from regard.layers.block_weights import BlockLinear
from regard.models.registry import build

gguf = pytest.importorskip("gguf")

V, D, H, G, E, F, L = 300, 64, 4, 2, 16, 96, 2
Types = gguf.GGMLQuantizationType
OPTIONS = {"n_tokens": V, "d_model": D, "n_heads": H, "n_kv_heads": G, "n_layers": L, "d_feedforward": F, "norm": "rms",
           "positions": "rotary", "activation": "silu", "gated": True, "attention_bias": False, "dropout": 0.0,
           "feedforward_bias": False, "norm_epsilon": 1e-3, "rotary_base": 500.0, "n_positions": 40}  # fmt: skip
LETTERS = [chr(i) for i in range(ord("a"), ord("z") + 1)]
IDS = torch.tensor([[1, 7, 250, 9, 30, 31, 5]])


def model_of(**options):
    model = build("gpt", {**OPTIONS, **options}).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def neighbours(weight, n_heads):
    """llama.cpp's converter: features that turn in halves are laid beside each other."""
    return (
        weight.reshape(n_heads, 2, weight.shape[0] // n_heads // 2, *weight.shape[1:])
        .swapaxes(1, 2)
        .reshape(weight.shape)
    )


def their_tensors(model):
    ours = {name: tensor.detach().numpy() for name, tensor in weights_of(model).items()}
    theirs = {"token_embd.weight": ours["embedding.weight"], "output_norm.weight": ours["stack.final_norm.weight"]}
    if "output.weight" in ours:
        theirs["output.weight"] = ours["output.weight"]
    for i in range(L):
        block = f"stack.blocks.{i}"
        for part in ("weight", "bias") if model.config.attention_bias else ("weight",):
            joined = ours[f"{block}.attention.query_key_value.{part}"]
            q, k, v = np.split(joined, [H * E, (H + G) * E])
            theirs |= {f"blk.{i}.attn_q.{part}": neighbours(q, H), f"blk.{i}.attn_k.{part}": neighbours(k, G)}
            theirs |= {
                f"blk.{i}.attn_v.{part}": v,
                f"blk.{i}.attn_output.{part}": ours[f"{block}.attention.out.{part}"],
            }
        gate, up = np.split(ours[f"{block}.feedforward.gate_inner.weight"], 2)
        theirs |= {f"blk.{i}.ffn_gate.weight": gate, f"blk.{i}.ffn_up.weight": up}
        theirs[f"blk.{i}.ffn_down.weight"] = ours[f"{block}.feedforward.outer.weight"]
        theirs[f"blk.{i}.attn_norm.weight"] = ours[f"{block}.around_attention.norm.weight"]
        theirs[f"blk.{i}.ffn_norm.weight"] = ours[f"{block}.around_feedforward.norm.weight"]
    return theirs


def write(path, tensors, *, quantised=None, architecture="llama", tokenizer="llama", base=500.0, extra=()):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(L)
    writer.add_context_length(40)
    writer.add_embedding_length(D)
    writer.add_feed_forward_length(F)
    writer.add_head_count(H)
    writer.add_head_count_kv(G)
    writer.add_rope_freq_base(base)
    writer.add_layer_norm_rms_eps(1e-3)
    {"llama": scored, "gpt2": merged, "none": lambda writer: None, "bert": other}[tokenizer](writer)
    for name, value in extra:
        writer.add_uint32(name, value) if isinstance(value, int) else writer.add_string(name, value)
    for name, array in tensors.items():
        if quantised is not None and array.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(array, quantised), raw_dtype=quantised)
        else:
            writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def scored(writer):
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS, "▁t", "he", "▁the"]
    kinds = [2, 3, 3] + [6] * 256 + [1] * 30
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0] * 259 + [-float(rank) for rank in range(30, 3, -1)] + [-1.0, -2.0, -3.0])
    writer.add_token_types(kinds)
    for role, index in (("unk", 0), ("bos", 1), ("eos", 2)):
        getattr(writer, f"add_{role}_token_id")(index)


def merged(writer):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["<|end|>", "Ġ", "Ċ", "1", "2", "12", *LETTERS, "he", "the", "Ġthe"])
    writer.add_token_merges(["h e", "t he", "Ġ the", "1 2"])
    writer.add_token_types([3] + [1] * 34)
    writer.add_eos_token_id(0)


def other(writer):
    writer.add_tokenizer_model("bert")
    writer.add_token_list(["a"])


def ours(path):
    foreign = open_foreign(path)
    model = build(foreign.model, foreign.options).eval()
    load_weights(model, foreign.tensors, origin=foreign.origin)
    return model, foreign


@pytest.mark.parametrize("options", [{}, {"tied": False}, {"attention_bias": True}], ids=str)
def test_whole_numbers_come_back_as_they_were(options, tmp_path):
    model = model_of(**options)
    again, foreign = ours(write(tmp_path / "model.gguf", their_tensors(model)))
    for name, tensor in weights_of(model).items():
        assert torch.equal(foreign.tensors[name], tensor), name
    torch.testing.assert_close(again(IDS), model(IDS), rtol=0, atol=1e-5)  # the file's epsilon is in single precision
    assert (foreign.task, foreign.model, again.config.n_positions) == ("language", "gpt", 40)


@pytest.mark.parametrize(
    ("kind", "step"), [(Types.F16, 2.0**-11), (Types.BF16, 2.0**-8), (Types.Q8_0, 1 / 127), (Types.Q4_1, 1 / 15)]
)
def test_quantised_numbers_come_back_within_a_step(kind, step, tmp_path):
    model = model_of()
    _, foreign = ours(write(tmp_path / "model.gguf", their_tensors(model), quantised=kind))
    for name, tensor in weights_of(model).items():
        if tensor.ndim == 1:
            assert torch.equal(foreign.tensors[name], tensor), name
            continue
        blocks = tensor.detach().view(-1, 32)
        span = blocks.amax(1) - blocks.amin(1) if kind == Types.Q4_1 else blocks.abs().amax(1)
        off = (foreign.tensors[name].view(-1, 32) - blocks).abs().amax(1)
        assert (off <= 0.51 * step * span + 2e-3 * span).all(), name
        assert off.max() > 0, name


def test_positions_stretched_as_llama_3_does(tmp_path):
    stretch, base = Stretch(factor=8.0, n_trained=8192), 500000.0
    model = model_of(rotary_stretch=stretch, rotary_base=base)
    divisors = Rotary(E, base=base).rates / Rotary(E, base=base, stretch=stretch).rates
    assert divisors.min() == 1.0  # fast features keep their rate
    tensors = {**their_tensors(model), "rope_freqs.weight": divisors.float().numpy()}
    again, _ = ours(write(tmp_path / "model.gguf", tensors, base=base))
    assert again.config.rotary_stretch == stretch
    torch.testing.assert_close(again(IDS), model(IDS), rtol=0, atol=1e-5)
    tensors["rope_freqs.weight"] = np.linspace(1, 3, E // 2, dtype=np.float32)
    with pytest.raises(CheckpointError, match="its rope_freqs are not those of Llama 3"):
        open_foreign(write(tmp_path / "odd.gguf", tensors))


def test_sentencepiece_vocabulary(tmp_path):
    _, foreign = ours(write(tmp_path / "model.gguf", their_tensors(model_of())))
    tokenizer = foreign.tokenizer
    ids = tokenizer.encode("the hen\né")
    assert tokenizer.tokens(ids) == ["▁the", "▁", "he", "n", "<0x0A>", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(ids) == "the hen\né"
    assert tokenizer.frame([5]).ids == [1, 5]
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 0)
    assert tokenizer.encode("</s>") != [2]


def test_byte_pair_vocabulary(tmp_path):
    _, foreign = ours(write(tmp_path / "model.gguf", their_tensors(model_of()), tokenizer="gpt2"))
    tokenizer = foreign.tokenizer
    ids = tokenizer.encode("the the\n12")
    assert tokenizer.tokens(ids) == ["the", "▁the", "\n", "1", "2"]  # digits stand alone, though 12 is a piece
    assert tokenizer.decode([*ids, 0]) == "the the\n12"
    assert (tokenizer.eos_id, tokenizer.special_tokens.bos, tokenizer.frame([5]).ids) == (0, None, [5])


def test_refusals(tmp_path):
    tensors = their_tensors(model_of())
    with pytest.raises(CheckpointError, match="architecture 'qwen2' is not known; there are 'llama' and 'gpt2'"):
        open_foreign(write(tmp_path / "a.gguf", tensors, architecture="qwen2"))
    with pytest.raises(CheckpointError, match=r"does not have llama\.expert_count = 8"):
        open_foreign(write(tmp_path / "b.gguf", tensors, extra=[("llama.expert_count", 8)]))
    with pytest.raises(CheckpointError, match=r"llama\.rope\.scaling\.type = 'yarn'"):
        open_foreign(write(tmp_path / "c.gguf", tensors, extra=[("llama.rope.scaling.type", "yarn")]))
    with pytest.raises(CheckpointError, match="its tokenizer is a 'bert'; regard reads 'llama' and 'gpt2'"):
        open_foreign(write(tmp_path / "d.gguf", tensors, tokenizer="bert"))
    assert open_foreign(write(tmp_path / "e.gguf", tensors, tokenizer="none")).tokenizer is None
    lost = {name: array for name, array in tensors.items() if name != "blk.1.ffn_up.weight"}
    with pytest.raises(CheckpointError, match=r"blk\.1\.ffn_up\.weight: missing"):
        open_foreign(write(tmp_path / "f.gguf", lost))
    (tmp_path / "g.gguf").write_bytes(b"something else entirely")
    with pytest.raises(CheckpointError, match="not a GGUF file that can be read"):
        open_foreign(tmp_path / "g.gguf")
    whole = (tmp_path / "e.gguf").read_bytes()
    (tmp_path / "h.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="not a GGUF file that can be read"):
        open_foreign(tmp_path / "h.gguf")


@pytest.mark.parametrize("form", ["Q8_0", "Q4_0", "Q4_1"])
def test_weights_stay_in_their_blocks(tmp_path, form):
    path = tmp_path / "model.gguf"
    write(path, their_tensors(model_of()), quantised=Types[form])
    kept, plain = open_foreign(path, blocks=True), open_foreign(path)
    model, exact = kept.module(), plain.module()
    held = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    assert kept.blocks
    assert held <= 1.1 * path.stat().st_size
    with torch.inference_mode():
        assert torch.equal(model(IDS), exact(IDS))


@needs_fast
@pytest.mark.skipif(loaded() is None, reason="no native kernels")
def test_predictions_by_blocks(tmp_path, monkeypatch):
    path = tmp_path / "model.gguf"
    write(path, their_tensors(model_of()), quantised=Types.Q8_0)
    opened, exact = regard.load(path, "cpu"), regard.load(path, "cpu", precision="fp32")
    quick = opened.writer.models[0]
    assert [part for part in quick.modules() if isinstance(part, PackedBlocks)]
    assert not [part for part in exact.module.modules() if isinstance(part, BlockLinear)]
    assert "kept in blocks (Q8_0)" in "\n".join(map(str, regard.fast.explain(quick)))
    prompts = Rows(torch.tensor([[1, 7, 250, 9], [1, 30, 31, 0], [5, 0, 0, 0]]), torch.tensor([4, 3, 1]))
    with torch.inference_mode():
        steppers = [model.start(prompts) for model in (quick, exact.module)]
        alone = [quick.start(prompts.ids[i : i + 1, :n]) for i, n in enumerate((4, 3, 1))]
        for tokens in torch.tensor([[9, 31, 5], [3, 4, 6], [7, 7, 7]]):
            found, wanted = (one.step(tokens) for one in steppers)
            assert (found - wanted).abs().max() < 0.05 * wanted.abs().max()
            single = torch.cat([one.step(tokens[i : i + 1]) for i, one in enumerate(alone)])
            assert (found - single).abs().max() < 1e-3 * wanted.abs().max()
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert not [part for part in regard.load(path, "cpu").module.modules() if isinstance(part, BlockLinear)]
