"""A small valid file of every format that regard opens, and how it is opened and used.

A format is a folder that `make` writes, the file in it that is spoilt, and `use`, which opens the folder as regard does
and works with what it found. `use` raises `Wrong` where something was opened that cannot be right: labels that are not
those of the model's outputs, ids beyond the embeddings, a table whose rows are not those of the file.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import math
import shutil
import struct
import tarfile
import wave
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden"


class Wrong(Exception):  # noqa: N818 - a finding, not an error of regard
    """Something was opened that cannot be right."""


def expect(true: object, what: str) -> None:
    """What has to hold of anything that was opened."""
    if not true:
        raise Wrong(what)


@dataclass(frozen=True)
class Format:
    """What is spoilt and how it is used; formats with one `make` share a folder."""

    make: Callable[[Path], None]
    use: Callable[[Path], None]
    file: str


# ---- runs


ASKED: Mapping[str, tuple[str, ...]] = {
    "translation": ("one two three",), "language": ("the cat",), "masked": ("the cat <mask> a dog .",),
    "labels": ("the cat sees a dog .",), "labels-numbers": ("the cat sees a dog .",),
    "answers": ("who sees\tso the bird sees a cat .",), "images": ("data/images/test/lying/0.png",),
    "captions": ("data/captions/pictures/red-blue-2.png",), "speech": ("data/speech/test-0.wav",),
    "series": ("data/series/hours.csv",), "words": ("cat",), "translation-recurrent": ("one two three",),
}  # fmt: skip


def run_of(name: str, *, folder: str = "finished") -> Callable[[Path], None]:
    def make(place: Path) -> None:
        shutil.copytree(GOLDEN / folder / name, place, dirs_exist_ok=True)

    make.__name__ = f"{folder}-{name}"
    return make


def use_run(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.tasks.facts.summary import summarise
        from regard.tasks.opening import load

        json.dumps(summarise(place).record())
        predictor = load(place, "cpu")
        asked = [str(GOLDEN / one) if one.startswith("data/") else one for one in ASKED[name]]
        outputs = predictor.attempt(asked) if hasattr(predictor, "attempt") else [predictor(one) for one in asked]
        for output in outputs:
            if isinstance(output, Exception):
                raise output
            json.dumps(output.record())
        sound_model(predictor)

    return use


def sound_model(predictor: Any) -> None:
    """Whether what was opened belongs together."""
    names = getattr(getattr(predictor, "space", None), "names", None)
    config = getattr(predictor.module, "config", None)
    outputs = getattr(config, "n_outputs", None) or getattr(config, "n_classes", None)
    if names and outputs:
        expect(len(names) == outputs, f"{len(names)} labels for {outputs} outputs")


def use_stopped(place: Path) -> None:
    from regard.checkpoints.run import RunFolder
    from regard.tasks.facts.summary import summarise

    json.dumps(summarise(place).record())
    run = RunFolder(place)
    tensors, facts = run.read(run.steps()[-1], ["model"])
    expect(isinstance(facts, dict), "a checkpoint's facts are no object")
    expect(tensors["model"], "a checkpoint without weights")


def use_history(place: Path) -> None:
    from regard.checkpoints.history import read_history

    history = read_history(place / "metrics.jsonl")
    for course in (*history.training.values(), *history.validation.values()):
        expect(all(math.isfinite(value) for value in course.values()), "a figure that is none")


# ---- models of others


def hub(spec: Callable[[], tuple[str, str, Mapping[str, Any]]], *, tokenizer: str) -> Callable[[Path], None]:
    """A folder in Hugging Face's layout with random weights."""

    def make(place: Path) -> None:
        import torch

        from regard.checkpoints.foreign.hub import write_hub
        from regard.checkpoints.spec import ModelSpec
        from regard.checkpoints.weights import weights_of
        from regard.models.registry import build

        task, name, options = spec()
        torch.manual_seed(0)
        labels = tuple(f"class {i}" for i in range(3)) if options.get("n_classes") or options.get("n_outputs") else None
        model = build(name, options)
        made = TOKENIZERS[tokenizer](place)
        write_hub(place, ModelSpec(task, name, options, labels), tensors=weights_of(model), tokenizer=made)
        if made is None:
            after(place, tokenizer)

    make.__name__ = f"{spec.__name__}-{tokenizer}"
    return make


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sees", "##s", "a", ".", "t", "h", "e"]
SMALL = {"d_model": 8, "n_heads": 2, "d_feedforward": 12}


def bert_spec() -> tuple[str, str, Mapping[str, Any]]:
    return "masked", "bert", {"n_tokens": len(PIECES), **SMALL, "n_layers": 2, "n_positions": 32}


def classifier_spec() -> tuple[str, str, Mapping[str, Any]]:
    backbone = {"name": "bert", **bert_spec()[2], "mlm": False, "nsp": False}
    head = {"pooling": "first", "transform": "pooler", "n_outputs": 3}
    return "labels", "classifier", {"backbone": backbone, **head}


def gpt2_spec() -> tuple[str, str, Mapping[str, Any]]:
    return "language", "gpt", {"n_tokens": 261, **SMALL, "n_layers": 2, "n_positions": 24, "activation": "gelu_tanh"}


def llama_spec() -> tuple[str, str, Mapping[str, Any]]:
    build = {"order": "pre", "norm": "rms", "positions": "rotary", "gated": True, "dropout": 0.0, "activation": "silu",
             "attention_bias": False, "feedforward_bias": False, "tied": False}  # fmt: skip
    return "language", "gpt", {"n_tokens": 263, **SMALL, "n_layers": 2, "n_positions": 24, "n_kv_heads": 1, **build}


def marian_spec() -> tuple[str, str, Mapping[str, Any]]:
    sizes = {"n_source": 12, "n_target": 12, **SMALL, "n_encoder_layers": 1, "n_decoder_layers": 1, "pad_id": 11}
    return "translation", "transformer", {**sizes, "tied": "all", "output_bias": True, "order": "post"}


def vit_spec() -> tuple[str, str, Mapping[str, Any]]:
    return "images", "vit", {"n_classes": 3, "image": (12, 12), "patch": 4, **SMALL, "n_layers": 1}


def whisper_spec() -> tuple[str, str, Mapping[str, Any]]:
    from regard.models.speech_transformer import WHISPER_OPTIONS

    sizes = {"n_mels": 8, "n_target": 60, **SMALL, "n_encoder_layers": 1, "n_decoder_layers": 1, "n_places": 30}
    return "speech", "speech-transformer", {**WHISPER_OPTIONS, **sizes, "n_positions": 20, "pad_id": 3}


def _own_tokenizer(place: Path) -> Any:
    """WordPiece, as tokenizer.json."""
    from tokenizers import Tokenizer as Core
    from tokenizers import models, pre_tokenizers

    from regard.data.text.special_tokens import SpecialTokens
    from regard.data.text.tokenizers import Tokenizer

    core = Core(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    roles = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return Tokenizer.foreign(core, special_tokens=SpecialTokens.named(core, **roles))


TOKENIZERS: dict[str, Callable[[Path], Any]] = {
    "tokenizer.json": _own_tokenizer,
    **dict.fromkeys(
        ("none", "vocab.txt", "merges", "llama", "marian", "whisper", "shards", "pickle"), lambda place: None
    ),
}


def after(place: Path, tokenizer: str) -> None:
    """The tokenizer's files of others' making, which `write_hub` does not write; and other ways to keep weights."""
    if tokenizer == "vocab.txt" or tokenizer in ("shards", "pickle"):
        (place / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
        (place / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "pad_token": "[PAD]"}))
    if tokenizer == "merges":
        from regard.data.text.bytechars import byte_to_char

        pieces = [*byte_to_char(), "th", "the", "at", "cat", "<|endoftext|>"]
        (place / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
        (place / "merges.txt").write_text("#version: 0.2\nt h\nth e\na t\nc at\n", encoding="utf-8")
    if tokenizer == "llama":
        (place / "tokenizer.model").write_bytes(spm(_scored(), model=2))
    if tokenizer == "marian":
        pieces = ["</s>", "<unk>", "▁dog", "▁", "d", "o", "g", "s", ">>de<<", "▁cat", "x", "<pad>"]
        (place / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
        known = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
        known += [(piece, -float(i + 2), 1) for i, piece in enumerate(pieces[2:-1])]
        for side in ("source", "target"):
            (place / f"{side}.spm").write_bytes(spm(known, model=1))
        config = json.loads((place / "config.json").read_text()) | {"decoder_start_token_id": 11, "pad_token_id": 11}
        (place / "config.json").write_text(json.dumps(config))
    if tokenizer == "whisper":
        from tokenizers import Tokenizer as Core
        from tokenizers import models

        marks = {"<|endoftext|>": 3, "<|startoftranscript|>": 4}
        words = {f"w{i}": i for i in range(60) if i not in (3, 4)} | marks
        Core(models.WordLevel(words, unk_token="w0")).save(str(place / "tokenizer.json"))
        decode = {"suppress_tokens": [5, 6], "begin_suppress_tokens": [7], "alignment_heads": [[0, 0], [0, 1]]}
        (place / "generation_config.json").write_text(json.dumps(decode | {"max_length": 20}))
    if tokenizer == "none":
        facts = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 12, "width": 12}, "resample": 2}
        (place / "preprocessor_config.json").write_text(json.dumps(facts))
    if tokenizer == "shards":
        _shard(place)
    if tokenizer == "pickle":
        import torch
        from safetensors.torch import load_file

        torch.save(load_file(place / "model.safetensors"), place / "pytorch_model.bin")
        (place / "model.safetensors").unlink()


def _shard(place: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(place / "model.safetensors")
    names = list(tensors)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for name, held in parts.items():
        save_file({one: tensors[one] for one in held}, place / name)
    (place / "model.safetensors").unlink()
    places = {one: name for name, held in parts.items() for one in held}
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def _scored() -> list[tuple[str, float, int]]:
    control = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    return [*control, *((f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)), ("▁", -4.0, 1), ("a", -5.0, 1),
            ("b", -6.0, 1), ("ab", -1.0, 1)]  # fmt: skip


def spm(pieces: list[tuple[str, float, int]], *, model: int) -> bytes:
    """A sentencepiece model, field by field."""

    def message(*fields: tuple[int, bytes | int | float]) -> bytes:
        written = b""
        for number, value in fields:
            if isinstance(value, bytes):
                written += bytes([number << 3 | 2, len(value)]) + value
            elif isinstance(value, float):
                written += bytes([number << 3 | 5]) + struct.pack("<f", value)
            else:
                written += bytes([number << 3, value])
        return written

    entries = [message((1, piece.encode()), (2, score), (3, kind)) for piece, score, kind in pieces]
    return message(*((1, entry) for entry in entries), (2, message((3, model), (9, 1))), (3, message((3, 1))))


def use_model(place: Path, *, name: str = "", text: str = "the cat sees a dog") -> None:
    """A model of others: what `info` says of it, then opened, built, and its tokenizers tried."""
    from regard.checkpoints.foreign.header import read_header
    from regard.checkpoints.opening import open_model

    path = place / name if name else place
    json.dumps(read_header(path).record())
    found = open_model(path)
    module = found.module()
    if found.labels is not None:
        config = module.config
        outputs = getattr(config, "n_outputs", None) or getattr(config, "n_classes", None)
        expect(outputs in (None, len(found.labels)), f"{len(found.labels)} labels for {outputs} outputs")
    options = found.options.get("backbone", found.options)
    for tokenizer in (found.tokenizer, found.target_tokenizer):
        if tokenizer is None:
            continue
        ids = tokenizer.frame(tokenizer.encode(text)).ids
        tokenizer.decode(ids)
        room = options.get("n_tokens") or options.get("n_source") or options.get("n_target")
        expect(room is None or max(ids, default=0) < room, "an id beyond the embeddings")


def use_classes(place: Path) -> None:
    from regard.tasks.opening import load

    predictor = load(place, "cpu")
    picture = GOLDEN / "data/images/test/lying/0.png"
    json.dumps(predictor(picture if predictor.config.task == "images" else "the cat sees a dog").record())
    sound_model(predictor)


def make_gguf(place: Path) -> None:
    import gguf

    from regard.checkpoints.weights import weights_of
    from regard.models.registry import build

    L, D, F, H, G, E = 1, 32, 32, 2, 1, 16
    _, name, options = llama_spec()
    sizes = {"n_tokens": 263, "d_model": D, "n_heads": H, "n_kv_heads": G, "n_layers": L, "d_feedforward": F}
    held = {name: tensor.detach().numpy() for name, tensor in weights_of(build(name, {**options, **sizes})).items()}
    writer = gguf.GGUFWriter(place / "model.gguf", "llama")
    for number, add in ((L, writer.add_block_count), (24, writer.add_context_length), (D, writer.add_embedding_length),
                        (F, writer.add_feed_forward_length), (H, writer.add_head_count),
                        (G, writer.add_head_count_kv)):  # fmt: skip
        add(number)
    writer.add_layer_norm_rms_eps(1e-5)
    pieces = _scored()
    writer.add_tokenizer_model("llama")
    writer.add_token_list([piece for piece, _, _ in pieces])
    writer.add_token_scores([score for _, score, _ in pieces])
    writer.add_token_types([kind for _, _, kind in pieces])
    for number, add in ((0, writer.add_unk_token_id), (1, writer.add_bos_token_id), (2, writer.add_eos_token_id)):
        add(number)
    block = "stack.blocks.0"
    q, k, v = np.split(held[f"{block}.attention.query_key_value.weight"], [H * E, (H + G) * E])
    gate, up = np.split(held[f"{block}.feedforward.gate_inner.weight"], 2)
    theirs = {
        "token_embd.weight": held["embedding.weight"], "output_norm.weight": held["stack.final_norm.weight"],
        "output.weight": held["output.weight"], "blk.0.attn_q.weight": q, "blk.0.attn_k.weight": k,
        "blk.0.attn_v.weight": v, "blk.0.attn_output.weight": held[f"{block}.attention.out.weight"],
        "blk.0.ffn_gate.weight": gate, "blk.0.ffn_up.weight": up,
        "blk.0.ffn_down.weight": held[f"{block}.feedforward.outer.weight"],
        "blk.0.attn_norm.weight": held[f"{block}.around_attention.norm.weight"],
        "blk.0.ffn_norm.weight": held[f"{block}.around_feedforward.norm.weight"],
    }  # fmt: skip
    for tensor, array in theirs.items():
        if array.ndim == 2 and "embd" not in tensor:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(tensor, gguf.quants.quantize(np.ascontiguousarray(array), kind), raw_dtype=kind)
        else:
            writer.add_tensor(tensor, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_llama2c(place: Path) -> None:
    D, F, L, H, G, V, S = 8, 10, 2, 2, 1, 263, 16
    K = G * D // H
    size = V * D + L * (2 * D + 2 * D * D + 2 * K * D + 3 * F * D) + D + S * D // H
    numbers = np.random.default_rng(0).normal(0, 0.3, size).astype("<f4")
    (place / "model.bin").write_bytes(struct.pack("<7i", D, F, L, H, G, V, S) + numbers.tobytes())
    pieces = [(piece.replace("▁", " "), score) for piece, score, _ in _scored()]
    packed = [struct.pack("<fi", score, len(piece.encode())) + piece.encode() for piece, score in pieces]
    (place / "tokenizer.bin").write_bytes(struct.pack("<i", 6) + b"".join(packed))


def make_whisper(place: Path) -> None:
    """OpenAI's file; its list of ranks is whole, since only one number of pieces is known."""
    import torch

    from regard.checkpoints.foreign.whisper import _OPENAI, _OPENAI_SIZES, _map
    from regard.checkpoints.weights import weights_of
    from regard.models.registry import build
    from regard.models.speech_transformer import WHISPER_OPTIONS

    sizes = {"n_mels": 8, "n_target": 51_864, "d_model": 4, "n_heads": 2, "n_encoder_layers": 1,
             "n_decoder_layers": 1, "n_places": 20, "n_positions": 12}  # fmt: skip
    options = {**WHISPER_OPTIONS, **sizes, "d_feedforward": 16, "pad_id": 50_256}
    model = build("speech-transformer", options)
    theirs = _map(_OPENAI, 4, prefixes=()).write(weights_of(model))
    dims = {their: sizes[ours] for ours, their in _OPENAI_SIZES.items()}
    dims |= {"n_text_state": dims["n_audio_state"], "n_text_head": dims["n_audio_head"]}
    torch.save({"dims": dims, "model_state_dict": theirs}, place / "tiny.pt")
    make_ranks(place)


def make_ranks(place: Path) -> None:
    """Bytes, pairs of them and triples: as many pieces as Whisper's English vocabulary has."""
    pieces = [bytes([i]) for i in range(256)]
    pieces += [bytes([a, b]) for a in range(196) for b in range(256)][: 50_256 - 256]
    lines = [base64.b64encode(piece) + f" {rank}\n".encode() for rank, piece in enumerate(pieces)]
    (place / "gpt2.tiktoken").write_bytes(b"".join(lines))


def use_ranks(place: Path) -> None:
    from regard.checkpoints.foreign.whisper_tokens import read_ranks

    tokenizer = read_ranks(place / "gpt2.tiktoken", n_tokens=51_864)
    expect(len(tokenizer) == 51_864, f"{len(tokenizer)} pieces")


# ---- word vectors


def make_vectors(place: Path) -> None:
    import torch

    from regard.checkpoints.foreign.word2vec import NamedVectors, write_word2vec

    words = tuple(f"w{i}" for i in range(30))
    named = NamedVectors(words, torch.from_numpy(np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)))
    write_word2vec(place / "vectors.txt", named)
    write_word2vec(place / "vectors.bin", named, binary=True)
    (place / "glove.txt").write_text((place / "vectors.txt").read_text().split("\n", 1)[1])
    (place / "vectors.gz").write_bytes(gzip.compress((place / "vectors.txt").read_bytes(), mtime=0))


def use_vectors(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.checkpoints.foreign.header import read_header
        from regard.checkpoints.foreign.word2vec import holds_vectors, read_word2vec

        path = place / name
        if holds_vectors(path):
            read_header(path)
        named = read_word2vec(path)
        expect(len(named.words) == len(named.vectors) == len(set(named.words)), "words and vectors do not pair up")
        expect(bool(named.vectors.isfinite().all()), "a vector that is none")

    return use


# ---- tables and texts


ROWS = [("the cat sees a dog", "cat"), ("a dog, and a bird", "dog"), ('so "they" say', "bird"), ("émigré", "cat")] * 6


def make_tables(place: Path) -> None:
    import csv

    import pyarrow as pa
    import pyarrow.parquet as pq

    with (place / "table.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *ROWS])
    (place / "table.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in ROWS), encoding="utf-8")
    records = [{"text": text, "label": label} for text, label in ROWS]
    (place / "table.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    (place / "array.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    table = pa.Table.from_pylist(records)
    pq.write_table(table, place / "table.parquet")
    (place / "saved").mkdir()
    with (
        pa.OSFile(str(place / "saved/data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    (place / "lines.txt").write_text("".join(f"{text}\n" for text, _ in ROWS), encoding="utf-8")
    (place / "wide.txt").write_bytes("".join(f"{text}\r\n" for text, _ in ROWS).encode("utf-16"))
    (place / "lines.txt.gz").write_bytes(gzip.compress((place / "lines.txt").read_bytes(), mtime=0))
    shutil.copy(GOLDEN / "data/questions/test.json", place / "squad.json")
    shutil.copy(GOLDEN / "data/series/hours.csv", place / "series.csv")


def use_table(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.data.text.labelled import LabelSource

        path = place / name
        table = path.parent if path.suffix == ".arrow" else path
        examples = list(LabelSource(table).examples())
        expect(all(isinstance(one.label, str) for one in examples), "a label that is no text")

    return use


def use_pairs(place: Path) -> None:
    from regard.data.text.pairs import PairSource

    for pair in PairSource(place / "table.tsv").pairs():
        expect(isinstance(pair.source, str) and isinstance(pair.target, str), "a side that is no text")


def use_lines(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.data.text.documents import TextSource

        for split in ("file", "line"):
            for document in TextSource((place / name,), split=split).documents():
                expect(isinstance(document.text, str), "a document that is no text")

    return use


def use_squad(place: Path) -> None:
    from regard.tasks.answers.squad import read_squad

    for question in read_squad(place / "squad.json"):
        for answer in question.answers:
            held = answer.start is None or question.context.startswith(answer.text, answer.start)
            expect(held, "an answer that does not stand where it is said to")


def use_series(place: Path) -> None:
    from regard.data.series.files import read_series

    series = read_series(place / "series.csv")
    expect(series.dates is None or len(series.values) == len(series.dates), "dates and values differ")


# ---- images and sound


def make_images(place: Path) -> None:
    from PIL import Image

    chance = np.random.default_rng(0)
    pixels = chance.integers(0, 256, (6, 12, 12, 3), dtype=np.uint8)
    for suffix, how in (("png", {}), ("jpg", {"quality": 90}), ("gif", {}), ("bmp", {}), ("webp", {}), ("tif", {})):
        Image.fromarray(pixels[0]).save(place / f"one.{suffix}", **how)
    np.savez(place / "images.npz", images=pixels, labels=np.array(["a", "b"] * 3))
    with zipfile.ZipFile(place / "images.zip", "w") as packed, tarfile.open(place / "images.tar", "w") as taped:
        for i, one in enumerate(pixels):
            content = io.BytesIO()
            Image.fromarray(one).save(content, "png")
            packed.writestr(f"{'ab'[i % 2]}/{i}.png", content.getvalue())
            about = tarfile.TarInfo(f"{'ab'[i % 2]}/{i}.png")
            about.size = len(content.getvalue())
            taped.addfile(about, io.BytesIO(content.getvalue()))
    with tarfile.open(place / "images.tar.gz", "w:gz") as taped:
        taped.add(place / "one.png", "a/0.png")
        taped.add(place / "one.png", "b/0.png")


def use_image(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.data.images.files import read_image

        image = read_image(place / name, size=8)
        expect(tuple(image.shape) == (3, 8, 8), f"an image of {tuple(image.shape)}")

    return use


def use_images(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.data.images.sources import ImageSource
        from regard.data.images.store import ImageStore

        source = ImageSource(place / name)
        source.parts()
        store = place / "store"
        shutil.rmtree(store, ignore_errors=True)
        try:
            found = ImageStore.build(source.examples(), store, size=(8, 8))
            expect(len(found) == len(found.labels) == len(found.places), "images and labels do not pair up")
        finally:
            shutil.rmtree(store, ignore_errors=True)

    return use


def make_sounds(place: Path) -> None:
    import soundfile

    sound = (0.3 * np.sin(np.arange(1600) / 7)).astype(np.float32)
    with wave.open(str(place / "pcm.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((np.stack([sound, sound], 1) * 32767).astype("<i2").tobytes())
    soundfile.write(place / "float.wav", sound, 8000, subtype="FLOAT")
    for suffix in ("flac", "ogg", "mp3"):
        soundfile.write(place / f"a.{suffix}", sound, 8000)
    with tarfile.open(place / "digits.tar", "w") as taped:
        for digit in range(3):
            taped.add(place / "a.flac", f"recordings/{digit}_anna_0.flac")
    from regard.data.synthetic.digits import Recordings

    Recordings.read(place / "digits.tar").save(place / "digits.npz")


def use_sound(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.data.audio.files import read_audio

        audio = read_audio(place / name)
        expect(audio.samples.ndim == 1 and np.isfinite(audio.samples).all(), "samples that are none")

    return use


def use_digits(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.data.synthetic.digits import Recordings

        held = Recordings.read(place / name)
        expect(len(held.digits) == len(held.speakers) == len(held.takes) == len(held.sounds), "parts that differ")

    return use


# ---- what regard keeps for itself


def make_stores(place: Path) -> None:
    from regard.data.audio.corpus import AudioCorpus, Spoken
    from regard.data.images.sources import ImageSource
    from regard.data.images.store import ImageStore
    from regard.data.text.corpus import Corpus
    from regard.data.text.documents import Document
    from regard.data.text.pairs import Pair
    from regard.data.text.streams import TokenStream
    from regard.tasks.masked.sentences import SentenceCorpus
    from regard.tasks.opening import load

    tokenizer = _own_tokenizer(place)
    texts = [text for text, _ in ROWS]
    Corpus.build([Pair(text, text, "") for text in texts], tokenizer, tokenizer, place / "corpus")
    TokenStream.build([Document(text, "") for text in texts], tokenizer, place / "stream", separated=False)
    SentenceCorpus.build([Document(text, "") for text in texts], tokenizer, place / "sentences")
    ImageStore.build(ImageSource(GOLDEN / "data/images/test").examples(), place / "images")
    spoken = [Spoken(GOLDEN / f"data/speech/test-{i}.wav", "low", f"row {i}") for i in range(3)]
    made = AudioCorpus.build(spoken, place, rate=2000)
    assert len(made) == 3
    next(path for path in place.iterdir() if (path / "samples.i16").exists()).rename(place / "audio")
    seen = next(iter(load(GOLDEN / "finished/translation", "cpu").looks("one two three", None)))
    seen.save(place / "seen.json")
    seen.save(place / "seen.npz")


def use_store(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.data.audio.corpus import AudioCorpus
        from regard.data.images.store import ImageStore
        from regard.data.text.corpus import Corpus
        from regard.data.text.streams import TokenStream
        from regard.tasks.masked.sentences import SentenceCorpus

        folder = place / name
        if name == "corpus":
            corpus = Corpus.open(folder)
            for i in range(len(corpus)):
                expect(len(corpus.source(i)) == corpus.source_lengths[i], "a sentence of another length")
        elif name == "stream":
            stream = TokenStream.open(folder)
            expect(len(stream.ids) == len(stream), "ids of another length")
        elif name == "sentences":
            expect(len(SentenceCorpus.open(folder)) > 0, "no documents")
        elif name == "images":
            store = ImageStore.open(folder)
            expect(len(store) == len(store.labels) == len(store.places) == len(store.pixels), "parts that differ")
            expect(int(store.labels.max()) < len(store.header.names), "a label without a name")
        else:
            audio = AudioCorpus.open(folder)
            for i in range(len(audio)):
                expect(len(audio.samples(i)) == audio.lengths[i] > 0, "a recording of another length")
                expect(isinstance(audio.texts[i], str) and isinstance(audio.where(i), str), "a text that is none")

    return use


def use_record(name: str) -> Callable[[Path], None]:
    def use(place: Path) -> None:
        from regard.inspection.record import Look

        for seen in Look.load(place / name).maps.values():
            expect(seen.weights.ndim == 4, f"weights of {seen.weights.ndim} dimensions")

    return use


def make_recipe_file(place: Path) -> None:
    shutil.copy(GOLDEN / "finished/translation/config.toml", place / "recipe.toml")


def use_recipe(place: Path) -> None:
    from regard.config.recipe import read_recipe
    from regard.tasks.recipes import make_recipe

    make_recipe(read_recipe(place / "recipe.toml")).resolved()


def _formats() -> dict[str, Format]:
    found: dict[str, Format] = {}

    def add(name: str, make: Callable[[Path], None], use: Callable[[Path], None], file: str) -> None:
        found[name] = Format(make, use, file)

    add("recipe", make_recipe_file, use_recipe, "recipe.toml")
    labels = run_of("labels")
    for file in ("config.toml", "model.json", "run.json", "labels.json", "tokenizer.json", "model.safetensors"):
        add(f"run: {file}", labels, use_run("labels"), file)
    add("run: metrics.jsonl", run_of("masked"), use_history, "metrics.jsonl")
    for name, file in (("images", "images.json"), ("speech", "mel.json"), ("series", "series.json"),
                       ("series", "baseline.safetensors"), ("translation-recurrent", "source.json"),
                       ("words", "model.safetensors"), ("language", "config.toml"),
                       ("captions", "model.json"), ("answers", "tokenizer.json")):  # fmt: skip
        add(f"run of {name}: {file}", run_of(name), use_run(name), file)
    stopped = run_of("language", folder="stopped")
    for file in ("state.json", "model.safetensors"):
        add(f"checkpoint: {file}", stopped, use_stopped, f"checkpoints/step-00000005/{file}")

    bert = hub(bert_spec, tokenizer="tokenizer.json")
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        add(f"Hugging Face, BERT: {file}", bert, use_model, file)
    pieces = hub(classifier_spec, tokenizer="vocab.txt")
    for file in ("config.json", "vocab.txt", "tokenizer_config.json"):
        add(f"Hugging Face, classifier: {file}", pieces, use_classes, file)
    shards = hub(bert_spec, tokenizer="shards")
    add("Hugging Face: safetensors index", shards, use_model, "model.safetensors.index.json")
    add("Hugging Face: pytorch_model.bin", hub(bert_spec, tokenizer="pickle"), use_model, "pytorch_model.bin")
    merges = hub(gpt2_spec, tokenizer="merges")
    for file in ("config.json", "vocab.json", "merges.txt"):
        add(f"Hugging Face, GPT-2: {file}", merges, use_model, file)
    llama = hub(llama_spec, tokenizer="llama")
    for file in ("config.json", "tokenizer.model"):
        add(f"Hugging Face, Llama: {file}", llama, use_model, file)
    marian = hub(marian_spec, tokenizer="marian")
    for file in ("config.json", "vocab.json", "source.spm"):
        add(f"Hugging Face, Marian: {file}", marian, use_model, file)
    vit = hub(vit_spec, tokenizer="none")
    for file in ("config.json", "preprocessor_config.json"):
        add(f"Hugging Face, ViT: {file}", vit, use_classes, file)
    whisper = hub(whisper_spec, tokenizer="whisper")
    for file in ("config.json", "generation_config.json"):
        add(f"Hugging Face, Whisper: {file}", whisper, use_model, file)
    add("GGUF", make_gguf, lambda place: use_model(place, name="model.gguf", text="ab a"), "model.gguf")
    add("llama2.c", make_llama2c, lambda place: use_model(place, name="model.bin", text="ab a"), "model.bin")
    add(
        "llama2.c tokenizer", make_llama2c, lambda place: use_model(place, name="model.bin", text="ab"), "tokenizer.bin"
    )
    add("Whisper .pt", make_whisper, lambda place: use_model(place, name="tiny.pt"), "tiny.pt")
    add("tiktoken", make_ranks, use_ranks, "gpt2.tiktoken")
    for file, name in (("vectors.txt", "word2vec text"), ("vectors.bin", "word2vec binary"), ("glove.txt", "GloVe"),
                       ("vectors.gz", "word2vec, gzip")):  # fmt: skip
        add(name, make_vectors, use_vectors(file), file)

    for name, file in (("CSV", "table.csv"), ("JSONL", "table.jsonl"), ("JSON array", "array.json"),
                       ("Parquet", "table.parquet"), ("Arrow", "saved/data-00000-of-00001.arrow")):  # fmt: skip
        add(name, make_tables, use_table(file), file)
    add("TSV", make_tables, use_pairs, "table.tsv")
    for name, file in (("text", "lines.txt"), ("text, UTF-16", "wide.txt"), ("text, gzip", "lines.txt.gz")):
        add(name, make_tables, use_lines(file), file)
    add("SQuAD", make_tables, use_squad, "squad.json")
    add("series, CSV", make_tables, use_series, "series.csv")
    for suffix in ("png", "jpg", "gif", "bmp", "webp", "tif"):
        add(f"image, {suffix.upper()}", make_images, use_image(f"one.{suffix}"), f"one.{suffix}")
    for name in ("images.npz", "images.zip", "images.tar", "images.tar.gz"):
        add(f"images, {name.partition('.')[2]}", make_images, use_images(name), name)
    for name, file in (("WAV", "pcm.wav"), ("WAV of floats", "float.wav"), ("FLAC", "a.flac"), ("OGG", "a.ogg"),
                       ("MP3", "a.mp3")):  # fmt: skip
        add(name, make_sounds, use_sound(file), file)
    add("digits, tar", make_sounds, use_digits("digits.tar"), "digits.tar")
    add("digits, npz", make_sounds, use_digits("digits.npz"), "digits.npz")

    stores = {"corpus": ("corpus.json", "source.ids", "source.offsets"), "stream": ("stream.json",),
              "sentences": ("sentences.json", "documents.offsets"), "images": ("images.json", "images.labels"),
              "audio": ("index.json", "samples.i16")}  # fmt: skip
    for store, files in stores.items():
        for file in files:
            add(f"kept {store}: {file}", make_stores, use_store(store), f"{store}/{file}")
    add("record, JSON", make_stores, use_record("seen.json"), "seen.json")
    add("record, npz", make_stores, use_record("seen.npz"), "seen.npz")
    return found


FORMATS: Mapping[str, Format] = _formats()
