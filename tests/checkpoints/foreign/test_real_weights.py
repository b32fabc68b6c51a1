"""Weights that were really trained: all-MiniLM-L6-v2, whose sentence embeddings are those of transformers."""

import pytest
import torch
import torch.nn.functional as F
from hub_peers import ours, transformers

from regard.attention import Rows
from regard.layers.pooling import mean_of_tokens

TEXTS = [
    "A dog runs along the beach.",
    "Ein Hund läuft am Strand.",
    "x",
    "Attention is all you need, they said in 2017!",
]


@pytest.mark.slow
def test_sentence_embeddings(data_root):
    folder = data_root / "models" / "all-MiniLM-L6-v2"
    if not folder.is_dir():
        pytest.skip(f"real weights absent: {folder}")
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
