"""Parameters of every named size, and the operations of training, against torch's own counter and the paper's."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.models.flops import count_parameters, forward_flops, training_flops
from regard.models.registry import build, configure, entry, names
from regard.models.transformer import Transformer, TransformerConfig

VOCABULARY = 37_000  # the paper's joint vocabulary for English–German

PARAMETERS = {
    ("transformer", "tiny"): 6_061_056,
    ("transformer", "small"): 15_001_600,
    ("transformer", "base"): 63_082_496,
    ("transformer", "big"): 214_245_376,
    ("recurrent", "small"): 21_113_600,
    ("recurrent", "base"): 56_003_072,
    ("bert", "tiny"): 5_269_130,
    ("bert", "small"): 12_932_746,
    ("bert", "minilm"): 25_387_146,
    ("bert", "base"): 115_088_010,
    ("bert", "large"): 342_866_058,
    ("recurrent-encoder", "tiny"): 2_434_560,
    ("recurrent-encoder", "small"): 10_524_672,
    ("recurrent-encoder", "base"): 29_446_144,
    ("gpt", "tiny"): 5_562_112,
    ("gpt", "small"): 24_953_856,
    ("gpt", "gpt1"): 113_863_680,
    ("gpt", "gpt2"): 114_258_432,
    ("gpt", "gpt2-medium"): 341_248_000,
    ("gpt", "llama-tiny"): 5_474_432,
    ("gpt", "llama-small"): 23_650_176,
    ("recurrent-lm", "tiny"): 5_164_160,
    ("recurrent-lm", "small"): 20_376_960,
    ("recurrent-lm", "gpt1"): 53_074_688,
    ("patch-forecaster", "tiny"): 81_728,
    ("patch-forecaster", "base"): 921_184,
    ("series-transformer", "tiny"): 35_425,
    ("series-transformer", "small"): 145_281,
    ("series-transformer", "base"): 4_588_545,
    ("recurrent-forecaster", "tiny"): 14_945,
    ("recurrent-forecaster", "small"): 52_417,
    ("recurrent-forecaster", "base"): 1_539_841,
    ("captioner", "tiny"): 2_567_105,
    ("captioner", "small"): 11_244_737,
    ("captioner", "base"): 28_726_401,
    ("transformer-captioner", "tiny"): 2_582_304,
    ("transformer-captioner", "small"): 6_168_000,
    ("transformer-captioner", "base"): 19_728_000,
    ("vit", "nano"): 335_050,
    ("vit", "compact"): 3_765_514,
    ("vit", "compact-large"): 7_325_898,
    ("vit", "hybrid"): 7_819_338,
    ("vit", "tiny"): 5_717_416,
    ("vit", "small"): 22_050_664,
    ("vit", "base"): 86_567_656,
    ("vit", "large"): 304_326_632,
    ("las", "tiny"): 7_064_840,
    ("las", "small"): 15_127_432,
    ("las", "base"): 42_798_728,
    ("speech-transformer", "tiny"): 6_138_880,
    ("speech-transformer", "small"): 17_630_464,
    ("speech-transformer", "whisper-tiny"): 31_481_088,
    ("speech-transformer", "whisper-base"): 64_224_256,
    ("speech-transformer", "whisper-small"): 229_194_240,
    ("speech-transformer", "whisper-medium"): 747_173_888,
}
PUBLISHED = {  # with their own vocabularies; of BERT the encoder with its pooler, as Hugging Face's files hold them
    ("bert", "base", 30_522): 109_482_240,
    ("bert", "large", 30_522): 335_141_888,
    ("bert", "minilm", 30_522): 22_713_216,
    ("gpt", "gpt1", 40_478): 116_534_784,
    ("gpt", "gpt2", 50_257): 124_439_808,
    ("gpt", "gpt2-medium", 50_257): 354_823_168,
}
PAPER_PARAMETERS = {"base": 65e6, "big": 213e6}  # table 3
PAPER_FLOPS = {"base": (100_000, 3.3e18), "big": (300_000, 2.3e19)}  # steps, and table 2


def sized(name, size):
    known = [side for side in ("n_source", "n_target", "n_tokens") if side in entry(name).options]
    return configure(name, size, **dict.fromkeys(known, VOCABULARY))


def test_no_size_of_any_model_is_missing_from_the_table():
    assert set(PARAMETERS) == {(name, size) for name in names() for size in entry(name).sizes}


@pytest.mark.parametrize(("name", "size"), PARAMETERS)
def test_parameters(name, size):
    with torch.device("meta"):
        model = entry(name).module(sized(name, size))
    assert count_parameters(model) == PARAMETERS[name, size]


@pytest.mark.parametrize(("name", "size", "n_tokens"), PUBLISHED)
def test_published_parameters(name, size, n_tokens):
    bare = {"mlm": False, "nsp": False} if name == "bert" else {}
    with torch.device("meta"):
        model = entry(name).module(configure(name, size, n_tokens=n_tokens, **bare))
    assert count_parameters(model) == PUBLISHED[name, size, n_tokens]


@pytest.mark.parametrize("size", PAPER_PARAMETERS)
def test_the_papers_parameters(size):
    assert PARAMETERS["transformer", size] == pytest.approx(PAPER_PARAMETERS[size], rel=0.035)


def test_shared_parameters_count_once():
    options = {"n_source": 50, "n_target": 50, "d_model": 8, "n_heads": 2, "d_feedforward": 8}
    counts = {
        tied: count_parameters(build("transformer", {**options, "tied": tied})) for tied in ("all", "output", "none")
    }
    assert counts["output"] - counts["all"] == counts["none"] - counts["output"] == 50 * 8


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_the_account_equals_torchs_counter(kv_heads):
    config = TransformerConfig(
        n_source=19, n_target=23, d_model=16, n_heads=4, n_kv_heads=kv_heads, d_feedforward=40,
        n_encoder_layers=2, n_decoder_layers=3, dropout=0.0, tied="output",
    )  # fmt: skip
    model, (B, S, T) = Transformer(config), (3, 7, 5)
    sizes = {"source_tokens": B * S, "target_tokens": B * T, "source_length": S, "target_length": T}
    source, target = torch.randint(1, 19, (B, S)), torch.randint(1, 23, (B, T))
    with sdpa_kernel(SDPBackend.MATH):  # the counter does not know the fused kernel of the CPU
        with FlopCounterMode(display=False) as forward:
            logits = model(source, target)
        with FlopCounterMode(display=False) as backward:
            logits.sum().backward()
    assert forward_flops(config, **sizes).total == forward.get_total_flops()
    assert training_flops(config, **sizes).total == forward.get_total_flops() + backward.get_total_flops()


@pytest.mark.parametrize("size", PAPER_FLOPS)
def test_the_order_of_the_papers_training_cost(size):
    steps, theirs = PAPER_FLOPS[size]
    ours = training_flops(sized("transformer", size), source_tokens=25_000, target_tokens=25_000, steps=steps)
    assert ours.total == pytest.approx({"base": 9.5e17, "big": 9.7e18}[size], rel=0.01)
    assert 1 / 4 < ours.total / theirs < 1  # theirs is GPU time × an assumed speed: an upper bound of what was computed


def test_the_account_is_linear_in_steps_and_splits_into_parts():
    config = sized("transformer", "base")
    one = training_flops(config, source_tokens=100, target_tokens=50)
    ten = training_flops(config, source_tokens=100, target_tokens=50, steps=10)
    assert ten.total == 10 * one.total
    assert one.output == 3 * 2 * 512 * VOCABULARY * 50
    assert one.total == one.encoder + one.decoder + one.attention + one.output
