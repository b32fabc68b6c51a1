"""Sound files to samples: mono, single precision, from −1 to 1.

    audio = read_audio("a.wav")           Audio: samples (n,) and their rate; several channels are averaged
    audio = decode_audio(bytes, "a.flac")     the same for a file inside an archive

PCM WAV is read by the standard library; FLAC, OGG, MP3 and WAV of floats by the package soundfile, which is imported
when it is needed; m4a, mp4, webm and others by the program ffmpeg where it is installed. What holds no sound, numbers
that are none, or a rate that no recording has, is named with its file.
"""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.config.bounded import open_regular, regular_size, require
from regard.data.audio import ffmpeg
from regard.errors import DataError, EnvironmentProblem

Samples = npt.NDArray[np.float32]
SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au", *ffmpeg.SUFFIXES)
_RATES = (100, 1_000_000)  # samples a second that are believed
_WIDTHS = {1: 2.0**7, 2: 2.0**15, 3: 2.0**23, 4: 2.0**31}


class Audio(NamedTuple):
    """Samples (n,) of one channel, and how many there are a second."""

    samples: Samples
    rate: int

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / self.rate


def read_audio(path: Path | str) -> Audio:
    """The sound of a file; what cannot be used is an error with its name."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: is a folder, a sound file was expected", hint="name one file inside it")
    try:
        with open_regular(path) as file:
            require(4.0 * regular_size(path), f"{path}: its sound")
            head = file.read(12)
            data = b"" if ffmpeg.needs_ffmpeg(path, head) else head + file.read()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file", hint="paths in a table count from the table's folder") from None
    except OSError as problem:
        raise DataError(f"{path}: cannot be read ({problem.strerror or problem})") from problem
    if head and not data:
        samples, rate = ffmpeg.decode_with_ffmpeg(path)
        return _checked(samples[:, None], rate, str(path))
    return decode_audio(data, str(path))


def decode_audio(data: bytes, name: str) -> Audio:
    """The sound that the bytes of a file stand for; `name` is what messages call it."""
    if not data:
        raise DataError(f"{name}: is empty", hint="a sound file was expected")
    frames, rate = _pcm(data) or _decoded(data, name)
    return _checked(frames, rate, name)


def _checked(frames: Samples, rate: int, name: str) -> Audio:
    """Frames (n, channels) as one channel, if they are sound."""
    if not frames.size:
        raise DataError(f"{name}: holds no sound (0 samples)", hint="leave it out")
    if not _RATES[0] <= rate <= _RATES[1]:
        allowed = f"{_RATES[0]:,} to {_RATES[1]:,}"
        raise DataError(f"{name}: says it has {rate:,} samples a second; allowed are {allowed}", hint="write it again")
    samples = frames[:, 0] if frames.shape[1] == 1 else frames.mean(1, dtype=np.float32)
    if not np.isfinite(samples).all():
        wrong = int(np.flatnonzero(~np.isfinite(samples))[0])
        raise DataError(f"{name}: sample {wrong} is {samples[wrong]}, not a number", hint="write the file again")
    return Audio(np.ascontiguousarray(samples, np.float32), rate)


def _pcm(data: bytes) -> tuple[Samples, int] | None:
    """Frames of a PCM WAV file; None for anything else."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    try:
        with wave.open(io.BytesIO(data)) as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            held = file.readframes(file.getnframes())
    except (wave.Error, EOFError, ValueError, RuntimeError):
        return None
    if width not in _WIDTHS or not channels:
        return None
    held = held[: len(held) // (channels * width) * channels * width]  # a frame may have been cut short
    return (_numbers(held, width) / np.float32(_WIDTHS[width])).reshape(-1, channels), rate


def _numbers(held: bytes, width: int) -> Samples:
    """Whole numbers of `width` bytes; single bytes are unsigned, as WAV has it."""
    if width == 1:
        return np.frombuffer(held, np.uint8).astype(np.float32) - 128
    if width == 3:
        padded = np.zeros((len(held) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(held, np.uint8).reshape(-1, 3)
        return (padded.view("<i4")[:, 0] >> 8).astype(np.float32)
    return np.frombuffer(held, f"<i{width}").astype(np.float32)


def _decoded(data: bytes, name: str) -> tuple[Samples, int]:
    soundfile = _soundfile(name)
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            require(4.0 * file.frames * file.channels, f"{name}: its sound")
            frames, rate = file.read(dtype="float32", always_2d=True), file.samplerate
    except (soundfile.LibsndfileError, RuntimeError, ValueError, TypeError) as problem:
        message = f"{name}: not a sound file that can be read ({problem})"
        raise DataError(message, hint="WAV, FLAC, OGG and MP3 are; it may be damaged or cut short") from problem
    return frames, int(rate)


def _soundfile(name: str) -> Any:
    try:
        import soundfile
    except (ImportError, OSError) as problem:  # the package, or the library it stands on
        raise EnvironmentProblem(
            f"{name}: reading it needs the package soundfile",
            hint="pip install 'regard[audio]'; without it, PCM WAV can be read",
        ) from problem
    return soundfile
