"""Whisper's files: tiny random models against transformers, both ways, and the real tiny.en, token by token."""

import base64
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from real_weights import real_weights
from regard.attention import Rows
from regard.checkpoints.foreign.family import TheirConfig
from regard.checkpoints.foreign.hub import write_hub
from regard.checkpoints.foreign.whisper import open_openai, read_options
from regard.checkpoints.foreign.whisper_tokens import read_ranks, special_tokens, unspoken
from regard.checkpoints.opening import open_model
from regard.checkpoints.spec import ModelSpec, with_defaults
from regard.checkpoints.weights import weights_of
from regard.data.synthetic.digits import DigitStrings, Recordings
from regard.errors import CheckpointError
from regard.models.flops import count_parameters
from regard.models.interfaces.speech import Frames
from regard.models.registry import build, configure
from regard.models.speech_transformer import WHISPER_OPTIONS, waves

SIZES = {"vocab_size": 60, "num_mel_bins": 10, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
         "max_source_positions": 30, "max_target_positions": 20, "pad_token_id": 3, "bos_token_id": 3,
         "eos_token_id": 3, "decoder_start_token_id": 4, "suppress_tokens": None,
         "begin_suppress_tokens": None}  # fmt: skip


@pytest.fixture(scope="module")
def theirs():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(WhisperConfig(**SIZES)).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def with_tokenizer(folder):
    """A tokenizer that is small, and enough to open the folder."""
    from tokenizers import Tokenizer as Core
    from tokenizers import models

    marks = {"<|endoftext|>": 3, "<|startoftranscript|>": 4}
    core = Core(models.WordLevel({f"w{i}": i for i in range(60) if i not in (3, 4)} | marks, unk_token="w0"))
    core.save(str(folder / "tokenizer.json"))


def inputs():
    torch.manual_seed(1)
    return torch.randn(2, 10, 60), torch.randint(5, 60, (2, 7))


def ours_of(found, features, target):
    module = found.module()
    frames = Frames(features.transpose(1, 2), torch.full((2,), features.shape[2]))
    with torch.inference_mode():
        return module(frames, target)


def test_a_folder_of_theirs_computes_the_same(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    with_tokenizer(tmp_path)
    features, target = inputs()
    with torch.inference_mode():
        expected = theirs(input_features=features, decoder_input_ids=target).logits
    found = open_model(tmp_path)
    assert (found.task, found.model) == ("speech", "speech-transformer")
    torch.testing.assert_close(ours_of(found, features, target), expected, rtol=0, atol=1e-4)
    assert found.decode["max_length"] == 10
    said = {"suppress_tokens": [7, 8], "begin_suppress_tokens": [5, 3], "alignment_heads": [[1, 0], [2, 1]]}
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    assert open_model(tmp_path).decode | {} == {
        "patience": 1.0,
        "max_length": 10, "banned": [7, 8], "not_first": [5, 3], "heads": ["1.0", "2.1"]
    }  # fmt: skip


def test_a_folder_of_ours_computes_the_same_in_transformers(theirs, tmp_path):
    from transformers import WhisperForConditionalGeneration

    torch.manual_seed(5)
    options = WHISPER_OPTIONS | {"n_mels": 10, "n_target": 60, "d_model": 16, "n_heads": 2, "d_feedforward": 24,
                       "n_encoder_layers": 2, "n_decoder_layers": 3, "n_places": 30, "n_positions": 20}  # fmt: skip
    model = build("speech-transformer", options).eval()
    for name, tensor in weights_of(model).items():
        torch.nn.init.normal_(tensor, std=0.3)  # key biases too: they must not matter
        assert torch.isfinite(tensor).all(), name
    write_hub(tmp_path, ModelSpec("speech", "speech-transformer", options), tensors=weights_of(model), tokenizer=None)
    again, told = WhisperForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    again.eval()
    features, target = inputs()
    frames = Frames(features.transpose(1, 2), torch.full((2,), 60))
    with torch.inference_mode():
        expected = again(input_features=features, decoder_input_ids=target).logits
        torch.testing.assert_close(model(frames, target), expected, rtol=0, atol=1e-4)
    with pytest.raises(CheckpointError, match="no format of others can express this speech-transformer"):
        write_hub(tmp_path / "b", ModelSpec("speech", "speech-transformer", options | {"strides": (2, 2)}),
                  tensors={}, tokenizer=None)  # fmt: skip


def test_the_table_of_waves_is_theirs(theirs):
    torch.testing.assert_close(waves(30, 16), theirs.model.encoder.embed_positions.weight.detach())


@pytest.mark.parametrize(
    ("size", "published"),
    [("tiny", 37_760_640), ("base", 72_593_920), ("small", 241_734_912), ("medium", 763_857_920)],
)
def test_named_sizes_are_the_published_ones(size, published):
    config = configure("speech-transformer", f"whisper-{size}", n_target=51_865)
    with torch.device("meta"):
        count = count_parameters(build("speech-transformer", {"size": f"whisper-{size}", "n_target": 51_865}))
    key_biases = config.d_model * (config.n_encoder_layers + 2 * config.n_decoder_layers)  # ours alone
    waves_stored = config.n_places * config.d_model  # theirs alone
    assert count - key_biases + waves_stored == published


def test_files_that_are_no_whisper(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"a.pt: no Whisper model \(it has no dims and model_state_dict\)"):
        open_openai(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"b.pt: "):
        open_openai(tmp_path / "b.pt")
    torch.save({"dims": {}, "model_state_dict": {}, "more": CheckpointError}, tmp_path / "c.pt")
    with pytest.raises(CheckpointError, match="holds more than tensors, and was not opened"):
        open_openai(tmp_path / "c.pt")
    torch.save({"dims": {"n_mels": 80}, "model_state_dict": {}}, tmp_path / "d.pt")
    with pytest.raises(CheckpointError, match="n_audio_state is missing"):
        open_openai(tmp_path / "d.pt")


def test_the_special_tokens_in_their_places():
    english, all_languages, newest = (special_tokens(n) for n in (51_864, 51_865, 51_866))
    assert len(english) == len(all_languages) == len(newest) - 1 == 51_864 - 50_256
    assert (english[0], english[1], english[2], english[106]) == (
        "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|notimestamps|>"
    )  # fmt: skip
    assert english[-1] == "<|30.00|>"
    assert newest[101] == "<|yue|>"
    with pytest.raises(CheckpointError, match="a vocabulary of 1000 tokens is none of Whisper's"):
        special_tokens(1000)


def test_lists_of_ranks_that_cannot_be_read(tmp_path):
    path = tmp_path / "gpt2.tiktoken"
    path.write_text("????? 0\n")
    with pytest.raises(CheckpointError, match="not a list of pieces and ranks"):
        read_ranks(path, n_tokens=51_864)
    path.write_text(f"{base64.b64encode(b'a').decode()} 5\n")
    with pytest.raises(CheckpointError, match="its ranks are not 0, 1, 2"):
        read_ranks(path, n_tokens=51_864)
    path.write_text(f"{base64.b64encode(b'a').decode()} 0\n")
    with pytest.raises(CheckpointError, match="holds 1 pieces"):
        read_ranks(path, n_tokens=51_864)


@pytest.fixture(scope="module")
def tiny():
    return open_model(real_weights("tiny.en.pt"))


@pytest.mark.slow
def test_the_vocabulary_is_gpt2s(tiny):
    tokenizer = tiny.tokenizer
    # GPT-2's ids, as published with the model and its tokenizer
    assert tokenizer.encode("Hello world") == [15496, 995]
    assert tokenizer.encode(" don't") == [836, 470]
    text = "naïve — ♪ 日本 \n  spaces"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer) == 51_864
    assert tokenizer.core.token_to_id("<|notimestamps|>") == 50_362
    banned = unspoken(tokenizer)
    assert banned[:12] == [1, 2, 7, 8, 9, 10, 14, 25, 26, 27, 28, 29]  # transformers' generation config of tiny.en
    assert banned[-7:] == [49146, 50257, 50357, 50358, 50359, 50360, 50361]
    assert len(banned) == 90


def spoken_sounds():
    """Spoken digits where they are at hand, and sounds that are no speech, on which a model is least sure."""
    chance, time = np.random.default_rng(0), np.arange(32_000) / 16_000
    hum = sum(np.sin(2 * np.pi * 120 * k * time) / k for k in range(1, 20)) * (np.sin(6 * np.pi * time) > 0)
    sounds = [0.1 * hum + 0.001 * chance.standard_normal(32_000), 0.02 * chance.standard_normal(20_000)]
    recordings = Path(os.environ.get("REGARD_DATA", "data")) / "fsdd" / "fsdd.tar.gz"
    if recordings.exists():
        digits = Recordings.read(recordings, rate=16_000).part(speakers=["jackson", "theo"], takes=(0, 5))
        strings = DigitStrings(digits, 4, seed=3)
        sounds += [strings.samples(i) for i in range(4)]
    return [np.asarray(sound, np.float32) for sound in sounds]


@pytest.mark.slow
def test_an_exported_folder_is_decoded_by_transformers_itself(tiny, tmp_path):
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

    from regard.tasks.exporting import export_hub
    from regard.tasks.opening import recipe_of
    from regard.tasks.speech.predictor import SpeechPredictor

    export_hub(tiny.origin, tmp_path / "out")
    peer = WhisperForConditionalGeneration.from_pretrained(tmp_path / "out").eval()
    model = SpeechPredictor.open(tiny, recipe_of(tiny), tiny.module(), precision="fp32")
    for samples in spoken_sounds():
        features = WhisperFeatureExtractor()(samples, sampling_rate=16000, return_tensors="pt")["input_features"]
        ids = peer.generate(features, max_new_tokens=24, do_sample=False)[0].tolist()
        assert model.transcribe(samples, 16_000, max_length=24, vad=False, no_speech_threshold=1.0).ids == [
            token for token in ids if token < 50256
        ]
    again = open_model(tmp_path / "out")
    said, meant = (
        {key: list(value) if isinstance(value, list | tuple) else value for key, value in model.decode.items()}
        for model in (again, tiny)
    )
    assert said == meant


@pytest.mark.slow
def test_the_real_model_writes_the_tokens_that_transformers_writes(tiny):
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    from regard.checkpoints.foreign.whisper import WHISPER
    from regard.tasks.opening import recipe_of
    from regard.tasks.speech.predictor import SpeechPredictor

    described = with_defaults(ModelSpec(tiny.task, tiny.model, tiny.options))
    config = WHISPER.config(described)
    with torch.device("meta"):
        peer = WhisperForConditionalGeneration(WhisperConfig(**config))
    weights = WHISPER.names(described).write(tiny.tensors)
    weights |= {"proj_out.weight": weights["model.decoder.embed_tokens.weight"],
                "model.encoder.embed_positions.weight": waves(1500, 384)}  # fmt: skip
    peer.load_state_dict(weights, assign=True)
    peer.eval()
    model = SpeechPredictor.open(tiny, recipe_of(tiny), tiny.module(), precision="fp32")
    for samples in spoken_sounds():
        features = torch.from_numpy(WhisperFeatureExtractor()(samples, sampling_rate=16000)["input_features"][0])[None]
        ids = [50257, 50362]
        banned = list(model.config.decode.banned)
        with torch.inference_mode():
            memory = peer.model.encoder(features)
            for step in range(24):
                logits = peer(encoder_outputs=memory, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
                logits[banned + ([220, 50256] if step == 0 else [])] = -np.inf
                ids.append(int(logits.argmax()))
                if ids[-1] == 50256:
                    break
        said = model.transcribe(samples, 16_000, max_length=24, vad=False, no_speech_threshold=1.0)
        expected = [token for token in ids[2:] if token != 50256]
        assert said.ids == expected
        frames, heard = model.exact.hear([samples])
        np.testing.assert_allclose(frames.values[0].T, features[0], atol=1e-3)
        torch.testing.assert_close(heard.memory, memory.last_hidden_state, rtol=0, atol=2e-3)
        with torch.inference_mode():
            whole = model.module(frames, Rows(torch.tensor([ids])))
            torch.testing.assert_close(
                whole, peer(encoder_outputs=memory, decoder_input_ids=torch.tensor([ids])).logits, rtol=0, atol=5e-3
            )


DIMS = {"n_mels": 80, "n_vocab": 51_864, "n_audio_ctx": 1500, "n_audio_state": 384, "n_audio_head": 6,
        "n_audio_layer": 4, "n_text_ctx": 448, "n_text_state": 384, "n_text_head": 6, "n_text_layer": 4}  # fmt: skip


@pytest.mark.parametrize(("n_vocab", "end"), [(51_864, 50_256), (51_865, 50_257), (51_866, 50_257)])
def test_rows_are_filled_up_with_the_end_of_text(n_vocab, end):
    """`<|endoftext|>` is 50256 of the English models and 50257 of the others, as OpenAI's tokenizers have it."""
    options = read_options(TheirConfig(DIMS | {"n_vocab": n_vocab}, origin="x.pt"))
    assert (options["pad_id"], options["n_target"], options["d_feedforward"]) == (end, n_vocab, 1536)


def test_two_sides_that_differ_are_refused(theirs, tmp_path):
    with pytest.raises(CheckpointError, match="n_audio_head is 6 and n_text_head is 8; regard has one number"):
        read_options(TheirConfig(DIMS | {"n_text_head": 8}, origin="x.pt"))
    theirs.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"decoder_attention_heads": 4}))
    with pytest.raises(CheckpointError, match="encoder_attention_heads is 2 and decoder_attention_heads is 4"):
        open_model(tmp_path)
