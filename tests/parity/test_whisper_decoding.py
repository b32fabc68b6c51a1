"""Whisper's language, translation, prompt and pipeline on a tiny random model, against transformers' own."""

from pathlib import Path

import numpy as np
import pytest
import torch

import tiny_whisper
from regard.errors import CheckpointError, UsageError
from regard.tasks.exporting import export_hub
from regard.tasks.opening import load

RATE = 16_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_whisper.write_whisper(tmp_path_factory.mktemp("whisper") / "multilingual")


@pytest.fixture(scope="module")
def model(folder):
    return load(folder, "cpu", precision="fp32")


@pytest.fixture(scope="module")
def peer(folder):
    from transformers import WhisperForConditionalGeneration

    return WhisperForConditionalGeneration.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def sound():
    chance, time = np.random.default_rng(0), np.arange(2 * RATE) / RATE
    hum = sum(np.sin(2 * np.pi * 120 * k * time) / k for k in range(1, 20)) * (np.sin(6 * np.pi * time) > 0)
    return (0.1 * hum + 0.001 * chance.standard_normal(len(time))).astype(np.float32)


def theirs(peer, sound, **asked):
    from transformers import WhisperFeatureExtractor

    features = WhisperFeatureExtractor()(sound, sampling_rate=RATE, return_tensors="pt")["input_features"]
    ids = peer.generate(features, max_new_tokens=12, do_sample=False, num_beams=1, **asked)[0].tolist()
    return [token for token in ids if token < 50_257]


BARE = {"vad": False, "max_length": 12, "no_speech_threshold": 1.0}


@pytest.mark.parametrize("language", ["en", "de", "yi"])
@pytest.mark.parametrize("translate", [False, True])
def test_language_and_translation_are_those_of_generate(model, peer, sound, language, translate):
    said = model.transcribe(sound, RATE, language=language, translate=translate, **BARE)
    task = "translate" if translate else "transcribe"
    assert said.ids == theirs(peer, sound, language=language, task=task)


def test_they_make_a_difference(model, sound):
    asked = [("en", False), ("de", False), ("de", True)]
    texts = {
        model.transcribe(sound, RATE, language=language, translate=translate, **BARE).text
        for language, translate in asked
    }
    assert len(texts) > 1


def test_a_prompt_comes_before(model, peer, sound):
    earlier = "names like zelda"
    before = torch.tensor([50_361, *model.tokenizer.encode(" " + earlier)])
    expected = theirs(peer, sound, language="en", task="transcribe", prompt_ids=before)
    n = len(before)
    found = model.transcribe(sound, RATE, language="en", initial_prompt=earlier, **BARE).ids
    assert found == [token for token in expected if token < 50_257][n - 1 :] or found == expected
    assert found != model.transcribe(sound, RATE, language="en", **BARE).ids
    long = model.exact.opening(model.options({"initial_prompt": "word " * 500}))
    assert len(long) == 1 + 23 + 4  # half of the positions less one, with its mark, and the usual opening


def test_the_likeliest_language_is_found(model, peer, sound):
    from transformers import WhisperFeatureExtractor

    features = WhisperFeatureExtractor()(sound, sampling_rate=RATE, return_tensors="pt")["input_features"]
    with torch.inference_mode():
        found = int(peer.detect_language(features)[0])
    said = model.transcribe(sound, RATE, language="auto", **BARE)
    assert f"<|{said.language}|>" == model.tokenizer.core.id_to_token(found)
    told = model.transcribe(sound, RATE, language=said.language, **BARE)
    assert (said.ids, said.words) == (told.ids, told.words)
    assert said.record()["language"] == said.language
    unasked = model.transcribe(sound, RATE, **BARE)
    assert (unasked.ids, unasked.language) == (said.ids, said.language), "as without a word about it"


def test_what_an_english_model_and_wrong_languages_are_told(model, sound, tmp_path):
    english = tiny_whisper.open_whisper(tmp_path / "en", n_tokens=tiny_whisper.ENGLISH)
    with pytest.raises(UsageError, match=r"^a translation was asked for, and this is an English-only model$") as error:
        english.transcribe(np.zeros(RATE, np.float32), RATE, translate=True)
    assert "multilingual" in error.value.hint
    with pytest.raises(UsageError, match="the language 'de' was asked for, and this is an English-only model"):
        english.transcribe(sound, RATE, language="de")
    plain = english.transcribe(sound, RATE, **BARE).ids
    assert english.transcribe(sound, RATE, language="en", **BARE).ids == plain
    with pytest.raises(UsageError, match="the language 'deutsch' is not known to this model") as error:
        model.transcribe(sound, RATE, language="deutsch")
    assert " de " in error.value.hint


def test_an_exported_folder_opens_in_the_pipeline(model, folder, sound, tmp_path):
    from transformers import pipeline

    out = tmp_path / "out"
    export_hub(folder, out)
    heard = pipeline("automatic-speech-recognition", model=str(out), device="cpu")
    asked = {"language": "de", "task": "transcribe", "max_new_tokens": 12, "num_beams": 1}
    said = heard({"raw": sound, "sampling_rate": RATE}, generate_kwargs=asked)["text"]
    assert said.strip() == model.transcribe(sound, RATE, language="de", **BARE).text
    assert load(out, "cpu", precision="fp32").transcribe(sound, RATE, language="de", **BARE).text == said.strip()


def test_a_model_that_transformers_does_not_have_is_refused(tmp_path):
    golden = Path(__file__).parents[1] / "golden" / "finished" / "speech"
    with pytest.raises(CheckpointError, match="no format of others can express this speech-transformer"):
        export_hub(golden, tmp_path / "out")
    assert not (tmp_path / "out").exists()
