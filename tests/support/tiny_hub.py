"""Small models of `transformers` with random weights in folders, with tokenizers that know the tiny world's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, pre_tokenizers
from torch import nn

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

WORDS = ["the", "a", "cat", "dog", "sees", "hears", "likes", ".", "who", "so"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
BERT: dict[str, Any] = {
    "vocab_size": len(PIECES), "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48,
    "num_hidden_layers": 2, "max_position_embeddings": 64, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
GPT2: dict[str, Any] = {
    "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}  # fmt: skip


def randomised(model: nn.Module) -> Any:
    """Random biases and norms too, which start as zeros and ones and would hide mistakes."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, mean=1.0 if "norm" in name.lower() and "weight" in name else 0.0, std=0.2)
    return model.eval()


def bert(folder: Path, architecture: str = "BertForPreTraining", **more: Any) -> Path:
    """A folder with a BERT of some architecture, and its WordPiece vocabulary."""
    config = transformers.BertConfig(**BERT | more)
    randomised(getattr(transformers, architecture)(config)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return folder


def gpt2(folder: Path, *, spare: int = 0, **more: Any) -> Path:
    """A folder with a GPT-2 over bytes; `spare` embeddings are more than the tokenizer has pieces."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate([*letters, "<|endoftext|>"])}
    core = Core(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    end = len(vocabulary) - 1
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary) + spare, bos_token_id=end, eos_token_id=end, **GPT2 | more
    )
    randomised(transformers.GPT2LMHeadModel(config)).save_pretrained(folder)
    core.add_special_tokens(["<|endoftext|>"])
    core.save(str(folder / "tokenizer.json"))
    return folder
