"""Another rate: a sine stays that sine, what the new rate cannot hold goes, and odd rates are no different."""

import numpy as np
import pytest
import torch
from scipy.signal import resample_poly

from regard.data.audio import resampling as audio_resampling
from regard.data.audio.resampling import resample
from regard.errors import UsageError


def sine(rate, pitch, seconds=0.5):
    return torch.sin(2 * np.pi * pitch * torch.arange(round(rate * seconds), dtype=torch.float64) / rate)


@pytest.mark.parametrize(("rate", "new"), [(8000, 16000), (16000, 8000), (44100, 16000), (22050, 16000), (9000, 8000)])
def test_a_sine_stays_itself(rate, new):
    found = resample(sine(rate, 700.0), rate, new)
    assert len(found) == round(0.5 * new)
    middle = slice(new // 20, -new // 20)
    assert (found[middle] - sine(new, 700.0)[middle]).abs().max() < 2e-3


def test_what_the_new_rate_cannot_hold_is_gone():
    assert resample(sine(16000, 6000.0), 16000, 8000)[400:-400].abs().max() < 1e-3
    assert resample(sine(16000, 3000.0), 16000, 8000)[400:-400].abs().max() > 0.99


def test_it_agrees_with_an_independent_implementation():
    noise = np.random.default_rng(0).standard_normal(4000)
    smooth = np.convolve(noise, np.hanning(41) / 20, "same")  # below 800 Hz, where both filters pass everything
    theirs = resample_poly(smooth, 5, 4, window=("kaiser", 12.0))
    ours = resample(torch.from_numpy(smooth), 8000, 10000).numpy()
    np.testing.assert_allclose(ours[200:-200], theirs[200:-200], atol=2e-3)


def test_both_ways_to_compute_it_agree(monkeypatch):
    noise = torch.randn(2, 500, dtype=torch.float64)
    for rate, new in ((8000, 11025), (11025, 8000), (7, 5)):
        by_phases = resample(noise, rate, new)
        with monkeypatch.context() as patched:
            patched.setattr(audio_resampling, "_LARGEST", 0)
            patched.setattr(audio_resampling, "_AT_ONCE", 100)
            by_samples = resample(noise, rate, new)
        torch.testing.assert_close(by_phases, by_samples, rtol=0, atol=1e-12)


def test_rates_without_a_common_measure_take_little_memory():
    found = resample(sine(22051, 500.0, 0.2), 22051, 16000)
    assert (found[400:-400] - sine(16000, 500.0, 0.2)[400 : len(found) - 400]).abs().max() < 2e-3


def test_edges():
    assert torch.equal(resample(torch.arange(5.0), 8000, 8000), torch.arange(5.0))
    assert resample(torch.zeros(0), 8000, 16000).shape == (0,)
    assert resample(torch.ones(1), 8000, 16000).shape == (2,)
    with pytest.raises(UsageError, match="not 0 and 8000"):
        resample(torch.ones(3), 0, 8000)
