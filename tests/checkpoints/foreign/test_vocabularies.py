"""Tokenizers from the files of others: the ids that transformers gives."""

import json
import struct

import pytest
from tokenizers import Tokenizer as Core
from tokenizers import models, pre_tokenizers

from hub_peers import PIECES, transformers
from regard.checkpoints.foreign.spm import llama_tokenizer, read_spm
from regard.checkpoints.foreign.vocabularies import read_tokenizer, read_tokenizers, write_tokenizer
from regard.data.text.special_tokens import SpecialTokens
from regard.errors import CheckpointError

TEXTS = ["Unaffable, runs dog", "Dog café  dog,runs", "unaff zzz", "", "Él  runs!"]


def folder_of(tmp_path, model_type, **files):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return tmp_path


def same_ids(folder, tokenizer, texts=TEXTS):
    peer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in texts:
        assert tokenizer.encode(text) == peer.encode(text, add_special_tokens=False), text
        assert tokenizer.frame(tokenizer.encode(text)).ids == peer.encode(text), text


@pytest.mark.parametrize("lower", [True, False])
def test_word_pieces(tmp_path, lower):
    config = {"do_lower_case": lower, "tokenizer_class": "BertTokenizer"}
    folder = folder_of(tmp_path, "bert", vocab__txt="\n".join(PIECES) + "\n", tokenizer_config__json=config)
    tokenizer = read_tokenizer(folder, {"model_type": "bert"})
    same_ids(folder, tokenizer)
    assert tokenizer.special_tokens == SpecialTokens(pad=0, unk=1, cls=2, sep=3, mask=4)
    assert tokenizer.tokens(tokenizer.encode("Dog")) == (["dog"] if lower else ["Dog"])
    assert tokenizer.decode(tokenizer.encode("unaffable runs")) == "unaffable runs"
    framed = tokenizer.frame([5], [8, 9])
    assert (framed.ids, framed.segments) == ([2, 5, 3, 8, 9, 3], [0, 0, 0, 1, 1, 1])


def test_gpt2(tmp_path):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, "Ġr", "un", "Ġrun", "ru", "<|endoftext|>"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    merges = "#version: 0.2\nu n\nĠ r\nĠr un\nr u\n"
    folder = folder_of(
        tmp_path, "gpt2", vocab__json=vocabulary, merges__txt=merges,
        tokenizer_config__json={"tokenizer_class": "GPT2Tokenizer"},
    )  # fmt: skip
    tokenizer = read_tokenizer(folder, {"model_type": "gpt2"})
    same_ids(folder, tokenizer, ["a run", "run, RUN  café\n\nrun's", " "])
    assert tokenizer.tokens(tokenizer.encode("a run")) == ["a", "▁run"]
    assert tokenizer.decode(tokenizer.encode(" ünd\n  run")) == " ünd\n  run"
    assert tokenizer.eos_id == tokenizer.bos_id == vocabulary["<|endoftext|>"]


def test_gpt1(tmp_path):
    pieces = ["<unk>", "d", "o", "g", "g</w>", "do", "dog</w>", ",</w>", "s</w>", "o</w>", "do</w>"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    merges = "#version: 0.2\nd o\ndo g</w>\nd o</w>\n"
    folder = folder_of(
        tmp_path, "openai-gpt", vocab__json=vocabulary, merges__txt=merges,
        tokenizer_config__json={"tokenizer_class": "OpenAIGPTTokenizer"},
    )  # fmt: skip
    tokenizer = read_tokenizer(folder, {"model_type": "openai-gpt"})
    same_ids(folder, tokenizer, ["Dog, do", "dog", "go x"])
    assert tokenizer.tokens(tokenizer.encode("Dog, do")) == ["dog</w>", ",</w>", "do</w>"]
    assert tokenizer.decode(tokenizer.encode("Dog do")) == "dog do"


def test_tokenizer_json_with_roles_from_beside(tmp_path):
    core = Core(models.WordLevel({"<x>": 0, "a": 1, "<e>": 2}, unk_token="<x>"))
    folder = folder_of(
        tmp_path, "llama", tokenizer_config__json={"eos_token": {"content": "<e>"}},
        special_tokens_map__json={"unk_token": "<x>", "eos_token": "a"},
    )  # fmt: skip
    core.save(str(folder / "tokenizer.json"))
    assert read_tokenizer(folder, {"model_type": "llama"}).special_tokens == SpecialTokens(unk=0, eos=2)
    (folder / "tokenizer_config.json").unlink()
    (folder / "special_tokens_map.json").unlink()
    with pytest.raises(CheckpointError, match="which of its tokens are special is not said") as problem:
        read_tokenizer(folder, {"model_type": "llama"})
    assert "tokenizer_config.json" in problem.value.hint
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="its tokenizer cannot be read"):
        read_tokenizer(folder, {"model_type": "llama"})


def test_written_and_opened_by_transformers(tmp_path):
    source, out = folder_of(tmp_path, "bert", vocab__txt="\n".join(PIECES)), tmp_path / "out"
    tokenizer = read_tokenizer(source, {"model_type": "bert"})
    out.mkdir()
    folder_of(out, "bert")
    write_tokenizer(out, tokenizer, template="cls-sep")
    same_ids(out, tokenizer)
    assert transformers.AutoTokenizer.from_pretrained(out).mask_token == "[MASK]"
    assert read_tokenizer(out, {"model_type": "bert"}).special_tokens == tokenizer.special_tokens


def message(*fields):
    """A protobuf message of numbered fields: bytes, whole numbers, or floats."""
    written = b""
    for number, value in fields:
        if isinstance(value, bytes):
            written += bytes([number << 3 | 2, len(value)]) + value
        elif isinstance(value, float):
            written += bytes([number << 3 | 5]) + struct.pack("<f", value)
        else:
            written += bytes([number << 3, value])
    return written


def spm(pieces, *, model):
    entries = [message((1, piece.encode()), (2, float(score)), (3, kind)) for piece, score, kind in pieces]
    return message(*((1, entry) for entry in entries), (2, message((3, model), (9, 1))), (3, message((3, 1))))


CONTROL = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)]
UNIGRAM = [*CONTROL, ("▁dog", -2, 1), ("▁", -3, 1), ("d", -5, 1), ("o", -5, 1), ("g", -5, 1), ("s", -4, 1)]


def test_marian(tmp_path):
    ids = {
        "</s>": 0,
        "<unk>": 1,
        "▁dog": 2,
        "▁": 3,
        "d": 4,
        "o": 5,
        "g": 6,
        "s": 7,
        "▁Hund": 8,
        ">>deu<<": 9,
        "<pad>": 10,
    }
    folder = folder_of(tmp_path, "marian", vocab__json=ids)
    (folder / "source.spm").write_bytes(spm(UNIGRAM, model=1))
    (folder / "target.spm").write_bytes(spm([*UNIGRAM[:3], ("▁Hund", -2, 1), ("▁", -3, 1), ("d", -4, 1)], model=1))
    source, target = read_tokenizers(folder, {"model_type": "marian"})
    assert source.encode("dogs  dog dg") == [2, 7, 2, 3, 4, 6]
    assert source.frame(source.encode("dog")).ids == [2, 0]
    assert source.tokens(source.encode(">>deu<< dog")) == [">>deu<<", "▁dog"]
    assert target.encode("Hund d") == [8, 3, 4]
    assert target.decode([8, 3, 4, 0]) == "Hund d"
    assert source.encode("x") == [3, 1]
    assert source.special_tokens == SpecialTokens(pad=10, bos=10, eos=0, unk=1)
    (folder / "source.spm").write_bytes(spm(UNIGRAM, model=2))
    with pytest.raises(CheckpointError, match=r"source.spm: a unigram model was expected \(kind 1\), not kind 2"):
        read_tokenizers(folder, {"model_type": "marian"})


def test_llama(tmp_path):
    pairs = [*CONTROL, ("<0x78>", 0, 6), ("▁do", -1, 1), ("▁d", -2, 1), ("▁dog", -3, 1)]
    pairs += [(piece, -10 - i, 1) for i, piece in enumerate(["▁", "d", "o", "g"])]
    (tmp_path / "tokenizer.model").write_bytes(spm(pairs, model=2))
    tokenizer = read_tokenizer(tmp_path, {"model_type": "llama"})
    assert tokenizer.tokens(tokenizer.encode("dog do")) == ["▁dog", "▁do"]
    assert tokenizer.frame(tokenizer.encode("dog")).ids == [1, 6]
    assert tokenizer.decode(tokenizer.encode("dog do")) == "dog do"
    (tmp_path / "tokenizer.model").write_bytes(spm(UNIGRAM, model=1))
    with pytest.raises(CheckpointError, match="byte pairs were expected"):
        llama_tokenizer(tmp_path / "tokenizer.model")


def test_broken_spm_files(tmp_path):
    path = tmp_path / "source.spm"
    with pytest.raises(CheckpointError, match=r"source.spm: there is no such file"):
        read_spm(path)
    for broken in (spm(UNIGRAM, model=1)[:-3], b"\xff\xff", b"not a protobuf"):
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match=r"source.spm: not a whole sentencepiece model"):
            read_spm(path)
    path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="there are no pieces in it"):
        read_spm(path)
