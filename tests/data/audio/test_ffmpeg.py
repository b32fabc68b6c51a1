"""Files that only ffmpeg reads: by the real program where it is installed, else by one that answers as it does."""

import io
import os
import shutil
import sys
import wave

import numpy as np
import pytest

from regard.data.audio.ffmpeg import decode_with_ffmpeg, needs_ffmpeg
from regard.data.audio.files import read_audio
from regard.errors import DataError, EnvironmentProblem


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a program called ffmpeg in the way, which does what it is told in Python."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def put(body):
        path = folder / "ffmpeg"
        path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return put


def test_without_the_program_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "talk.m4a").write_bytes(b"\0\0\0 ftypM4A ")
    with pytest.raises(
        EnvironmentProblem, match=r"talk.m4a: reading it needs the program ffmpeg, .* not inst"
    ) as error:
        read_audio(tmp_path / "talk.m4a")
    assert "\n" not in str(error.value)
    assert "apt install ffmpeg" in error.value.hint


def test_it_is_asked_for_one_file_and_no_more(tmp_path, program):
    program("""
open(sys.argv[0] + ".said", "w").write("\\n".join(sys.argv[1:]))
sys.stdout.buffer.write(b"\\x00\\x40" * 4800 + b"x")
""")
    path = tmp_path / "-i $(touch x) é.webm"
    path.write_bytes(b"\x1aE\xdf\xa3")
    audio = read_audio(path)
    assert (audio.rate, audio.seconds) == (48_000, 0.1)
    np.testing.assert_allclose(audio.samples, 0.5)
    said = (tmp_path / "bin" / "ffmpeg.said").read_text().splitlines()
    assert f"file:{path}" in said
    assert said[said.index("-protocol_whitelist") + 1] == "file,pipe"
    assert not (tmp_path / "x").exists()


def test_what_it_cannot_read_or_does_not_finish(tmp_path, program):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"nothing")
    program('sys.stderr.write("one\\nmoov atom not found\\n"); sys.exit(1)')
    with pytest.raises(DataError, match=r"a.mp4: not a sound file that can be read \(ffmpeg: moov atom not found\)"):
        read_audio(path)
    program("pass")
    with pytest.raises(DataError, match=r"a.mp4: holds no sound"):
        read_audio(path)
    program("import time; time.sleep(60)")
    with pytest.raises(DataError, match=r"a.mp4: ffmpeg was not done after 0.2 s"):
        decode_with_ffmpeg(path, limit=0.2)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"a.mp4: is empty"):
        read_audio(path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.aac")
        with pytest.raises(DataError, match="not a regular file"):
            decode_with_ffmpeg(tmp_path / "pipe.aac")


def test_known_by_the_first_bytes_too(tmp_path):
    for head in (b"\0\0\0\x20ftypisom", b"\x1aE\xdf\xa3\x01\x00", b"\xff\xf1\x50\x80"):
        assert needs_ffmpeg(tmp_path / "noname", head)
    for head in (b"RIFF\0\0\0\0WAVE", b"fLaC", b"ID3\x03", b"\xff\xfb\x90\x00", b"", b"a"):
        assert not needs_ffmpeg(tmp_path / "noname", head)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
@pytest.mark.parametrize("name", ["a.m4a", "a.webm", "a.aac", "a.mp4"])
def test_the_real_program(tmp_path, name):
    import subprocess

    time = np.arange(16_000) / 16_000
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((10_000 * np.sin(2 * np.pi * 440 * time)).astype("<i2").tobytes())
    subprocess.run(["ffmpeg", "-v", "error", "-i", tmp_path / "a.wav", tmp_path / name], check=True)
    audio = read_audio(tmp_path / name)
    assert audio.seconds == pytest.approx(1, abs=0.15)
    spectrum = np.abs(np.fft.rfft(audio.samples))
    assert np.fft.rfftfreq(len(audio.samples), 1 / audio.rate)[spectrum.argmax()] == pytest.approx(440, abs=3)


@pytest.mark.parametrize("rate", [1, 99, 4_000_000_000])
def test_a_rate_that_no_recording_has_is_refused(tmp_path, rate):
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(2000))
    data = bytearray(held.getvalue())
    data[24:28] = rate.to_bytes(4, "little")
    (tmp_path / "a.wav").write_bytes(bytes(data))
    with pytest.raises(DataError, match=rf"a.wav: says it has {rate:,} samples a second"):
        read_audio(tmp_path / "a.wav")
