"""Voice activity: silence and steady noise are none, whatever their colour and level; speech is, however faint."""

import numpy as np
import pytest

from noises import DIGITS, noise
from regard.data.audio.activity import CLEAR, FAINT, activity
from regard.data.synthetic.digits import DigitStrings, Recordings


@pytest.mark.parametrize("rate", [4000, 8000, 16_000, 44_100])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("level", [0.5, 0.01, 1e-4])
def test_steady_noise_does_not_stand_out(rate, power, level):
    for seconds in (0.3, 1.0, 20.0):
        sound = (level * noise(round(seconds * rate), power)).astype(np.float32)
        assert activity(sound, rate).stretches() == []


@pytest.mark.parametrize("n", [1, 2, 100, 16_000, 600 * 16_000])
def test_silence_does_not_stand_out(n):
    assert activity(np.zeros(n, np.float32), 16_000).stretches() == []
    dither = (np.random.default_rng(0).integers(-1, 2, n) / 32768).astype(np.float32)
    assert activity(dither, 16_000).stretches() == []
    assert activity(np.full(n, 0.4, np.float32), 16_000).stretches() == []  # a constant is no sound


def test_a_hum_does_not_stand_out_and_a_tone_in_it_does():
    rate = 16_000
    time = np.arange(4 * rate) / rate
    hum = 0.1 * np.sin(2 * np.pi * 50 * time) + 0.003 * noise(len(time))
    assert activity(hum.astype(np.float32), rate).stretches() == []
    tone = hum + 0.05 * np.sin(2 * np.pi * 700 * time) * ((time > 1.5) & (time < 2.0))
    found = activity(tone.astype(np.float32), rate)
    ((begin, end),) = found.stretches()
    assert (begin / rate, end / rate) == (pytest.approx(1.5, abs=0.08), pytest.approx(2.0, abs=0.08))
    assert found.loudest(begin, end) == found.levels.max() > found.loudest(0, rate)


@pytest.mark.skipif(not DIGITS.exists(), reason="spoken digits absent (REGARD_DATA)")
def test_speech_stands_out_faint_or_in_noise():
    recordings = Recordings.read(DIGITS).part(speakers=["theo", "lucas"], takes=(0, 5))
    strings = DigitStrings(recordings, 20, seed=4)
    for i in range(20):
        sound = strings.samples(i)
        for added in (noise(len(sound)), noise(len(sound), 0.5)):
            noisy = sound + sound.std() * 10 ** (-10 / 20) * added
            assert activity(noisy.astype(np.float32), 8000).levels.max() > CLEAR
        found = activity(np.float32(0.01) * sound, 8000).stretches()
        chosen, pauses, _ = strings.plans[i]
        begin = int(pauses[0])
        for number, pause in zip(chosen, pauses[1:], strict=True):
            end = begin + len(recordings.sounds[number])
            assert any(start < end and over > begin for start, over in found)  # every digit is heard
            begin = end + int(pause)
    assert FAINT < CLEAR


def test_the_floor_follows_noise_that_grows():
    rate = 8000
    sound = noise(120 * rate) * np.geomspace(0.001, 0.1, 120 * rate)  # a third of a decibel a second
    assert activity(sound.astype(np.float32), rate).stretches(CLEAR) == []
