"""Folders written for CTranslate2, opened by it: the same probabilities, tokens and states as ours."""

import json
import random

import numpy as np
import pytest
import torch

from regard.attention import Rows
from regard.checkpoints.foreign.ctranslate2.writing import PRECISIONS, write_ctranslate2
from regard.checkpoints.spec import Pretrained
from regard.checkpoints.usage import Usage
from regard.checkpoints.weights import weights_of
from regard.data.text.vocabulary import learn_tokenizer
from regard.decoding import DecodeOptions
from regard.errors import CheckpointError
from regard.models.registry import build
from regard.tasks.translation.data import Languages
from regard.tasks.translation.translator import Translator

ctranslate2 = pytest.importorskip("ctranslate2")

TEXTS = [f"the quick brown fox jumps over {i} lazy dogs" for i in range(40)]
TOKENIZER = learn_tokenizer(TEXTS, "bpe", size=290)
OTHER = learn_tokenizer(TEXTS, "bpe", size=280)
N = len(TOKENIZER) + 3  # rows that no piece stands for fill the matrix up
TRANSFORMER = {"n_source": N, "n_target": N, "d_model": 32, "n_heads": 4, "d_feedforward": 48, "n_encoder_layers": 2,
               "n_decoder_layers": 2}  # fmt: skip
GPT = {"n_tokens": N, "d_model": 32, "n_heads": 4, "n_layers": 2, "n_positions": 48}
LLAMA = {"norm": "rms", "positions": "rotary", "activation": "silu", "gated": True, "attention_bias": False,
         "feedforward_bias": False, "n_kv_heads": 2}  # fmt: skip
BERT = {"n_tokens": N, "d_model": 32, "n_heads": 4, "d_feedforward": 40, "n_layers": 2, "n_positions": 48}

TRANSLATORS = {
    "published": {},
    "pre": {"order": "pre"},
    "rms": {"norm": "rms", "order": "pre", "activation": "silu"},
    "gelu": {"activation": "gelu", "positions": "learned"},
    "gelu_tanh": {"activation": "gelu_tanh", "tied": "output"},
    "rotary": {"positions": "rotary"},
    "grouped": {"n_kv_heads": 2},
    "marian": {"output_bias": True, "activation": "silu", "tied": "none"},
}
GENERATORS = {
    "gpt2": {},
    "gpt1": {"order": "post", "activation": "gelu"},
    "unbiased": {"norm_bias": False, "attention_bias": False, "tied": False, "activation": "relu"},
    "sinusoidal": {"positions": "sinusoidal"},
    "llama": LLAMA,
    "wide_heads": {**LLAMA, "d_head": 16, "n_kv_heads": 1, "attention_bias": True, "feedforward_bias": True},
    "stretched": {**LLAMA, "rotary_stretch": {"factor": 4.0}},
    "llama3": {**LLAMA, "rotary_base": 5e5,
               "rotary_stretch": {"factor": 8.0, "n_trained": 16, "low": 1.0, "high": 4.0}},
}  # fmt: skip
ENCODERS = {
    "bert": {},
    "distilbert": {"n_segments": 0, "pooler": False, "nsp": False},
    "bare": {"mlm": False, "nsp": False, "activation": "relu"},
}


def pretrained(task, model, options, **more):
    torch.manual_seed(1)
    module = build(model, options).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    return module, Pretrained(task, model, options, tensors=weights_of(module), tokenizer=TOKENIZER, **more)


def opened(kind, folder, made, *, precision="fp32", **usage):
    folder.mkdir()
    assert write_ctranslate2(folder, made, precision=precision, usage=Usage(**usage)) == kind
    compute = {"fp32": "float32", "int8": "int8_float32"}[precision]
    return getattr(ctranslate2, kind)(str(folder), device="cpu", compute_type=compute, intra_threads=1)


def sentences(n, *, seed=0, most=12):
    draw = random.Random(seed)
    return [[draw.randrange(4, 270) for _ in range(draw.randint(1, most))] for _ in range(n)]


def pieces(rows, tokenizer=TOKENIZER):
    return [[tokenizer.core.id_to_token(index) for index in row] for row in rows]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_gives_every_token_the_same_probability(tmp_path, name):
    model, made = pretrained("translation", "transformer", {**TRANSFORMER, **TRANSLATORS[name]})
    theirs = opened("Translator", tmp_path / "out", made)
    sources, targets = sentences(6), sentences(6, seed=1)
    scored = theirs.score_batch(pieces(sources), pieces(targets))
    for source, target, one in zip(sources, targets, scored, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*source, 3]]), torch.tensor([[2, *target]]))[0]
        wanted = logits.log_softmax(-1).gather(-1, torch.tensor([*target, 3])[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(one.log_probs), wanted, rtol=1e-4, atol=1e-4)


def test_greedy_translations_are_the_same_ids_and_a_beam_finds_as_good_ones(tmp_path):
    model, made = pretrained("translation", "transformer", TRANSFORMER)
    theirs = opened("Translator", tmp_path / "out", made)
    sources = sentences(60, seed=2)
    ours = Translator([model], Languages.of(TOKENIZER, None, moses=None))
    greedy = ours._decode(sources, DecodeOptions(max_length=20), [[]] * 60)
    asked = {"max_decoding_length": 20, "return_scores": True}
    answered = theirs.translate_batch(pieces(sources), beam_size=1, **asked)
    assert [[*one[0].tokens] for one in greedy] == [
        [TOKENIZER.core.token_to_id(piece) for piece in one.hypotheses[0]] for one in answered
    ]
    beam = ours._decode(sources, DecodeOptions(strategy="beam", beam=4, max_length=20), [[]] * 60)
    answered = theirs.translate_batch(pieces(sources), beam_size=4, **asked)
    same = [[*ours[0].tokens] == [TOKENIZER.core.token_to_id(piece) for piece in one.hypotheses[0]]
            for ours, one in zip(beam, answered, strict=True)]  # fmt: skip
    assert np.mean(same) > 0.8  # they stop a beam otherwise
    for agreed, mine, one in zip(same, beam, answered, strict=True):
        if agreed and len(mine[0].tokens) < 20:
            assert one.scores[0] == pytest.approx(mine[0].score, abs=0.02)


def test_two_sides_keep_their_own_vocabularies(tmp_path):
    options = {**TRANSFORMER, "n_source": len(TOKENIZER), "n_target": len(OTHER), "tied": "output"}
    model, made = pretrained("translation", "transformer", options, target_tokenizer=OTHER)
    theirs = opened("Translator", tmp_path / "out", made)
    sources = sentences(20, seed=3)
    ours = Translator([model], Languages.of(TOKENIZER, OTHER, moses=None))
    greedy = ours._decode(sources, DecodeOptions(max_length=12), [[]] * 20)
    answered = theirs.translate_batch(pieces(sources), beam_size=1, max_decoding_length=12)
    assert pieces([one[0].tokens for one in greedy], OTHER) == [one.hypotheses[0] for one in answered]
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"source.json", "target.json", "model.bin"}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_has_the_same_logits(tmp_path, name):
    model, made = pretrained("language", "gpt", {**GPT, **GENERATORS[name]})
    theirs = opened("Generator", tmp_path / "out", made)
    ids = torch.randint(4, 270, (3, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = model(ids)
    said = torch.from_numpy(np.array(theirs.forward_batch(ids.tolist())))
    torch.testing.assert_close(said, wanted, rtol=1e-3, atol=1e-3)
    assert wanted.std() > 0.5  # not equal for being nothing


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_has_the_same_states(tmp_path, name):
    model, made = pretrained("masked", "bert", {**BERT, **ENCODERS[name]})
    theirs = opened("Encoder", tmp_path / "out", made)
    rows = sentences(5, seed=4)
    said = theirs.forward_batch(pieces(rows))
    states = np.array(said.last_hidden_state)
    for row, state in zip(rows, states, strict=True):
        with torch.no_grad():
            wanted = model.encode(Rows(torch.tensor([row])))[0]
        torch.testing.assert_close(torch.from_numpy(state[: len(row)].copy()), wanted, rtol=1e-4, atol=1e-4)
    if model.pooler is not None:
        with torch.no_grad():
            pooled = model.pooled(model.encode(torch.tensor([rows[0]])))
        torch.testing.assert_close(torch.from_numpy(np.array(said.pooler_output))[:1], pooled, rtol=1e-4, atol=1e-4)


def test_int8_is_a_quarter_of_the_size_and_close(tmp_path):
    _, made = pretrained("language", "gpt", {**GPT, "d_model": 128})
    ids = torch.randint(4, 270, (2, 30), generator=torch.Generator().manual_seed(0))
    exact, rounded = (opened("Generator", tmp_path / name, made, precision=name) for name in ("fp32", "int8"))
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("fp32", "int8")]
    assert 3.3 < sizes[0] / sizes[1] < 4.0
    logits = [torch.from_numpy(np.array(one.forward_batch(ids.tolist()))) for one in (exact, rounded)]
    assert (logits[0].log_softmax(-1) - logits[1].log_softmax(-1)).abs().mean() < 0.1 * logits[0].std()
    assert set(PRECISIONS) == {"fp32", "fp16", "bf16", "int8", "int16"}


def test_what_it_cannot_express_is_named(tmp_path):
    _, speech = pretrained("speech", "speech-transformer", {"n_target": N, "d_model": 16, "n_heads": 2,
                           "d_feedforward": 24, "n_encoder_layers": 1, "n_decoder_layers": 1})  # fmt: skip
    with pytest.raises(CheckpointError, match=r"Whisper, and here model.encoder_positions is 'sinusoidal'.*strides"):
        write_ctranslate2(tmp_path, speech, precision="fp32", usage=Usage())
    _, empty = pretrained("masked", "bert", {**BERT, "n_layers": 0})
    with pytest.raises(CheckpointError, match=r"model.n_layers is 0"):
        write_ctranslate2(tmp_path, empty, precision="fp32", usage=Usage())
    _, recurrent = pretrained("language", "recurrent-lm", {"n_tokens": N, "d_model": 12, "d_hidden": 8})
    with pytest.raises(CheckpointError, match="nothing like a recurrent-lm; regard writes transformer, gpt"):
        write_ctranslate2(tmp_path, recurrent, precision="fp32", usage=Usage())
    assert not list(tmp_path.iterdir())


def test_names_of_rows_without_a_piece_are_new(tmp_path):
    _, made = pretrained("language", "gpt", GPT)
    opened("Generator", tmp_path / "out", made)
    names = json.loads((tmp_path / "out" / "vocabulary.json").read_text())
    assert len({*names}) == len(names) == N
    assert names[-1] == f"<unused {N - 1}>"
