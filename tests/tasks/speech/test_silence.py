"""Where nobody speaks, nothing is written: for a trained model, for Whisper, and for files whose headers lie."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny_speech
from noises import DIGITS, noise
from real_weights import real_weights
from regard.data.synthetic.digits import DigitStrings, Recordings
from regard.tasks.opening import load
from regard.tasks.speech.config import SpeechOptions
from regard.tasks.speech.cutting import spoken_pieces
from regard.tasks.speech.doubts import compression_ratio, drawn_at, falls_back, is_silence, repeats

RATE = tiny_speech.RATE


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    # Longer than elsewhere: it has to hear single words in minutes of noise, whatever a processor's last digits are.
    return tiny_speech.train_speech(tmp_path_factory.mktemp("silence"), "train.steps=600")


@pytest.fixture(scope="module")
def model(run):
    return load(run, "cpu")


@pytest.mark.parametrize("minutes", [0.02, 10])
def test_silence_and_noise_have_no_words(model, minutes):
    n = round(60 * minutes * RATE)
    assert model.transcribe(np.zeros(n, np.float32), RATE).text == ""
    for power in (0.0, 0.5):
        said = model.transcribe((0.1 * noise(n, power)).astype(np.float32), RATE)
        assert (said.text, said.words, said.segments, said.ids) == ("", [], [], [])
        assert said.seconds == pytest.approx(60 * minutes)
        assert said.record()["finished"] is True


def test_quiet_speech_and_speech_in_noise_keep_their_words(model):
    words = ["top", "low", "mid"]
    sound = tiny_speech.spoken(words, seed=3)
    assert model.transcribe(np.float32(0.01) * sound, RATE).text == "top low mid"
    chance = np.random.default_rng(0)
    noisy = sound + sound.std() * 10 ** (-10 / 20) * chance.standard_normal(len(sound))
    assert (
        model.transcribe(noisy.astype(np.float32), RATE, vad=False).text
        == model.transcribe(noisy.astype(np.float32), RATE).text
        != ""
    )


def test_words_in_a_long_silence_are_found_with_their_times(model):
    chance = np.random.default_rng(1)
    sound = (0.003 * chance.standard_normal(300 * RATE)).astype(np.float32)
    said = {40: ["top", "low"], 200: ["mid"]}
    for second, words in said.items():
        part = tiny_speech.spoken(words, seed=second)
        sound[second * RATE : second * RATE + len(part)] += part
    found = model.transcribe(sound, RATE)
    assert found.text.split()[:2] == ["top", "low"]
    assert "mid" in found.text.split()[2:]
    near = [(round(word.start), word.end - word.start < 0.4) for word in found.words]
    assert set(near) == {(40, True), (200, True)}  # of five minutes, nothing else has words
    assert [(round(one.start), round(one.end)) for one in found.segments] == [(40, 40), (200, 200)]
    assert " ".join(one.text for one in found.segments) == found.text


def wav(rate, data, *, claimed=None, width=2, channels=1):
    """A WAV file whose header says what it likes about the bytes that follow."""
    claimed = len(data) if claimed is None else claimed
    about = struct.pack("<HHIIHH", 1, channels, rate, rate * width * channels % 2**32, width * channels, 8 * width)
    head = b"RIFF" + struct.pack("<I", min(36 + claimed, 2**32 - 1)) + b"WAVEfmt " + struct.pack("<I", 16) + about
    return head + b"data" + struct.pack("<I", claimed) + data


@pytest.mark.parametrize(
    ("data", "claimed"),
    [
        (os.urandom(40_000), None),  # something else, such as an archive, called sound
        (os.urandom(40_000), 2**32 - 1),
        (bytes(40_000), 2**31),
        (b"In the beginning was the word. " * 2000, 10**9),
    ],
)
def test_a_header_that_lies_brings_no_words(model, tmp_path, data, claimed):
    for width in (1, 2, 4):
        path = tmp_path / f"{width}.wav"
        path.write_bytes(wav(RATE, data, claimed=claimed, width=width))
        assert model(str(path)).text == ""


def test_pieces_are_around_what_is_said():
    rate = 4000
    sound = 0.001 * np.random.default_rng(0).standard_normal(60 * rate)
    for second in (10, 11, 40):
        sound[second * rate : second * rate + 2000] += np.random.default_rng(second).standard_normal(2000)
    sound = sound.astype(np.float32)
    apart = spoken_pieces(sound, 30 * rate, rate=rate, pause=2.0)
    assert [(round(one.begin / rate), int(one.end / rate)) for one in apart] == [(10, 11), (40, 40)]
    together = spoken_pieces(sound, 40 * rate, rate=rate, pause=np.inf)
    assert [(round(one.begin / rate), int(one.end / rate)) for one in together] == [(10, 40)]
    near = sound[9 * rate : 13 * rate]
    assert [(one.begin, one.end) for one in spoken_pieces(near, 8 * rate, rate=rate, pause=2.0)] == [(0, len(near))]
    windows = spoken_pieces(sound, 8 * rate, rate=rate, pause=np.inf)  # quiet windows are left out
    assert len(windows) == 2
    assert all(one.end - one.begin <= 8 * rate for one in windows)


def test_doubts_are_those_of_whispers_reference():
    options = SpeechOptions()
    assert compression_ratio("") == 0
    assert not repeats("The cat sat on the mat, and the dog did not.", options)
    assert repeats("thank you " * 20, options)
    assert is_silence(-1.2, 0.7, options)
    assert not is_silence(-0.9, 0.99, options)  # sure of its text, whatever the mark says
    assert not is_silence(-1.2, 0.5, options)
    assert not is_silence(-1.2, None, options)
    beam = SpeechOptions(strategy="beam", beam=5, ctc=0.3, fallback="long", prompt=("a",))
    assert falls_back(beam, long=True)
    assert not falls_back(beam, long=False)
    assert not falls_back(options, long=True)
    drawn = drawn_at(beam, 0.4)
    assert (drawn.strategy, drawn.temperature, drawn.beam, drawn.ctc, drawn.prompt) == ("sample", 0.4, 1, 0.0, ("a",))


def test_texts_that_are_doubted_are_drawn_anew(model):
    sound = tiny_speech.spoken(["top", "low"], seed=9)
    usual = model.transcribe(sound, RATE)
    same = model.transcribe(sound, RATE, fallback="always")
    assert same.text == usual.text  # there is nothing to doubt
    tried = []
    written = model.quick._written

    def counted(heard, options, keys):
        tried.append((options.strategy, options.temperature, len(heard.memory)))
        return written(heard, options, keys)

    model.quick._written = counted
    try:
        asked = {"log_prob_threshold": 0.0, "fallback": "always"}  # nothing is that sure
        drawn = [model([(sound, RATE), (sound, RATE)], **asked) for _ in range(2)]
    finally:
        del model.quick._written
    assert tried[:6] == [("greedy", 1.0, 2), *(("sample", t, 2) for t in (0.2, 0.4, 0.6, 0.8, 1.0))]
    assert [one.text for one in drawn[0]] == [one.text for one in drawn[1]]


@pytest.mark.slow
def test_whisper_writes_nothing_of_silence_and_noise():
    whisper, rate = load(real_weights("tiny.en.pt"), "cpu"), 16_000
    n = 600 * rate
    sounds = [np.zeros(n), 0.1 * noise(n), 0.1 * noise(n, 0.5)]
    assert [one.text for one in whisper([(sound.astype(np.float32), rate) for sound in sounds])] == ["", "", ""]
    bursts = np.zeros(20 * rate)
    for second in range(0, 20, 4):  # they stand out, and are no speech
        bursts[second * rate : (second + 1) * rate] = 0.1 * noise(rate, seed=second)
    assert whisper.transcribe(bursts.astype(np.float32), rate).text == ""


@pytest.mark.slow
@pytest.mark.skipif(not Path(DIGITS).exists(), reason="spoken digits absent (REGARD_DATA)")
def test_whisper_hears_quiet_and_noisy_digits():
    whisper, rate = load(real_weights("tiny.en.pt"), "cpu"), 16_000
    recordings = Recordings.read(DIGITS, rate=rate).part(speakers=["theo", "jackson"], takes=(0, 5))
    strings = DigitStrings(recordings, 3, seed=3)
    for i in range(3):
        sound = strings.samples(i)
        noisy = (sound + sound.std() * 10 ** (-10 / 20) * noise(len(sound))).astype(np.float32)
        for heard in (sound, np.float32(0.01) * sound, noisy):
            said = whisper.transcribe(heard, rate)
            assert len(said.words) == len(strings.texts[i].split())
    with torch.inference_mode():
        frames, _ = whisper.exact.hear([sound])
        logits = whisper.module(frames, torch.tensor([[50257]]))[0, -1]
    (own,) = whisper.exact([sound], whisper.options({}))
    assert own[0].no_speech == pytest.approx(float(logits.softmax(-1)[50361]), abs=1e-4)
