"""Strings of digits: made of the recordings that are allowed, the same again, from folder, archive and .npz alike."""

import tarfile
import wave

import numpy as np
import pytest

from regard.data.synthetic.digits import WORDS, DigitStrings, Recordings
from regard.errors import DataError, UsageError

SPEAKERS = ("ada", "bob")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A digit is a tone of its own, and a take is a length of its own."""
    path = tmp_path_factory.mktemp("digits")
    for digit in range(10):
        for speaker in SPEAKERS:
            for take in range(12):
                n = 400 + 10 * take
                tone = 0.4 * np.sin(2 * np.pi * (300 + 50 * digit) * np.arange(n) / 8000)
                with wave.open(str(path / f"{digit}_{speaker}_{take}.wav"), "wb") as file:
                    file.setnchannels(1)
                    file.setsampwidth(2)
                    file.setframerate(8000)
                    file.writeframes((tone * 32767).astype("<i2").tobytes())
    (path / "readme.txt").write_text("not a recording")
    return path


def test_a_folder_an_archive_and_what_was_saved_are_the_same(folder, tmp_path):
    found = Recordings.read(folder)
    assert (len(found), found.rate) == (240, 8000)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(folder, "digits")
    found.save(tmp_path / "a.npz")
    for path in (tmp_path / "a.tar.gz", tmp_path / "a.npz"):
        again = Recordings.read(path)
        assert DigitStrings(again, 5, 1).fingerprint() == DigitStrings(found, 5, 1).fingerprint()
        assert list(again.speakers) == list(found.speakers)
        assert again.takes.tolist() == found.takes.tolist()
    assert len(Recordings.read(folder, rate=16000).sounds[0]) == 800


def test_parts_share_no_recording(folder):
    found = Recordings.read(folder)
    train, test = found.part(speakers=["ada"], takes=(5, 100)), found.part(speakers=SPEAKERS, takes=(0, 5))
    assert set(train.speakers) == {"ada"}
    assert set(train.takes.tolist()) == set(range(5, 12))
    assert set(test.takes.tolist()) == set(range(5))
    with pytest.raises(UsageError, match="no speaker is called 'eve'; there are ada, bob"):
        found.part(speakers=["eve"], takes=(0, 5))
    with pytest.raises(DataError, match="no recording of ada is a take from 50 to 59"):
        found.part(speakers=["ada"], takes=(50, 60))


def test_strings_are_drawn_from_seed_and_number(folder):
    recordings = Recordings.read(folder)
    strings = DigitStrings(recordings, 40, seed=1)
    again = DigitStrings(recordings, 60, seed=1)
    assert strings.texts == again.texts[:40]
    assert np.array_equal(strings.samples(7), again.samples(7))
    assert DigitStrings(recordings, 40, seed=2).texts != strings.texts
    counts = {len(text.split()) for text in strings.texts}
    assert counts == {3, 4, 5, 6}
    assert {word for text in strings.texts for word in text.split()} == set(WORDS)
    assert strings.lengths.tolist() == [len(strings.samples(i)) for i in range(40)]
    assert strings.where(0).startswith("string 0 of ")


def test_a_string_sounds_as_it_reads_and_is_one_speakers(folder):
    strings = DigitStrings(Recordings.read(folder), 10, seed=3)
    for i in range(10):
        chosen, pauses, levels = strings.plans[i]
        assert len({strings.recordings.speakers[k] for k in chosen}) == 1
        begin, samples = 0, strings.samples(i)
        for place, word in enumerate(strings.texts[i].split()):
            begin += int(pauses[place])
            n = len(strings.recordings.sounds[chosen[place]])
            part = samples[begin : begin + n]
            pitch = np.abs(np.fft.rfft(part * np.hanning(n), 8000)).argmax()
            assert abs(pitch - (300 + 50 * WORDS.index(word))) < 20
            assert np.abs(part).max() == pytest.approx(0.5 * levels[place], rel=0.1)
            begin += n
        assert np.abs(samples[: pauses[0]]).max() < 0.02


def test_what_is_no_recordings(tmp_path):
    with pytest.raises(DataError, match="holds no recordings of digits"):
        Recordings.read(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        Recordings.read(tmp_path / "gone.tar.gz")
    with pytest.raises(DataError, match="no such file"):
        Recordings.read(tmp_path / "gone.npz")
    (tmp_path / "a.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not recordings of digits"):
        Recordings.read(tmp_path / "a.npz")
    (tmp_path / "a.tar").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"not a folder, a tar archive or an \.npz"):
        Recordings.read(tmp_path / "a.tar")
