"""A folder that CTranslate2 opens: model.bin, its vocabularies, config.json, our tokenizer and how they are used.

    write_ctranslate2("out", pretrained, precision="int8", usage=…)    → "Translator", the class that opens it

`usage` is what the task knows: marks before a prompt, tokens that never come, how long an output may be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checkpoints.foreign.ctranslate2.readme import readme
from regard.checkpoints.foreign.pieces import listed_pieces
from regard.checkpoints.foreign.whisper import unlike_whisper
from regard.checkpoints.spec import Pretrained, with_defaults
from regard.checkpoints.usage import Usage
from regard.data.text.tokenizers import Tokenizer, save_tokenizers
from regard.errors import CheckpointError, EnvironmentProblem
from regard.models.bert import Bert
from regard.models.gpt import GPT
from regard.models.speech_transformer import SpeechTransformer
from regard.models.transformer import Transformer

# What weights are stored in, by our names.
PRECISIONS: Mapping[str, str] = {
    "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8_float32", "int16": "int16"
}  # fmt: skip
_MODELS = ("transformer", "gpt", "bert", "speech-transformer")
KNOWN = "transformer, gpt, bert, and a speech-transformer that is built as Whisper is"


def write_ctranslate2(folder: Path, pretrained: Pretrained, *, precision: str, usage: Usage) -> str:
    """Write the files into an existing folder; the name of CTranslate2's class that opens it."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError as problem:
        raise EnvironmentProblem(
            "writing for CTranslate2 needs the package ctranslate2", hint="pip install 'regard[convert]'"
        ) from problem
    tokenizer = pretrained.tokenizer
    if tokenizer is None:
        raise CheckpointError(f"{pretrained.origin}: it has no tokenizer, and CTranslate2 needs its vocabulary")
    kind, spec = _described(pretrained, tokenizer)
    spec.validate()
    spec.optimize(quantization=PRECISIONS[precision])
    spec.save(str(folder))
    save_tokenizers(folder, tokenizer, pretrained.target_tokenizer)
    if kind == "Whisper":
        n_mels = int(pretrained.options["n_mels"])
        (folder / "preprocessor_config.json").write_text(json.dumps({"feature_size": n_mels}) + "\n", encoding="utf-8")
    files = ("tokenizer.json",) * 2 if pretrained.target_tokenizer is None else ("source.json", "target.json")
    target, options = pretrained.target_tokenizer or tokenizer, pretrained.options
    pieces = listed_pieces(target, int(options.get("n_tokens") or options["n_target"]))
    (folder / "README.md").write_text(readme(kind, usage, files=files, pieces=pieces), encoding="utf-8")
    return kind


def _described(pretrained: Pretrained, tokenizer: Tokenizer) -> tuple[str, Any]:
    """The class that opens the model, and CTranslate2's description of it."""
    model = _expressible(pretrained)
    if isinstance(model, Transformer):
        from regard.checkpoints.foreign.ctranslate2.translator import translator_spec

        return "Translator", translator_spec(model, tokenizer, pretrained.target_tokenizer or tokenizer)
    if isinstance(model, GPT):
        from regard.checkpoints.foreign.ctranslate2.generator import generator_spec

        return "Generator", generator_spec(model, tokenizer)
    if isinstance(model, Bert):
        from regard.checkpoints.foreign.ctranslate2.encoder import encoder_spec

        return "Encoder", encoder_spec(model, tokenizer)
    from regard.checkpoints.foreign.ctranslate2.whisper import whisper_spec

    assert isinstance(model, SpeechTransformer)
    return "Whisper", whisper_spec(model, tokenizer, pretrained)


def _expressible(pretrained: Pretrained) -> Any:
    """The module, if CTranslate2 has something like it; what stands in the way is named."""
    name, options, origin = pretrained.model, with_defaults(pretrained).options, pretrained.origin
    if "backbone" in options:
        raise CheckpointError(
            f"{origin}: CTranslate2 has encoders, and no place for the head of a {name}",
            hint="write it for transformers: --to hf",
        )
    if name not in _MODELS:
        raise CheckpointError(f"{origin}: CTranslate2 has nothing like a {name}; regard writes {KNOWN}")
    if name == "bert" and options["n_layers"] == 0:
        raise CheckpointError(f"{origin}: model.n_layers is 0, and an encoder of CTranslate2 has at least one")
    if name == "speech-transformer" and (others := _unlike_whisper(options)):
        raise CheckpointError(
            f"{origin}: of speech models CTranslate2 has Whisper, and here {others}",
            hint="train one of its build: regard train speech model.size=whisper-tiny",
        )
    return pretrained.module()


def _unlike_whisper(options: Mapping[str, Any]) -> str:
    others = unlike_whisper(options) | (
        {} if options["activation"] == "gelu" else {"activation": options["activation"]}
    )
    return ", ".join(f"model.{name} is {value!r}" for name, value in others.items())
