"""Opening a model: what there is to open, and what is said where there is nothing."""

from pathlib import Path

import pytest

from regard.checkpoints.opening import open_model
from regard.checkpoints.run import RunFolder
from regard.checkpoints.spec import ModelSpec
from regard.errors import CheckpointError


def test_a_run_without_weights_says_how_to_get_some(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.write_config({"task": "images"})
    run.write_model(ModelSpec("images", "vit", {}))
    with pytest.raises(CheckpointError, match="the run has no weights yet") as error:
        open_model(run.path)
    assert error.value.hint == f"train it to its first evaluation: regard train --resume --out {run.path}"


def test_a_folder_of_something_else_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"neither a run \(it has no config.toml\) nor a model of others"):
        open_model(tmp_path)
