"""How verbs open a model: its files checked, unless that is not wanted, and what cannot be checked said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.cli.console import say


def open_predictor(run: Path, device: str, *, precision: str = "auto", no_check: bool = False) -> Any:
    """A trained model, ready for its task; that an older version wrote it without hashes is said."""
    from regard.data.io.hashes import read_hashes
    from regard.tasks.opening import load

    predictor = load(run, device, precision=precision, check=not no_check)
    if not no_check and predictor.folder is not None and read_hashes(predictor.folder) is None:
        say(f"{run}: an older version wrote it, without hashes: its files cannot be checked")
    return predictor
