"""llama2.c's files: a real model continued as plain numpy continues it, its tokenizer, and files that are not whole."""

import struct
from itertools import pairwise

import numpy as np
import pytest
import torch

from real_weights import STORIES, real_weights
from regard.checkpoints.foreign.hub import open_foreign
from regard.checkpoints.foreign.llama2c import open_llama2c
from regard.checkpoints.weights import load_weights
from regard.errors import CheckpointError
from regard.models.registry import build

SIZES = {"dim": 12, "hidden": 10, "layers": 2, "heads": 3, "kv_heads": 1, "vocab": 263, "positions": 16}


class Plain:
    """Llama by the book, in numpy and double precision, read off the file without regard."""

    def __init__(self, data):
        self.dim, self.hidden, self.layers, self.heads, self.kv, vocab, self.positions = struct.unpack("<7i", data[:28])
        self.numbers = np.frombuffer(data, "<f4", offset=28).astype(np.float64)
        D, F, L, E = self.dim, self.hidden, self.layers, self.dim // self.heads
        self.at = 0
        self.tokens = self.take(abs(vocab), D)
        self.norm1, self.q, self.k = self.take(L, D), self.take(L, D, D), self.take(L, self.kv * E, D)
        self.v, self.o, self.norm2 = self.take(L, self.kv * E, D), self.take(L, D, D), self.take(L, D)
        self.w1, self.w2, self.w3 = self.take(L, F, D), self.take(L, D, F), self.take(L, F, D)
        self.norm = self.take(D)
        self.take(2, self.positions, E // 2)
        self.output = self.tokens if vocab > 0 else self.take(-vocab, D)
        assert self.at == len(self.numbers)

    def take(self, *shape):
        size = int(np.prod(shape))
        self.at += size
        return self.numbers[self.at - size : self.at].reshape(shape)

    def turned(self, x):
        """(T, heads, E): neighbouring features, as one complex number, turn by their position."""
        T, _, E = x.shape
        rates = 10000.0 ** (-np.arange(0, E, 2) / E)
        pairs = x[..., 0::2] + 1j * x[..., 1::2]
        pairs = pairs * np.exp(1j * np.arange(T)[:, None] * rates)[:, None]
        return np.stack((pairs.real, pairs.imag), -1).reshape(x.shape)

    def logits(self, ids):
        def normed(x, weight):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight

        T, H, E = len(ids), self.heads, self.dim // self.heads
        x = self.tokens[ids]
        for i in range(self.layers):
            h = normed(x, self.norm1[i])
            q = self.turned((h @ self.q[i].T).reshape(T, H, E))
            k = self.turned((h @ self.k[i].T).reshape(T, self.kv, E)).repeat(H // self.kv, 1)
            v = (h @ self.v[i].T).reshape(T, self.kv, E).repeat(H // self.kv, 1)
            scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(E) + np.triu(np.full((T, T), -np.inf), 1)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            x = x + np.einsum("hts,shd->thd", weights, v).reshape(T, -1) @ self.o[i].T
            h = normed(x, self.norm2[i])
            gate = h @ self.w1[i].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ self.w3[i].T)) @ self.w2[i].T
        return normed(x, self.norm) @ self.output.T


def best_first(text, pieces, scores):
    """llama2.c's encoding: characters, or their bytes, then the neighbours whose union scores best, until none does."""
    index = {piece: i for i, piece in enumerate(pieces)}
    ids = []
    for char in " " + text:
        ids += [index[char]] if char in index else [byte + 3 for byte in char.encode()]
    while True:
        unions = [(index.get(pieces[a] + pieces[b]), at) for at, (a, b) in enumerate(pairwise(ids))]
        found = [(scores[union], -at, union) for union, at in unions if union is not None]
        if not found:
            return ids
        _, at, union = max(found)
        ids[-at : -at + 2] = [union]


def pieces_of(data):
    pieces, scores, at = [], [], 4
    while at < len(data):
        score, length = struct.unpack_from("<fi", data, at)
        pieces.append(data[at + 8 : at + 8 + length].decode())
        scores.append(score)
        at += 8 + length
    return pieces, scores


def ours(path):
    foreign = open_foreign(path)
    model = build(foreign.model, foreign.options).eval()
    load_weights(model, foreign.tensors, origin=foreign.origin)
    return model, foreign


def tiny(folder, *, shared, tokenizer=True):
    """A file of random weights with heads of four, and a tokenizer beside it."""
    S, E = SIZES, SIZES["dim"] // SIZES["heads"]
    D, F, L, V, K = S["dim"], S["hidden"], S["layers"], S["vocab"], S["kv_heads"] * E
    size = (
        V * D + L * (D + D * D + 2 * K * D + D * D + D + 3 * F * D) + D + S["positions"] * E + (0 if shared else V * D)
    )
    numbers = np.random.default_rng(0).normal(0, 0.3, size).astype("<f4")
    header = struct.pack("<7i", D, F, L, S["heads"], S["kv_heads"], V if shared else -V, S["positions"])
    (folder / "model.bin").write_bytes(header + numbers.tobytes())
    if tokenizer:
        pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256)), " ", "a", "b", "ab"]
        scores = [0.0] * 259 + [-4.0, -5.0, -6.0, -1.0]
        packed = [struct.pack("<fi", s, len(p.encode())) + p.encode() for p, s in zip(pieces, scores, strict=True)]
        (folder / "tokenizer.bin").write_bytes(struct.pack("<i", 6) + b"".join(packed))
    return folder / "model.bin"


@pytest.mark.slow
def test_a_real_model_goes_on_token_for_token_as_numpy_does():
    path = real_weights(STORIES)
    model, foreign = ours(path)
    tokenizer, plain = foreign.tokenizer, Plain(path.read_bytes())
    ids = tokenizer.frame(tokenizer.encode("Once upon a time")).ids
    assert tokenizer.tokens(ids) == ["<s>", "▁Once", "▁upon", "▁a", "▁time"]
    np.testing.assert_allclose(model(torch.tensor([ids]))[0].detach(), plain.logits(ids), rtol=0, atol=1e-4)
    stepper, written = model.start(torch.tensor([ids])), list(ids)
    for _ in range(200):
        written.append(int(stepper.step(torch.tensor(written[-1:])).argmax()))
    # Where each token is numpy's choice after those before it, numpy alone would have written them all.
    assert written[len(ids) :] == plain.logits(written[:-1])[len(ids) - 1 :].argmax(-1).tolist()
    assert tokenizer.decode(written).startswith(
        "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    )


@pytest.mark.slow
def test_a_real_tokenizer_encodes_as_llama2c_does():
    path = real_weights(STORIES).with_name("tok512.bin")
    tokenizer = open_llama2c(path.with_name("stories260K.bin")).tokenizer
    pieces, scores = pieces_of(path.read_bytes())
    for text in (
        "Once upon a time, there was a little girl named Lily.",
        'She said: "Where are the two  big  red balls?"\nTom didn\'t know.\n\n',
        "Café, naïve 東京 — 42 😀",
        " leading and trailing ",
    ):
        ids = tokenizer.encode(text)
        assert ids == best_first(text, pieces, scores)
        assert tokenizer.decode(ids) == text
    assert (tokenizer.special_tokens.unk, tokenizer.bos_id, tokenizer.eos_id, tokenizer.size) == (0, 1, 2, 512)


@pytest.mark.parametrize("shared", [True, False])
def test_output_shared_or_not(shared, tmp_path):
    path = tiny(tmp_path, shared=shared)
    model, foreign = ours(path)
    assert model.config.tied is shared
    assert (model.config.n_kv_heads, model.config.n_tokens, model.config.n_positions) == (1, 263, 16)
    ids = [1, 261, 262, 5, 260, 259]
    expected = Plain(path.read_bytes()).logits(ids)
    np.testing.assert_allclose(model(torch.tensor([ids]))[0].detach(), expected, rtol=0, atol=1e-4)
    assert expected.std() > 0.1
    assert foreign.tokenizer.tokens(foreign.tokenizer.encode("b ab")) == ["▁", "b", "▁", "ab"]


def test_the_tokenizer_may_lie_elsewhere_or_nowhere(tmp_path):
    path = tiny(tmp_path, shared=True)
    other = tmp_path / "other.bin"
    (tmp_path / "tokenizer.bin").rename(other)
    assert open_llama2c(path).tokenizer is None
    assert open_llama2c(path, tokenizer=other).tokenizer.encode("ab") == [259, 262]


def test_files_that_are_not_whole_or_something_else(tmp_path):
    path = tiny(tmp_path, shared=True)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises(
        CheckpointError, match=f"{len(whole) - 4} bytes, and the model that it begins with has {len(whole)}"
    ):
        open_foreign(path)
    path.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"not a llama2\.c file: it begins with 0, 0"):
        open_foreign(path)
    path.write_bytes(struct.pack("<2i", 0x616B3432, 2) + whole)
    with pytest.raises(CheckpointError, match="version 2; regard reads version 0") as info:
        open_foreign(path)
    assert "--version 0" in info.value.hint
    path.write_bytes(whole)
    pieces = (tmp_path / "tokenizer.bin").read_bytes()
    (tmp_path / "tokenizer.bin").write_bytes(pieces[:-20])
    with pytest.raises(CheckpointError, match=r"not a llama2\.c tokenizer of 263 pieces"):
        open_foreign(path)
    (tmp_path / "tokenizer.bin").write_bytes(pieces + b"....")
    with pytest.raises(CheckpointError, match="4 bytes are left behind the 263 pieces"):
        open_foreign(path)
