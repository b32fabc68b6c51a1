"""The tokenizers of foreign folders, from whichever files they lie in, as tokenizers of ours; and the way back.

    tokenizer.json                 any make
    vocab.json and merges.txt      GPT-2's byte pairs; GPT-1's, which lower-cases and marks the ends of words
    vocab.txt                      BERT's WordPiece
    tokenizer.model                Llama's sentencepiece
    source.spm and target.spm      Marian's, one for each side, with the ids of vocab.json

Which token plays which role is read off tokenizer_config.json and special_tokens_map.json, and where these are silent
the family's habit decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.checkpoints.foreign.family import Template
from regard.checkpoints.foreign.files import read_ids, read_json, write_json
from regard.checkpoints.foreign.spm import llama_tokenizer, marian_tokenizers
from regard.config.bounded import read_text
from regard.data.text.special_tokens import SpecialTokens
from regard.data.text.tokenizers import Tokenizer
from regard.errors import CheckpointError, DataError

ROLES = ("pad", "unk", "bos", "eos", "mask", "cls", "sep")
_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
# What the families call their special tokens when no file says so.
_HABITS: Mapping[str, Mapping[str, str]] = {
    "bert": _BERT,
    "distilbert": _BERT,
    "gpt2": {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"},
    "openai-gpt": {"unk": "<unk>"},
    "llama": {"unk": "<unk>", "bos": "<s>", "eos": "</s>"},
    "whisper": {"bos": "<|startoftranscript|>", "eos": "<|endoftext|>"},
}


def read_tokenizers(folder: Path, config: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer | None]:
    """The tokenizer of a folder, and that of the target where it has another; `config` is its config.json."""
    sides = (folder / "source.spm", folder / "target.spm")
    if not (folder / "tokenizer.json").exists() and all(path.exists() for path in sides):
        return marian_tokenizers(folder)
    return read_tokenizer(folder, config), None


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    """The one tokenizer of a folder."""
    family = str(config.get("model_type"))
    try:
        core = _core(folder, family)
    except (CheckpointError, DataError):
        raise
    except Exception as problem:  # the library raises nothing more precise
        raise CheckpointError(f"{folder}: its tokenizer cannot be read ({problem})") from problem
    if isinstance(core, Tokenizer):
        return core
    special_tokens = SpecialTokens.named(core, **(dict(_HABITS.get(family, {})) | _named_tokens(folder)))
    if not special_tokens.present():
        raise CheckpointError(
            f"{folder}: which of its tokens are special is not said",
            hint="tokenizer_config.json names them: pad_token, eos_token, …",
        )
    return Tokenizer.foreign(core, special_tokens=special_tokens)


def write_tokenizer(folder: Path, tokenizer: Tokenizer, *, template: Template | None) -> None:
    """Write tokenizer.json and what `transformers` needs beside it; `template` is what is put around a text."""
    core = Core.from_str(tokenizer.core.to_str())
    names = {role: core.id_to_token(index) or "" for role, index in tokenizer.special_tokens.present().items()}
    if core.post_processor is None and template == "cls-sep" and {"cls", "sep"} <= names.keys():
        core.post_processor = _bert_frame(core, names["cls"], names["sep"])
    if core.post_processor is None and template == "eos" and "eos" in names:
        end = [(names["eos"], core.token_to_id(names["eos"]))]
        core.post_processor = processors.TemplateProcessing(single=f"$A {end[0][0]}", special_tokens=end)
    config = {f"{role}_token": token for role, token in names.items()}
    core.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **config})
    write_json(folder / "special_tokens_map.json", config)


def _core(folder: Path, family: str) -> Core | Tokenizer:
    whole = folder / "tokenizer.json"
    if whole.exists():
        return _own(whole) or Core.from_str(read_text(whole))
    for files, make in _MAKERS:
        if all((folder / name).exists() for name in files):
            return make(folder, family)
    known = ["tokenizer.json", *(" + ".join(files) for files, _ in _MAKERS), "source.spm + target.spm"]
    raise CheckpointError(f"{folder}: there is no tokenizer in it; looked for {', '.join(known)}")


def _own(path: Path) -> Tokenizer | None:
    """The tokenizer, if it is of our making or has its roles noted."""
    try:
        return Tokenizer.load(path)
    except DataError:
        return None


def _named_tokens(folder: Path) -> dict[str, str]:
    """The special tokens by role, as the files beside the vocabulary name them."""
    named: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        config = read_json(folder / name) if (folder / name).exists() else {}
        for role in ROLES:
            token = config.get(f"{role}_token")
            token = token.get("content") if isinstance(token, Mapping) else token
            if isinstance(token, str):
                named[role] = token.encode("utf-8", "replace").decode("utf-8")  # JSON may hold half a character
    return named


def _byte_pairs(folder: Path, family: str) -> Core:
    vocabulary = read_ids(folder / "vocab.json")
    lines = read_text(folder / "merges.txt").split("\n")
    pairs = [line.split() for line in lines if line and not line.startswith("#version")]
    merges = [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]
    if len(merges) < len(pairs):
        raise CheckpointError(f"{folder / 'merges.txt'}: a line holds other than two pieces")
    if family == "openai-gpt":
        core = Core(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", end_of_word_suffix="</w>"))
        core.normalizer = normalizers.BertNormalizer(lowercase=True)
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        core.decoder = decoders.BPEDecoder(suffix="</w>")
        return core
    core = Core(models.BPE(vocab=vocabulary, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return core


def _word_pieces(folder: Path, family: str) -> Core:
    lines = read_text(folder / "vocab.txt").rstrip("\n").split("\n")
    config = read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    if lacking := {_BERT[role] for role in ("unk", "cls", "sep")} - {*lines}:
        raise CheckpointError(f"{folder / 'vocab.txt'}: {min(lacking)} is missing")
    core = Core(models.WordPiece(vocab={piece: index for index, piece in enumerate(lines)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
    )
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix="##")
    core.post_processor = _bert_frame(core, _BERT["cls"], _BERT["sep"])
    return core


def _bert_frame(core: Core, cls: str, sep: str) -> Any:
    return processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, core.token_to_id(token)) for token in (cls, sep)],
    )


_MAKERS: tuple[tuple[tuple[str, ...], Callable[[Path, str], Core | Tokenizer]], ...] = (
    (("vocab.json", "merges.txt"), _byte_pairs),
    (("vocab.txt",), _word_pieces),
    (("tokenizer.model",), lambda folder, family: llama_tokenizer(folder / "tokenizer.model")),
)
