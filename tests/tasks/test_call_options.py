"""The options of a call: known by name and type to who calls, and the same that the `[decode]` section knows."""

import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import get_type_hints

import pytest

import regard
from regard.errors import ConfigError, UsageError
from regard.tasks.opening import predictor_of
from regard.tasks.registry import OURS, task_spec

GOLDEN = Path(__file__).parents[1] / "golden" / "finished"


def settings_of(task):
    """The options that a predictor's calls declare, as a TypedDict."""
    predict = predictor_of(task).predict
    return predict.__globals__[predict.__annotations__["options"].removeprefix("Unpack[").removesuffix("]")]


@pytest.mark.parametrize("task", OURS)
def test_the_options_of_a_call_are_the_fields_of_the_section(task):
    section = get_type_hints(task_spec(task).decode)
    declared = get_type_hints(settings_of(task))
    assert declared == {field.name: section[field.name] for field in fields(task_spec(task).decode)}
    named = signature(predictor_of(task).predict).parameters.keys()
    assert "inputs" in named
    assert "keys" not in named, "what is drawn depends on the input itself"


def test_wrong_names_are_refused_with_the_nearest():
    model = regard.load(GOLDEN / "translation", "cpu")
    with pytest.raises(ConfigError, match=r"decode.baem is not known; did you mean decode.beam\?"):
        model("one", baem=5)
    with pytest.raises(UsageError, match=r"decode.beam means nothing to a classifier"):
        regard.load(GOLDEN / "labels", "cpu")("the cat", beam=5)


def test_a_predictor_says_what_it_is():
    model = regard.load(GOLDEN / "translation", "cpu")
    n = sum(parameter.numel() for parameter in model.module.parameters())
    assert repr(model) == f"<TranslationPredictor: translation with a transformer, {n:,} parameters, on cpu>"
    assert isinstance(model, regard.Predictor)
    assert isinstance(model("one"), regard.Prediction)
    assert model.folder == GOLDEN / "translation"


@pytest.mark.slow
def test_a_type_checker_knows_inputs_options_and_outputs(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(
        """
from regard.tasks.images.predictor import ImagePredictor
from regard.tasks.language.predictor import LanguagePredictor
from regard.tasks.translation.predictor import TranslationPredictor

def use(de: TranslationPredictor, lm: LanguagePredictor, vit: ImagePredictor) -> None:
    reveal_type(de("a", beam=5, n_best=3, prefix="b"))
    reveal_type(de(["a", "b"], strategy="beam"))
    reveal_type(lm("a", stop="b"))
    reveal_type(vit(["a.png"], k=3))
    de("a", baem=5)
    de("a", beam="five")
    de(3)
"""
    )
    line = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), "use.py"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
    told = [
        text.partition("use.py:")[2] for text in done.stdout.splitlines() if "note: Rev" in text or "error:" in text
    ]
    revealed = [text.rsplit('"', 2)[1].replace("regard.tasks.", "") for text in told if "Revealed" in text]
    assert revealed == ["predictions.Prediction", "list[predictions.Prediction]", "language.writer.Continuation",
                        "list[images.classifier.ImageGuess]"], done.stdout  # fmt: skip
    assert sorted({text.partition(":")[0] for text in told if "error:" in text}) == ["11", "12", "13"], done.stdout
