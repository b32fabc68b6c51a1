"""Whisper tiny.en on a CPU beside faster-whisper, the same weights: how much faster than speech, and how many errors.

    python benchmarks/weights.py tiny.en.pt
    python benchmarks/transcription.py [--minutes 8] [--rounds 3] [--greedy] [--save]

Two recordings of some minutes each: sentences of Multi30k's test set read by espeak-ng (a program of its own, from the
system's packages: apt-get install espeak-ng), and strings of spoken digits, joined from the Free Spoken Digit Dataset.
faster-whisper reads what CTranslate2's converter makes of the Hugging Face folder that `regard export` writes: int8 and
float32. Both write greedily on all cores, voice activity found first, and what repeats itself or is doubted is drawn
anew at other temperatures, as is the default of both; with `--greedy` neither does that, and a single window that
repeats itself to its end can then be most of the errors. The peer has two ways: one window after another, each
beginning where the timestamps of the one before end, which is its default; and its batched pipeline, windows cut at
pauses, without timestamps, eight together, which is how ours reads. A beam of five is its default and is measured as
well. Texts are compared without case and punctuation, figures as words; errors are the median of the rounds, since the
peer draws anew in each.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import regard
from record import DATA, row, save, spread
from regard.data.audio.resampling import resample
from regard.data.synthetic.digits import WORDS
from regard.tasks.exporting import export_hub
from regard.tasks.speech.config import SpeechData
from regard.tasks.speech.data import SpeechFiles
from regard.tasks.speech.metrics import score_transcripts
from speech import recordings_under

RATE = 16_000
PAUSE = 0.6  # seconds between sentences
WORDS_A_MINUTE = 150
BATCH = 8  # windows of the peer's batched pipeline; ours reads as many
KINDS = {"int8": "int8", "fp32": "float32"}
Samples = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Recording:
    """Some minutes of sound at 16 kHz, and what is said in them."""

    name: str
    samples: Samples
    text: str

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


def read_aloud(minutes: float, folder: Path) -> Recording:
    """Sentences of a test set as espeak-ng says them, until the minutes are full."""
    if shutil.which("espeak-ng") is None:
        sys.exit("error: espeak-ng is not installed, and it reads the sentences aloud\nhint: apt-get install espeak-ng")
    with gzip.open(DATA / "multi30k" / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as file:
        sentences = [line.strip() for line in file]
    pieces, said, silence = [], [], np.zeros(round(PAUSE * RATE), np.float32)
    for sentence in sentences:
        if sum(map(len, pieces)) / RATE >= 60 * minutes:
            break
        path = folder / "said.wav"
        subprocess.run(["espeak-ng", "-v", "en-us", "-s", str(WORDS_A_MINUTE), "-w", str(path), sentence], check=True)
        pieces += [_at_rate(*_read(path)), silence]
        said.append(sentence)
    return Recording("sentences read by espeak-ng", np.concatenate(pieces), " ".join(said))


def digits(minutes: float, folder: Path) -> Recording:
    """Strings of spoken digits, one after the other, until the minutes are full."""
    data = SpeechData(digits=recordings_under(DATA), unseen="theo", rate=8000, n_test=max(8, round(30 * minutes)))
    spoken = SpeechFiles(data, DATA, folder).tests()["test"]
    pieces, said, silence = [], [], np.zeros(round(PAUSE * RATE), np.float32)
    for i in range(len(spoken)):
        if sum(map(len, pieces)) / RATE >= 60 * minutes:
            break
        pieces += [_at_rate(np.asarray(spoken.samples(i), np.float32), 8000), silence]
        said.append(spoken.texts[i])
    return Recording("joined digits", np.concatenate(pieces), " ".join(said))


def converted(hf: Path, folder: Path, kind: str) -> Path:
    """The same weights as faster-whisper opens them."""
    from ctranslate2.converters import TransformersConverter

    made = folder / f"ctranslate2-{kind}"
    TransformersConverter(str(hf), copy_files=["tokenizer.json"]).convert(str(made), quantization=KINDS[kind])
    return made


def ours(weights: Path, kind: str, *, greedy: bool) -> Callable[[Recording], str]:
    model, given = regard.load(weights, "cpu", precision=kind), {"fallback": "never"} if greedy else {}
    return lambda recording: str(model.transcribe(recording.samples, RATE, **given).text)


def faster_whisper(
    folder: Path, kind: str, *, greedy: bool, beam: int = 1, batch: int = 0
) -> Callable[[Recording], str]:
    """One window after another, or so many windows together."""
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    cores = len(os.sched_getaffinity(0))
    model = WhisperModel(str(folder), device="cpu", compute_type=KINDS[kind], cpu_threads=cores)
    more: dict[str, Any] = {"batch_size": batch, "without_timestamps": True} if batch else {}
    more |= {"best_of": 1, "temperature": 0.0} if greedy else {}
    transcribe = BatchedInferencePipeline(model).transcribe if batch else model.transcribe

    def write(recording: Recording) -> str:
        segments, _ = transcribe(
            recording.samples, language="en", beam_size=beam, vad_filter=True, condition_on_previous_text=False, **more
        )
        return " ".join(segment.text for segment in segments)

    return write


def comparable(text: str) -> str:
    """Without case and punctuation, figures as the words that are said."""
    words = re.sub(r"\d", lambda figure: f" {WORDS[int(figure[0])]} ", text.lower())
    return " ".join(re.sub(r"[^a-z' ]", " ", words.replace("’", "'")).split())


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Every way on both recordings, in turns: rows of the speed and of the errors."""
    hf = folder / "hf"
    export_hub(options.weights, hf)
    greedy: bool = options.greedy
    ways = {f"regard {kind}": ours(hf, kind, greedy=greedy) for kind in KINDS}
    for kind in KINDS:
        place = converted(hf, folder, kind)
        ways |= {f"faster-whisper {kind}": faster_whisper(place, kind, greedy=greedy)}
        ways |= {f"faster-whisper {kind}, batched": faster_whisper(place, kind, greedy=greedy, batch=BATCH)}
        if kind == "int8":
            ways |= {f"faster-whisper {kind}, beam 5": faster_whisper(place, kind, greedy=greedy, beam=5)}
    rows = []
    for recording in (read_aloud(options.minutes, folder), digits(options.minutes, folder)):
        took: dict[str, list[float]] = {name: [] for name in ways}
        errors: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                begin = time.perf_counter()
                said = way(recording)
                took[name].append(time.perf_counter() - begin)
                scores = score_transcripts([comparable(said)], [comparable(recording.text)])
                errors[name].append(scores["WER"].value)
        for name in ways:
            speed, wrong = recording.seconds / median(took[name]), median(errors[name])
            print(f"  {recording.name:<28}{name:<32}{speed:7.1f} × real time   WER {wrong:6.2f}", flush=True)
        rows += _rows(recording, took, errors, greedy=greedy)
    return rows


def _rows(
    recording: Recording, took: dict[str, list[float]], errors: dict[str, list[float]], *, greedy: bool
) -> list[dict[str, Any]]:
    rows = []
    for kind in KINDS:
        mine = f"regard {kind}"
        for peer in (name for name in took if name.startswith(f"faster-whisper {kind}")):
            ratios = sorted(b / a for a, b in zip(took[mine], took[peer], strict=True))
            told = f"{recording.name}, greedy alone" if greedy else recording.name
            name = f"Whisper tiny.en {kind}, {told}, {recording.seconds / 60:.0f} min, beside {peer}"
            facts: dict[str, Any] = {"peer": peer, "n": len(ratios), "unlike": _unlike(peer)}
            drawn = len(set(errors[peer])) > 1
            rows += [
                row(name, "speed", round(median(ratios), 2), unit="×", peer_value=1.0,
                    spread=[round(ratios[0], 2), round(ratios[-1], 2)], **facts),
                row(name, "times real time", round(recording.seconds / median(took[mine]), 1),
                    peer_value=round(recording.seconds / median(took[peer]), 1), **facts),
                row(name, "WER", round(median(errors[mine]), 2), unit="%", peer_value=round(median(errors[peer]), 2),
                    peer_spread=spread(errors[peer]) if drawn else None, deterministic=len(set(errors[mine])) == 1,
                    **facts),
            ]  # fmt: skip
    return rows


def _unlike(peer: str) -> str | None:
    if "beam" in peer:
        return "ours greedy and without timestamps, the peer with a beam of five and with timestamps"
    return None if "batched" in peer else "the peer writes timestamps, and begins each window where they end"


def _read(path: Path) -> tuple[Samples, int]:
    with wave.open(str(path), "rb") as file:
        numbers = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        return numbers, file.getframerate()


def _at_rate(samples: Samples, rate: int) -> Samples:
    found: Samples = resample(torch.from_numpy(samples.copy()), rate, RATE).numpy()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, default=Path("weights/tiny.en.pt"))
    parser.add_argument("--minutes", type=float, default=8, help="of sound in each recording")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--greedy", action="store_true", help="neither side goes back to other temperatures")
    parser.add_argument("--save", action="store_true", help="write results/transcription.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, Path(folder))
    if options.save:
        drop = () if options.greedy else ("Whisper tiny.en",)  # rows of other minutes
        print(f"saved {save('transcription', rows, drop=drop)}")
    print(json.dumps({f"{r['name']}, {r['metric']}": r["value"] for r in rows}))


if __name__ == "__main__":
    main()
