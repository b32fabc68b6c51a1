"""Sound files: read as they are, whichever the format, and named where they cannot be."""

import io
import sys
import wave

import numpy as np
import pytest

from regard.data.audio.files import decode_audio, read_audio
from regard.errors import DataError, EnvironmentProblem

soundfile = pytest.importorskip("soundfile")


def sine(n=800, rate=8000, pitch=440.0):
    return (0.5 * np.sin(2 * np.pi * pitch * np.arange(n) / rate)).astype(np.float32)


def wav_bytes(frames, width=2, rate=8000):
    """Frames (n, channels) of whole numbers as a PCM WAV file."""
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(frames.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        raw = {1: "u1", 2: "<i2", 4: "<i4"}.get(width)
        data = frames.astype("<i4").view("u1").reshape(-1, 4)[:, :3].tobytes() if width == 3 else frames.astype(raw)
        file.writeframes(data if isinstance(data, bytes) else data.tobytes())
    return held.getvalue()


@pytest.mark.parametrize(
    ("width", "full", "offset"), [(1, 127, 128), (2, 32767, 0), (3, 2**23 - 1, 0), (4, 2**31 - 1, 0)]
)
def test_pcm_of_every_width_needs_nothing_but_the_library(width, full, offset, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    numbers = np.round(sine().astype(np.float64)[:, None] * full) + offset
    audio = decode_audio(wav_bytes(numbers, width), "a.wav")
    assert (audio.rate, audio.samples.dtype, audio.samples.shape) == (8000, np.float32, (800,))
    np.testing.assert_allclose(audio.samples, sine(), atol=1.2 / full + 1e-6)
    assert audio.seconds == 0.1


def test_channels_are_averaged(tmp_path):
    both = np.stack([np.full(10, 1000), np.full(10, 3000)], 1)
    (tmp_path / "a.wav").write_bytes(wav_bytes(both))
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav").samples, 2000 / 32768)


@pytest.mark.parametrize(
    ("name", "subtype", "atol"), [("a.flac", "PCM_16", 1e-4), ("a.wav", "FLOAT", 0), ("a.ogg", None, 0.2)]
)
def test_other_formats_go_through_soundfile(tmp_path, name, subtype, atol):
    soundfile.write(tmp_path / name, sine(8000), 8000, subtype=subtype)
    audio = read_audio(tmp_path / name)
    assert audio.rate == 8000
    np.testing.assert_allclose(audio.samples[100:7900], sine(8000)[100:7900], atol=atol)


def test_without_soundfile_other_formats_say_what_is_missing(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.flac", sine(), 8000)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(EnvironmentProblem, match=r"a.flac: reading it needs the package soundfile") as error:
        read_audio(tmp_path / "a.flac")
    assert "regard[audio]" in error.value.hint


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "a.wav: is empty"),
        (b"RIFF and then nothing that is sound", "a.wav: not a sound file that can be read"),
        (b"hello, this is a text", "a.wav: not a sound file that can be read"),
        (wav_bytes(np.zeros((0, 1))), r"a.wav: holds no sound \(0 samples\)"),
    ],
)
def test_what_is_no_sound(tmp_path, data, message):
    (tmp_path / "a.wav").write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_audio(tmp_path / "a.wav")


def test_numbers_that_are_none_missing_files_and_folders(tmp_path):
    bad = sine()
    bad[17] = np.nan
    soundfile.write(tmp_path / "nan.wav", bad, 8000, subtype="FLOAT")
    with pytest.raises(DataError, match=r"nan.wav: sample 17 is nan, not a number"):
        read_audio(tmp_path / "nan.wav")
    with pytest.raises(DataError, match=r"gone.wav: no such file"):
        read_audio(tmp_path / "gone.wav")
    with pytest.raises(DataError, match=r"is a folder, a sound file was expected"):
        read_audio(tmp_path)


def test_a_file_cut_short_gives_what_is_there():
    whole = wav_bytes(np.arange(100)[:, None])
    assert len(decode_audio(whole[:-31], "a.wav").samples) == 84  # 15.5 frames are gone
