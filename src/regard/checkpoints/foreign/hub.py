"""Folders in Hugging Face's layout: recognised by their config.json, read into our terms, and written for others.

    foreign = open_foreign("all-MiniLM-L6-v2")         a folder, a llama2.c `.bin` or a `.gguf` file
    model = build(foreign.model, foreign.options)      then load_weights(model, foreign.tensors, origin=foreign.origin)
    write_hub("out", ModelSpec("masked", "bert", options), tensors=weights_of(model), tokenizer=tokenizer)

Nothing that a folder holds is ever run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.checkpoints.foreign.bert import BERT
from regard.checkpoints.foreign.distilbert import DISTILBERT
from regard.checkpoints.foreign.family import Family, TheirConfig
from regard.checkpoints.foreign.files import read_folder_weights, read_json, write_json
from regard.checkpoints.foreign.gguf import open_gguf
from regard.checkpoints.foreign.gpt import GPT1, GPT2
from regard.checkpoints.foreign.llama import LLAMA
from regard.checkpoints.foreign.llama2c import open_llama2c
from regard.checkpoints.foreign.marian import MARIAN
from regard.checkpoints.foreign.vit import VIT
from regard.checkpoints.foreign.vocabularies import read_tokenizers, write_tokenizer
from regard.checkpoints.foreign.whisper import WHISPER, open_openai
from regard.checkpoints.spec import ModelSpec, Pretrained, with_defaults
from regard.checkpoints.weights import write_tensors
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError

FAMILIES: Mapping[str, Family] = {
    family.model_type: family for family in (BERT, DISTILBERT, GPT1, GPT2, LLAMA, MARIAN, WHISPER, VIT)
}

_BLOCKS = ".gguf"  # whose weights may be written in blocks
_FILES: Mapping[str, Callable[[Path], Pretrained]] = {_BLOCKS: open_gguf, ".bin": open_llama2c, ".pt": open_openai}


def open_foreign(path: Path | str, *, blocks: bool = False) -> Pretrained:
    """A model that others trained, in our terms; with `blocks`, weights stay in them."""
    path = Path(path)
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise CheckpointError(f"{path}: there is no such folder or file")
    if path.suffix not in _FILES:
        raise CheckpointError(
            f"{path}: not a model that regard can open",
            hint="give a Hugging Face folder, a llama2.c .bin, a .gguf file, or Whisper's .pt",
        )
    return open_gguf(path, blocks=True) if blocks and path.suffix == _BLOCKS else _FILES[path.suffix](path)


def write_hub(
    folder: Path | str, model: ModelSpec, *, tensors: Mapping[str, Tensor], tokenizer: Tokenizer | None
) -> None:
    """Write config.json, model.safetensors and the tokenizer's files, as `transformers` opens them.

    How to decode goes along where the family has a place for it.
    """
    folder, model = Path(folder), with_defaults(model)
    family, config = _family_for(model)
    config = (_special_ids(tokenizer, config) if tokenizer else {}) | config
    theirs = family.names(model).write(tensors) | family.stored(model)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    write_tensors(folder / "model.safetensors", theirs)
    if tokenizer is not None:
        write_tokenizer(folder, tokenizer, template=family.template)
        if family.generation is not None:
            write_json(folder / "generation_config.json", family.generation(model, tokenizer))


def _open_folder(folder: Path) -> Pretrained:
    path = folder / "config.json"
    if not path.exists():
        raise CheckpointError(f"{folder}: there is no config.json in it", hint="give a folder in Hugging Face's layout")
    config = TheirConfig(read_json(path), origin=str(path))
    family = _family_of(config)
    tensors, origin = read_folder_weights(folder)
    spec, shapes = family.understand(config, tensors)
    ours = family.names(spec).read(tensors, shapes, origin=str(origin))
    tokenizer, target = (None, None) if family.template is None else read_tokenizers(folder, config)
    return Pretrained(**vars(spec), tensors=ours, tokenizer=tokenizer, target_tokenizer=target, origin=str(folder))


def _special_ids(tokenizer: Tokenizer, config: Mapping[str, Any]) -> dict[str, int]:
    """What a config.json says of the tokenizer's special tokens."""
    played = tokenizer.special_tokens.present()
    ids = {f"{role}_token_id": index for role, index in played.items() if role in ("pad", "bos", "eos")}
    return ids | {"decoder_start_token_id": played["bos"]} if config.get("is_encoder_decoder") else ids


def _family_of(config: TheirConfig) -> Family:
    known = ", ".join(sorted(FAMILIES))
    if "model_type" not in config:
        raise CheckpointError(f"{config.origin}: it does not say its model_type; known are {known}")
    if str(config["model_type"]) not in FAMILIES:
        raise CheckpointError(f"{config.origin}: model_type {config['model_type']!r} is not known; there are {known}")
    return FAMILIES[str(config["model_type"])]


def _family_for(model: ModelSpec) -> tuple[Family, dict[str, Any]]:
    for family in FAMILIES.values():
        config = family.config(model)
        if config is not None:
            return family, config
    raise CheckpointError(
        f"no format of others can express this {model.model}; known are {', '.join(sorted(FAMILIES))}",
        hint="some option of the model is not found in any of them",
    )
