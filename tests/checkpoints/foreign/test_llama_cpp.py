"""GGUF files of ours: our reader gives back what was written, and llama.cpp, where it is installed, says the same."""

import numpy as np
import pytest
import torch

from regard.checkpoints.foreign.hub import open_foreign
from regard.checkpoints.foreign.llama_cpp.writing import PRECISIONS, write_gguf
from regard.checkpoints.spec import Pretrained, with_defaults
from regard.checkpoints.usage import Usage
from regard.checkpoints.weights import weights_of
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import CheckpointError
from regard.models.registry import build

gguf = pytest.importorskip("gguf")

TEXTS = [f"The quick brown fox, aged {i}, doesn't jump over\n  the lazy dogs.\n" for i in range(40)]
BPE = learn_tokenizer(TEXTS, "bpe", size=300, verbatim=True)
SIZES = {"d_model": 64, "n_heads": 4, "n_layers": 2, "n_positions": 48}
LLAMA = {"norm": "rms", "positions": "rotary", "activation": "silu", "gated": True, "attention_bias": False,
         "feedforward_bias": False, "n_kv_heads": 2, "d_feedforward": 96}  # fmt: skip
BUILDS = {
    "gpt2": {},
    "gpt2_untied": {"tied": False, "d_feedforward": 96},
    "gpt2_unbiased": {"attention_bias": False, "feedforward_bias": False, "norm_bias": False},
    "llama": LLAMA,
    "llama_biased": {**LLAMA, "attention_bias": True, "feedforward_bias": True, "tied": False, "d_head": 32},
    "llama_linear": {**LLAMA, "rotary_stretch": {"factor": 4.0}, "rotary_base": 5e4},
    "llama3": {**LLAMA, "rotary_stretch": {"factor": 8.0, "n_trained": 8192}, "rotary_base": 5e5},
}


def pretrained(options, tokenizer=BPE):
    torch.manual_seed(1)
    options = {**SIZES, "n_tokens": len(tokenizer) + 4, **options}
    module = build("gpt", options).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.25)
    held = {name: tensor.detach() for name, tensor in weights_of(module).items()}
    spec = with_defaults(Pretrained("language", "gpt", options, tensors=held, tokenizer=tokenizer))
    return module, spec


def written(path, made, *, precision="fp32", **usage):
    write_gguf(path, made, precision=precision, usage=Usage(opening=(3,), **usage))
    return path


def their_logits(path, ids):
    """What llama.cpp gives for each position, and the tokens that it goes on with greedily."""
    llama_cpp = pytest.importorskip("llama_cpp")
    model = llama_cpp.Llama(str(path), n_ctx=48, logits_all=True, verbose=False, n_threads=1)
    model.eval(ids)
    logits = torch.from_numpy(np.array(model.scores[: len(ids)]))
    model.reset()
    wanted = []
    for token in model.generate(ids[:8], temp=0.0, repeat_penalty=1.0, top_k=1):
        wanted.append(token)
        if len(wanted) == 16:
            break
    return logits, wanted


@pytest.mark.parametrize("name", BUILDS)
def test_what_is_written_is_read_back_the_same(tmp_path, name):
    model, made = pretrained(BUILDS[name])
    again = open_foreign(written(tmp_path / "m.gguf", made))
    ids = torch.randint(4, len(BPE), (2, 30), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted, said = model(ids), again.module()(ids)
    torch.testing.assert_close(said, wanted, rtol=0, atol=1e-5)
    assert wanted.std() > 0.5  # not equal for being nothing
    for ours, tensor in made.tensors.items():
        assert torch.equal(again.tensors[ours], tensor), ours


@pytest.mark.parametrize("name", BUILDS)
def test_llama_cpp_gives_the_same_logits_and_greedy_tokens(tmp_path, name):
    model, made = pretrained(BUILDS[name])
    ids = torch.randint(4, len(BPE), (24,), generator=torch.Generator().manual_seed(0))
    logits, greedy = their_logits(written(tmp_path / "m.gguf", made), ids.tolist())
    with torch.no_grad():
        wanted = model(ids[None])[0]
        row = ids[:8].tolist()
        for _ in greedy:
            row.append(int(model(torch.tensor([row]))[0, -1].argmax()))
    # its tables of GELU and its caches of keys and values are in half precision
    assert (logits - wanted).abs().max() < 0.05 * wanted.std()
    assert greedy == row[8:]


def test_what_llama_cpp_reads_otherwise_is_said(tmp_path):
    usage = {"precision": "fp32", "usage": Usage()}
    architecture, remark = write_gguf(tmp_path / "a.gguf", pretrained({})[1], **usage)
    assert architecture == "gpt2"
    assert "numbers of more than three digits" in remark
    exact = pretrained(LLAMA, learn_tokenizer(TEXTS, "bytes", verbatim=True))[1]
    assert write_gguf(tmp_path / "b.gguf", exact, **usage) == ("llama", None)


def test_llama_cpp_reads_texts_into_the_same_pieces(tmp_path):
    llama_cpp = pytest.importorskip("llama_cpp")
    texts = [
        *TEXTS[:5],
        "  two  spaces \n\n\nlines\tand 'quotes' (brackets) ... 12 345, Äpfel und ÉTÉ",
        "don't",
        "naïve 中文",
    ]
    chars = learn_tokenizer(TEXTS, "chars", size=100, verbatim=True)
    for tokenizer in (BPE, learn_tokenizer(TEXTS, "bytes", verbatim=True), chars):
        _, made = pretrained(LLAMA, tokenizer)
        path = written(tmp_path / f"{tokenizer.kind}.gguf", made)
        theirs = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        ours = open_foreign(path).tokenizer
        for text in texts if tokenizer is not chars else TEXTS[:5]:
            wanted = tokenizer.encode(text)
            assert theirs.tokenize(text.encode(), add_bos=False) == wanted
            assert theirs.tokenize(text.encode(), add_bos=True) == [3, *wanted]
            assert ours.encode(text) == wanted
            assert ours.decode(wanted) == text


@pytest.mark.parametrize("precision", PRECISIONS)
def test_each_precision_is_close_and_as_small_as_it_says(tmp_path, precision):
    _, made = pretrained(LLAMA)
    path = written(tmp_path / "m.gguf", made, precision=precision)
    again = open_foreign(path)
    bits = {"fp32": 32, "fp16": 16, "bf16": 16, "q8_0": 8.5, "q4_0": 4.5, "q4_1": 5}[precision]
    kept = sum(tensor.n_bytes for tensor in gguf.GGUFReader(path).tensors if len(tensor.shape) == 2)
    assert kept == bits / 8 * sum(tensor.numel() for tensor in made.tensors.values() if tensor.ndim == 2)
    off = max(float((again.tensors[name] - tensor).abs().max()) for name, tensor in made.tensors.items())
    assert off < {32: 1e-9, 16: 0.01, 8.5: 0.01, 4.5: 0.2, 5: 0.1}[bits]
    assert made.tensors["embedding.weight"].abs().max() > 0.5


def test_what_llama_cpp_does_not_have_is_named(tmp_path):
    def refused(options, match, tokenizer=BPE):
        _, made = pretrained(options, tokenizer)
        with pytest.raises(CheckpointError, match=match):
            write_gguf(tmp_path / "m.gguf", made, precision="fp32", usage=Usage())

    refused({"activation": "gelu"}, "nearest model is GPT-2, which has model.activation=gelu_tanh, not gelu")
    refused({"order": "post"}, "model.order=pre, not post")
    refused({"positions": "sinusoidal"}, "model.positions=learned, not sinusoidal")
    refused({**LLAMA, "gated": False}, "nearest model is Llama, which has model.gated=true, not false")
    words = learn_tokenizer(TEXTS, "words", size=60, verbatim=True)
    refused({}, "no tokenizer like this words", words)
    lower = learn_tokenizer(TEXTS, "bpe", size=300, verbatim=True, lowercase=True)
    refused({}, r"text is normalised first \(Lowercase\)", lower)
    wide = learn_tokenizer([*TEXTS, "Äpfel"], "chars", size=100, verbatim=True)
    refused({}, "by their bytes, and 'Ä' is several", wide)
    options = {"n_tokens": len(BPE), "d_model": 12, "d_hidden": 8}
    recurrent = Pretrained("language", "recurrent-lm", options, tokenizer=BPE)
    with pytest.raises(CheckpointError, match="nothing like a recurrent-lm; regard writes gpt"):
        write_gguf(tmp_path / "m.gguf", recurrent, precision="fp32", usage=Usage())
