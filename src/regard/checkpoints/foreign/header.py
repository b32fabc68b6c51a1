"""What a model of others is, without its weights: the headers of its files, and its config and tokenizer.

    read_header("weights/gpt2")     a Hugging Face folder; or a llama2.c .bin, a .gguf, Whisper's .pt, word vectors

Parameters are counted in our terms, as `regard import` counts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import torch

from regard.checkpoints.foreign.family import TheirConfig
from regard.checkpoints.foreign.files import as_tensors, map_pickled, read_json
from regard.checkpoints.foreign.gpt import TASK as LANGUAGE
from regard.checkpoints.foreign.hub import FAMILIES
from regard.checkpoints.foreign.word2vec import holds_vectors
from regard.checkpoints.headers import count_of, stored_weights
from regard.checkpoints.spec import ModelSpec, check_depth, with_defaults
from regard.data.io.lines import open_bytes, read_line
from regard.errors import CheckpointError, UsageError


@dataclass(frozen=True)
class Header:
    """A model of others: the format, what it is in our terms, its parameters, and how many pieces its tokenizer has.

    `stored` counts tensors by the type that they are kept in. `pieces` is empty where no tokenizer was found, and
    `missing` says why.
    """

    path: Path
    format: str
    spec: ModelSpec
    parameters: int
    pieces: tuple[int, ...] = ()
    stored: Mapping[str, int] = field(default_factory=dict)
    missing: str | None = None

    def record(self) -> dict[str, Any]:
        """As a JSON object."""
        spec = {"task": self.spec.task, "model": self.spec.model, "options": dict(self.spec.options)}
        said = {"path": str(self.path), "format": self.format} | spec
        counts = {"parameters": self.parameters, "tokenizer_pieces": list(self.pieces), "stored": dict(self.stored)}
        return said | counts | {"missing": self.missing}


def read_header(path: Path | str) -> Header:
    """What the model at a path is."""
    path = Path(path)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise CheckpointError(f"{path}: there is no such folder or file")
    if holds_vectors(path):
        return _vectors(path)
    known = {".gguf": _gguf, ".bin": _llama2c, ".pt": _whisper}
    if path.suffix not in known:
        raise CheckpointError(
            f"{path}: not a model that regard can open",
            hint="give a Hugging Face folder, a llama2.c .bin, a .gguf file, Whisper's .pt, or word vectors",
        )
    try:
        return known[path.suffix](path)
    except UsageError as problem:  # the numbers in its header make no model
        raise CheckpointError(f"{path}: {problem}", hint=problem.hint) from problem


def _folder(folder: Path) -> Header:
    path = folder / "config.json"
    config = TheirConfig(read_json(path), origin=str(path))
    family = FAMILIES.get(str(config["model_type"]))
    if family is None:
        known = ", ".join(sorted(FAMILIES))
        raise CheckpointError(f"{path}: model_type {config['model_type']!r} is not known; there are {known}")
    stored = _folder_weights(folder)
    with config.reading():
        spec = with_defaults(family.recognise(config, stored))
        check_depth(spec.options, stored, origin=str(path))
        count = count_of(spec.model, spec.options)
    pieces, missing = ((), None) if family.template is None else _pieces(folder, config)
    return Header(
        folder, f"Hugging Face folder, {family.model_type}", spec, count, pieces, Counter(stored.values()), missing
    )


def _folder_weights(folder: Path) -> dict[str, str]:
    """The names of the weights, each with its type."""
    shards = sorted(folder.glob("*.safetensors"))
    if shards:
        return {name: one.dtype for shard in shards for name, one in stored_weights(shard).items()}
    pickled = sorted(folder.glob("pytorch_model*.bin"))
    if not pickled:
        raise CheckpointError(
            f"{folder}: there are no weights in it", hint="looked for model.safetensors and pytorch_model.bin"
        )
    held = (item for file in pickled for item in as_tensors(map_pickled(file), file).items())
    return {name: _type(tensor.dtype) for name, tensor in held}


def _pieces(folder: Path, config: Mapping[str, Any]) -> tuple[tuple[int, ...], str | None]:
    from regard.checkpoints.foreign.vocabularies import read_tokenizers

    try:
        return tuple(len(one) for one in read_tokenizers(folder, config) if one is not None), None
    except CheckpointError as problem:
        return (), str(problem)


def _llama2c(path: Path) -> Header:
    from regard.checkpoints.foreign.llama2c import check_size, read_options, tokenizer_beside

    options = read_options(path)
    check_size(path, options)
    beside = tokenizer_beside(path, options["n_tokens"])
    pieces = () if beside is None else (int(options["n_tokens"]),)
    missing = None if beside else f"{path}: no tokenizer.bin lies beside it"
    spec = with_defaults(ModelSpec(LANGUAGE, "gpt", options))
    return Header(path, "llama2.c file, llama", spec, count_of("gpt", options), pieces, {}, missing)


def _gguf(path: Path) -> Header:
    from regard.checkpoints.foreign.gguf import architecture_of, read_options, reading

    with reading(path) as reader:
        from gguf import GGUFValueType
        from gguf.quants import dequantize

        short = {name: part for name, part in reader.fields.items() if part.types[0] != GGUFValueType.ARRAY}
        metadata = {name: part.contents() for name, part in short.items()}
        kept = {one.name: one for one in reader.tensors}
        shapes = {name: [int(size) for size in reversed(one.shape)] for name, one in kept.items()}
        tensors = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
        if rates := kept.get("rope_freqs.weight"):  # a few numbers, which say how positions are stretched
            tensors[rates.name] = torch.tensor(dequantize(rates.data, rates.tensor_type))
    config = TheirConfig(metadata, origin=str(path))
    architecture = architecture_of(config)
    with config.reading():
        options = read_options(config, tensors)
        check_depth(options, kept, origin=str(path))
        spec = with_defaults(ModelSpec(LANGUAGE, "gpt", options))
    pieces = reader.fields.get("tokenizer.ggml.tokens")
    return Header(
        path,
        f"GGUF file, {architecture}",
        spec,
        count_of("gpt", options),
        () if pieces is None else (len(pieces.data),),
        Counter(one.tensor_type.name for one in reader.tensors),
        f"{path}: no tokenizer is in it" if pieces is None else None,
    )


def _whisper(path: Path) -> Header:
    from regard.checkpoints.foreign.whisper import MODEL, TASK, parts_of, read_options
    from regard.checkpoints.foreign.whisper_tokens import find_tokenizer

    sizes, tensors = parts_of(map_pickled(path), path)
    with sizes.reading():
        options = read_options(sizes)
        check_depth(options, tensors, origin=str(path))
        spec = with_defaults(ModelSpec(TASK, MODEL, options))
    types = Counter(_type(tensor.dtype) for tensor in tensors.values())
    try:
        tokenizer, missing = find_tokenizer(path, n_tokens=int(options["n_target"])), None
    except CheckpointError as problem:
        tokenizer, missing = None, str(problem)
    pieces = () if tokenizer is None else (len(tokenizer),)
    return Header(path, "OpenAI's file, Whisper", spec, count_of(MODEL, options), pieces, types, missing)


def _vectors(path: Path) -> Header:
    """Word vectors: their number and size stand in the first line, or every line is one of them."""
    with open_bytes(path) as file:
        first = read_line(file, path)
        parts = first.split()
        if len(parts) == 2 and all(part.isdigit() for part in parts):
            n, d = int(parts[0]), int(parts[1])
        else:
            n, d = 1 + _lines(file, path), len(parts) - 1
    spec = ModelSpec("words", "word-vectors", {"n_tokens": n, "d_model": d})
    return Header(path, "word vectors, as word2vec or GloVe write them", spec, n * d, (n,))


def _lines(file: BinaryIO, path: Path) -> int:
    return sum(1 for line in iter(lambda: read_line(file, path), b"") if line.strip())


def _type(dtype: torch.dtype) -> str:
    names = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64"}
    return names.get(dtype, str(dtype).removeprefix("torch."))
