"""What training does to recordings: within bounds, the same again, and nothing when nothing is asked for."""

import numpy as np
import torch

from regard.data.audio.augmentation import Changes, alter, hide, stacked

ALL = Changes(speed=0.2, gain=6.0, noise=0.5, warp=0.1, band_masks=2, band_width=5, time_masks=2, time_width=0.2)


def test_draws_depend_on_seed_epoch_and_example_alone():
    one, again = ALL.draw(1, 2, 3), ALL.draw(1, 2, 3)
    assert one[:5] == again[:5]
    assert np.array_equal(one.bands, again.bands)
    for other in (ALL.draw(2, 2, 3), ALL.draw(1, 3, 3), ALL.draw(1, 2, 4)):
        assert not np.array_equal(one.bands, other.bands)
    drawn = [ALL.draw(0, 0, i) for i in range(400)]
    assert {round(d.speed * 20) for d in drawn} == set(range(16, 25))
    assert all(0.9 <= d.warp <= 1.1 for d in drawn)
    assert all(10**-0.3 <= d.gain <= 10**0.3 for d in drawn)
    assert 140 < sum(d.noise > 0 for d in drawn) < 260


def test_nothing_asked_for_is_nothing_done():
    samples, lengths = torch.randn(3, 100), torch.tensor([100, 50, 70])
    drawn = [Changes().draw(0, 0, i) for i in range(3)]
    found, n = alter(samples, lengths, drawn)
    assert torch.equal(found, samples)
    assert torch.equal(n, lengths)
    values = torch.randn(3, 9, 4)
    bands, times = stacked(drawn)
    assert torch.equal(
        hide(values, torch.tensor([9, 5, 7]), bands=bands, times=times, band_width=3, time_width=0.5), values
    )


def test_speed_changes_length_and_pitch():
    tone = torch.sin(2 * np.pi * 500 * torch.arange(8000) / 8000)
    samples = torch.stack([tone, torch.cat((tone[:4000], torch.zeros(4000)))])
    drawn = [ALL.draw(0, 0, i)._replace(speed=speed, noise=0.0, gain=1.0) for i, speed in enumerate((1.25, 0.8))]
    found, lengths = alter(samples, torch.tensor([8000, 4000]), drawn)
    assert lengths.tolist() == [6400, 5000]
    for row, n, pitch in zip(found, lengths.tolist(), (625, 400), strict=True):
        spectrum = torch.fft.rfft(row[:n]).abs()
        assert abs(int(spectrum.argmax()) * 8000 / n - pitch) < 5
        assert (row[n:] == 0).all()


def test_noise_is_as_loud_as_drawn_and_of_its_colour():
    torch.manual_seed(0)
    tone = torch.sin(2 * np.pi * 500 * torch.arange(16000) / 8000)[None].repeat(2, 1)
    drawn = [ALL.draw(0, 0, 0)._replace(speed=1.0, noise=0.1, gain=2.0, pink=pink) for pink in (False, True)]
    found, _ = alter(tone, torch.tensor([16000, 16000]), drawn)
    hiss = found / 2 - tone
    np.testing.assert_allclose(hiss.square().mean(1).sqrt(), 0.1 * np.sqrt(0.5), rtol=0.1)
    power = torch.fft.rfft(hiss).abs().square()
    low, high = power[:, 10:500].mean(1), power[:, 6000:].mean(1)
    assert 0.7 < float(low[0] / high[0]) < 1.4
    assert float(low[1] / high[1]) > 10


def test_masks_stay_within_their_row_and_width():
    values, lengths = torch.ones(50, 40, 10), torch.tensor([40] * 25 + [10] * 25)
    bands, times = stacked([ALL.draw(3, 0, i) for i in range(50)])
    found = hide(values, lengths, bands=bands, times=times, band_width=5, time_width=0.2)
    whole_bands = (found == 0).all(1)  # (B, M)
    silent = (found == 0).all(2)  # (B, T)
    assert int(whole_bands.sum(1).max()) <= 10
    assert whole_bands.any()
    assert int(silent[:25].sum(1).max()) <= 16
    assert int(silent[25:].sum(1).max()) <= 4
    assert silent.any()
    assert not silent[25:, 10:].any()
