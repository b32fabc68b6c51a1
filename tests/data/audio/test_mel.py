"""Log-mel spectrograms against a computation in numpy, and what must not change them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data.audio.mel import Front, Scale, mel_bank, to_hertz, to_mel
from regard.errors import CheckpointError, ConfigError, UsageError


def noise(n, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(n).astype(np.float32) * 0.1)


def in_numpy(samples, front):
    """The same in float64, frame by frame, with Slaney's formulas written out again."""
    rate, n_fft, hop = front.rate, front.n_fft, front.n_hop
    n_window = round(front.window * rate)
    window = np.zeros(n_fft)
    left = (n_fft - n_window) // 2
    window[left : left + n_window] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_window) / n_window)
    padded = np.concatenate([np.zeros(n_fft // 2), samples.astype(np.float64), np.zeros(n_fft // 2)])
    frames = [padded[t * hop : t * hop + n_fft] * window for t in range(1 + len(samples) // hop)]
    power = np.abs(np.fft.rfft(frames)) ** 2

    def mel(f):
        return f * 3 / 200 if f < 1000 else 15 + 27 * np.log(f / 1000) / np.log(6.4)

    grid = np.linspace(0, 50, 200_001)
    hertz = np.where(grid < 15, grid * 200 / 3, 1000 * 6.4 ** ((grid - 15) / 27))
    edges = np.interp(np.linspace(0, mel(rate / 2), front.n_mels + 2), grid, hertz)
    bins = np.arange(n_fft // 2 + 1) * rate / n_fft
    bank = np.zeros((front.n_mels, len(bins)))
    for m in range(front.n_mels):
        low, peak, high = edges[m : m + 3]
        up, down = (bins - low) / (peak - low), (high - bins) / (high - peak)
        bank[m] = np.maximum(0, np.minimum(up, down)) * 2 / (high - low)
    logs = np.log10(np.maximum(power @ bank.T, 1e-10))
    return np.maximum(logs, logs.max() - 6)


def test_the_scale_goes_both_ways():
    hertz = torch.tensor([0.0, 200.0, 999.0, 1000.0, 6400.0], dtype=torch.float64)
    torch.testing.assert_close(to_hertz(to_mel(hertz)), hertz)
    assert float(to_mel(hertz)[-1]) == pytest.approx(42)  # 27 steps from 1 kHz to 6.4 kHz


def test_nothing_is_more_than_60_decibels_below_the_loudest():
    front = Front(rate=8000, n_mels=20, normal="none")
    loud, faint = noise(2000), noise(2000, seed=1)
    samples = torch.cat([10 * loud, 3e-4 * faint, torch.zeros(2000)])
    both = torch.stack([samples, samples * 1e-2])
    values, _ = front(both, torch.tensor([6000, 6000]))
    np.testing.assert_allclose(values[0], in_numpy(samples.numpy(), front), atol=2e-4)
    for row in values:
        assert float(row.min()) == pytest.approx(float(row.max()) - 6, abs=1e-5)
    whole = front(both[:1], torch.tensor([6000]))[0]
    assert torch.equal(whole[0], values[0]), "each row has its own loudest"


@pytest.mark.parametrize(("rate", "n_mels"), [(8000, 20), (16000, 80)])
def test_it_is_what_numpy_computes(rate, n_mels):
    front = Front(rate=rate, n_mels=n_mels, normal="none")
    samples = noise(rate // 2 + 37)
    values, frames = front(samples[None], torch.tensor([len(samples)]))
    expected = in_numpy(samples.numpy(), front)
    assert frames.tolist() == [len(expected)] == [front.n_frames(len(samples))]
    np.testing.assert_allclose(values[0], expected, atol=2e-4)
    bands, _ = replace(front, normal="utterance")(samples[None], torch.tensor([len(samples)]))
    standard = (expected - expected.mean(0)) / (expected.std(0) + 1e-2)
    np.testing.assert_allclose(bands[0], standard, atol=5e-3)


def test_a_tone_lights_its_band():
    front = Front(rate=16000, n_mels=40, normal="none")
    tone = torch.sin(2 * np.pi * 2000 * torch.arange(8000) / 16000)
    values, _ = front(tone[None], torch.tensor([8000]))
    centres = to_hertz(torch.linspace(0, float(to_mel(torch.tensor(8000.0))), 42)[1:-1])
    assert abs(float(centres[int(values[0, 20].argmax())]) - 2000) < 150


@pytest.mark.parametrize("kind", ["mel", "whisper"])
def test_a_row_is_heard_as_if_alone_and_what_follows_it_does_not_matter(kind):
    front = Front(rate=16000, n_mels=20, kind=kind)
    short, long = noise(3001), noise(9000, seed=1)
    padded = torch.stack([torch.cat((short, torch.full((5999,), 3.0))), long])
    together, frames = front(padded, torch.tensor([3001, 9000]))
    for i, one in enumerate((short, long)):
        alone, n = front(one[None], torch.tensor([len(one)]))
        torch.testing.assert_close(together[i, : int(n)], alone[0, : int(n)], rtol=0, atol=1e-5)
        assert int(n) == int(frames[i])
    assert (together[0, int(frames[0]) :] == 0).all()


def test_whispers_frames_are_those_of_transformers():
    from transformers import WhisperFeatureExtractor

    samples = noise(20_011)
    theirs = WhisperFeatureExtractor()(samples.numpy(), sampling_rate=16000, return_tensors="np")["input_features"][0]
    ours, frames = Front(kind="whisper")(samples[None], torch.tensor([len(samples)]))
    assert frames.tolist() == [3000]
    np.testing.assert_allclose(ours[0].T, theirs, atol=2e-4)
    with pytest.raises(UsageError, match="30 seconds at once"):
        Front(kind="whisper")(torch.zeros(1, 480_001), torch.tensor([480_001]))


def test_a_warp_moves_bands_up_and_keeps_the_ends():
    plain, up, down = (mel_bank(20, 512, 16000, warp) for warp in (1.0, 1.1, 0.9))
    bins = torch.arange(257).float()
    centres = [(bank * bins).sum(1) / bank.sum(1) for bank in (plain, up, down)]
    assert (centres[1][2:16] > centres[0][2:16] * 1.05).all()
    assert (centres[2][2:16] < centres[0][2:16] * 0.95).all()
    assert all(torch.isfinite(bank).all() and (bank.sum(1) > 0).all() for bank in (plain, up, down))
    front, samples = Front(rate=16000, n_mels=20), torch.stack([noise(4000)] * 3)
    values, _ = front(samples, torch.tensor([4000] * 3), warps=[1.0, 1.1, 1.0])
    assert torch.equal(values[0], values[2])
    assert not torch.allclose(values[0], values[1], atol=0.1)


def test_the_scale_of_the_training_data(tmp_path):
    front = Front(rate=8000, n_mels=8, normal="none")
    values, _ = front(noise(8000)[None], torch.tensor([8000]))
    scale = Scale.of(values[0])
    scale.save(tmp_path)
    known = replace(front, normal="global", scale=Scale.load(tmp_path))
    found, _ = known(noise(8000)[None], torch.tensor([8000]))
    np.testing.assert_allclose(found[0].mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(found[0].std(0, correction=0), 1, atol=1e-4)
    with pytest.raises(UsageError, match="needs the scale of the training data"):
        Front(normal="global")
    (tmp_path / "mel.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not the scale of mel bands"):
        Scale.load(tmp_path)


def test_settings_that_make_no_frames():
    with pytest.raises(ConfigError, match="0 < hop <= window"):
        Front(hop=0.0)
    with pytest.raises(ConfigError, match="one band or more"):
        Front(n_mels=0)
    values, frames = Front(rate=8000, n_mels=4)(torch.zeros(1, 1), torch.tensor([1]))  # one silent sample is a frame
    assert values.shape == (1, 1, 4)
    assert torch.isfinite(values).all()
    assert frames.tolist() == [1]
