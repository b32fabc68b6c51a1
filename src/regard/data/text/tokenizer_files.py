"""Where a folder keeps its tokenizers: one file, or one for each side of a pair."""

from __future__ import annotations

from pathlib import Path

from regard.data.text.tokenizers import Tokenizer


def save_tokenizers(folder: Path, source: Tokenizer, target: Tokenizer | None = None) -> None:
    """Write tokenizer.json, or source.json and target.json where the two sides differ."""
    folder.mkdir(parents=True, exist_ok=True)
    if target is None:
        source.save(folder / "tokenizer.json")
    else:
        source.save(folder / "source.json")
        target.save(folder / "target.json")


def read_tokenizers(folder: Path) -> tuple[Tokenizer | None, Tokenizer | None]:
    """What `save_tokenizers` wrote: for both sides, or one for each; none where nothing is read as text."""
    if (folder / "tokenizer.json").exists():
        return Tokenizer.load(folder / "tokenizer.json"), None
    if not (folder / "source.json").exists():
        return None, None
    return Tokenizer.load(folder / "source.json"), Tokenizer.load(folder / "target.json")
