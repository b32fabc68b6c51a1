"""`regard export --to ctranslate2` and `--to gguf`: folders that run as their README says, whole or absent."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
import tiny_whisper
from regard.checkpoints.foreign.hub import open_foreign
from regard.checkpoints.foreign.llama_cpp.writing import write_gguf
from regard.checkpoints.spec import Pretrained
from regard.checkpoints.usage import Usage
from regard.checkpoints.weights import weights_of
from regard.data.io import atomic
from regard.data.text.vocabulary import learn_tokenizer
from regard.models.interfaces.speech import Frames
from regard.models.registry import build

pytest.importorskip("ctranslate2")

GOLDEN = Path(__file__).parents[1] / "golden" / "finished"


def ran(folder: Path, text: str) -> str:
    """What the lines in the README of a folder print about a text."""
    (lines,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    asked = lines.replace("'A dog runs along the beach.'", repr(text))
    assert asked != lines
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-c", asked], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_translator_leaves_and_says_the_same(command, tmp_path):
    out = tmp_path / "out"
    done = command("export", GOLDEN / "translation", "--to", "ctranslate2", "--out", out)
    assert (done.code, done.out) == (0, "")
    assert f"{out}: a CTranslate2 Translator, a folder that CTranslate2 opens" in done.err
    model = regard.load(GOLDEN / "translation", "cpu")
    assert ran(out, "three four one") == model("three four one").text + "\n"


def test_a_language_model_leaves_and_goes_on_the_same(command, tmp_path):
    out = tmp_path / "out"
    assert command("export", GOLDEN / "language", "--to", "ctranslate2", "--out", out).code == 0
    model = regard.load(GOLDEN / "language", "cpu")
    assert ran(out, "the bird") == model("the bird", strategy="greedy").text + "\n"


def test_an_encoder_leaves_with_the_same_vectors(command, tmp_path):
    out = tmp_path / "out"
    assert command("export", GOLDEN / "masked", "--to", "ctranslate2", "--out", out).code == 0
    wanted = regard.load(GOLDEN / "masked", "cpu").embed(["the bird"], normalise=True)[0].numpy()
    said = np.array([float(number) for number in ran(out, "the bird").strip("[]\n ").split()])
    np.testing.assert_allclose(said, wanted, atol=1e-5)


def test_a_whisper_leaves_and_writes_the_same_tokens(command, tmp_path):
    import ctranslate2

    folder, out = tiny_whisper.write_whisper(tmp_path / "theirs"), tmp_path / "out"
    done = command("export", folder, "--to", "ctranslate2", "--out", out)
    assert (done.code, "a CTranslate2 Whisper" in done.err) == (0, True)
    opened = regard.load(folder, "cpu")
    model, core = opened.module, opened.tokenizer.core
    features = torch.randn(1, 3000, 80, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        memory = model.listen(Frames(features, torch.tensor([3000]))).memory
    theirs = ctranslate2.models.Whisper(str(out), device="cpu", compute_type="float32", intra_threads=1)
    view = ctranslate2.StorageView.from_array(features.transpose(1, 2).contiguous().numpy())
    torch.testing.assert_close(torch.from_numpy(np.array(theirs.encode(view))), memory, rtol=1e-3, atol=1e-3)
    names = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
    prompt = [core.token_to_id(name) for name in names]
    told = theirs.generate(view, [prompt], beam_size=1, max_length=12, suppress_blank=False, suppress_tokens=[])
    row = list(prompt)
    with torch.no_grad():
        for _ in told[0].sequences_ids[0]:
            row.append(int(model(Frames(features, torch.tensor([3000])), torch.tensor([row]))[0, -1].argmax()))
    assert told[0].sequences_ids[0] == row[4:]
    assert len(row) > 6


def test_a_language_model_leaves_as_gguf_and_comes_back(command, tmp_path):
    pytest.importorskip("gguf")
    texts = [f"the {word} bird sings\n" for word in ("red", "blue", "old", "young")]
    tokenizer = learn_tokenizer(texts, "bpe", size=280, verbatim=True)
    options = {"n_tokens": 280, "d_model": 32, "n_heads": 2, "n_layers": 1, "n_positions": 24}
    tensors = {name: tensor.detach() for name, tensor in weights_of(build("gpt", options)).items()}
    made = Pretrained("language", "gpt", options, tensors=tensors, tokenizer=tokenizer)
    first, run, out = tmp_path / "first.gguf", tmp_path / "run", tmp_path / "out.gguf"
    assert write_gguf(first, made, precision="fp32", usage=Usage(opening=(3,)))[0] == "gpt2"
    assert command("import", first, "--out", run).code == 0
    done = command("export", run, "--to", "gguf", "--out", out)
    assert done.code == 0
    assert done.err.endswith(f"{out}: a GGUF file, gpt2, a file that llama.cpp opens\n")
    wrote, back = open_foreign(first), open_foreign(out)
    assert back.options == wrote.options
    assert all(torch.equal(back.tensors[name], tensor) for name, tensor in wrote.tensors.items())
    assert back.tokenizer.encode(texts[0]) == tokenizer.encode(texts[0])
    assert "GGUF file, gpt2" in command("info", out).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("labels", "ctranslate2", "x"), "no place for the head of a classifier"),
        (("captions", "ctranslate2", "x"), "CTranslate2 has nothing like a"),
        (("translation", "gguf", "x.gguf"), "llama.cpp has nothing like a transformer; regard writes gpt"),
        (("translation", "ctranslate2", "x", "--precision", "q4_0"), "this format has fp32, fp16, bf16, int8, int16"),
        (("language", "gguf", "x.gguf", "--precision", "int8"), "this format has fp32, fp16, bf16, q8_0, q4_0, q4_1"),
        (("language", "hf", "x", "--precision", "int8"), "for ctranslate2 and gguf; hf is written in single precision"),
        (("language", "gguf", "model"), "such a file is called .gguf"),
        (("language", "ctranslate2", "there"), "there is something already"),
        (("language", "gguf", "there.gguf"), "there is something already"),
    ],
)
def test_refusals_leave_nothing(command, tmp_path, arguments, message):
    name, to, out, *rest = arguments
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    (tmp_path / "there.gguf").write_text("mine")
    done = command("export", GOLDEN / name, "--to", to, "--out", tmp_path / out, *rest)
    assert done.code in (1, 2)
    assert message in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there", "there.gguf"]


def test_a_half_written_folder_never_stays(command, tmp_path, monkeypatch):
    def fails(*arguments):
        raise OSError("the disk is full")

    monkeypatch.setattr(atomic, "_install", fails)
    done = command("export", GOLDEN / "translation", "--to", "ctranslate2", "--out", tmp_path / "out")
    assert (done.code, done.out) == (1, "")
    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="the disk is full"), atomic.whole_or_absent_file(tmp_path / "m.gguf") as draft:
        draft.write_text("half of it")
    assert not list(tmp_path.iterdir())
