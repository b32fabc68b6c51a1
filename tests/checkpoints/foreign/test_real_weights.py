"""Weights that were really trained: MiniLM's embeddings are those of transformers, SmolLM2 knows capitals."""

import pytest
import torch
import torch.nn.functional as F

import regard
from hub_peers import ours, transformers
from real_weights import MINILM, SMOLLM, STORIES, real_weights
from regard.attention import Rows
from regard.layers.pooling import mean_of_tokens

TEXTS = [
    "A dog runs along the beach.",
    "Ein Hund läuft am Strand.",
    "x",
    "Attention is all you need, they said in 2017!",
]


@pytest.mark.slow
def test_sentence_embeddings():
    folder = real_weights(MINILM)
    model, foreign = ours(folder)
    framed = [foreign.tokenizer.frame(foreign.tokenizer.encode(text)).ids for text in TEXTS]
    given = transformers.AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    lengths = given.attention_mask.sum(1)
    assert framed == [row[:length].tolist() for row, length in zip(given.input_ids, lengths, strict=True)]
    peer = transformers.AutoModel.from_pretrained(folder).eval()
    rows = Rows(given.input_ids, lengths)
    with torch.no_grad():
        embedded = F.normalize(mean_of_tokens(model.encode(rows), rows), dim=-1)
        states = peer(**given).last_hidden_state * given.attention_mask[..., None]
    expected = F.normalize(states.sum(1) / lengths[:, None], dim=-1)
    torch.testing.assert_close(embedded, expected, rtol=0, atol=1e-5)
    assert embedded[0] @ embedded[1] > embedded[0] @ embedded[3]
    embed = regard.load(folder, "cpu").embed(TEXTS, normalise=True)
    torch.testing.assert_close(embed, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_quantised_llama_knows_the_capital_of_france():
    model = regard.load(real_weights(SMOLLM), "cpu")
    assert model("The capital of France is", max_length=4).text.startswith(" Paris")
    assert model.log_probs("The capital of France is Paris")[-1][1] > -1


@pytest.mark.slow
def test_a_small_llama_tells_a_story():
    model = regard.load(real_weights(STORIES), "cpu")
    said = model("Once upon a time", max_length=30)
    assert said.text.startswith(", there was a little girl named Lily. She loved to play outside in the park.")
