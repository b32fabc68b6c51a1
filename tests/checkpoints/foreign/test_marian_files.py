"""Marian in and out: the same logits as transformers, though its positions are laid out otherwise."""

import pytest
import torch
from hub_peers import close, randomised, transformers

from regard.attention import Rows
from regard.checkpoints.foreign.family import TheirConfig
from regard.checkpoints.foreign.hub import write_hub
from regard.checkpoints.foreign.marian import MARIAN
from regard.checkpoints.foreign.names import shapes_of
from regard.checkpoints.spec import ModelSpec, with_defaults
from regard.checkpoints.weights import load_weights, weights_of
from regard.data.text.vocabulary import learn_tokenizer
from regard.errors import CheckpointError
from regard.models.registry import build

SOURCE = torch.tensor([[5, 6, 7, 8, 9, 0], [4, 5, 0, 10, 10, 10]])
LENGTHS = torch.tensor([6, 3])
TARGET = torch.tensor([[10, 4, 9, 2], [10, 7, 7, 5]])


def marian(**options):
    sizes = {"vocab_size": 11, "d_model": 18, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 3}
    sizes |= {"decoder_attention_heads": 3, "encoder_ffn_dim": 10, "decoder_ffn_dim": 10, "pad_token_id": 10}
    sizes |= {"decoder_start_token_id": 10, "activation_function": "swish", "scale_embedding": True}
    model = randomised(transformers.MarianMTModel(transformers.MarianConfig(**sizes | options)))
    model.final_logits_bias.normal_()
    return model


def theirs(model):
    real = (torch.arange(6) < LENGTHS[:, None]).long()
    with torch.no_grad():
        return model(input_ids=SOURCE, attention_mask=real, decoder_input_ids=TARGET).logits


def taken(peer):
    config = TheirConfig(peer.config.to_dict(), origin="config.json")
    found = with_defaults(MARIAN.recognise(config, []))
    tensors = MARIAN.names(found).read(
        peer.state_dict(), shapes_of(found.model, found.options), origin="model.safetensors"
    )
    model = build(found.model, found.options).eval()
    load_weights(model, tensors, origin="marian")
    return model, found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation_function": "relu", "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 12},
        {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False},
    ],
)
def test_the_same_logits_in_and_out(tmp_path, options):
    peer = marian(**options)
    model, found = taken(peer)
    assert (found.task, found.model, found.decode) == ("translation", "transformer", {"banned": [10]})
    with torch.no_grad():
        logits = model(Rows(SOURCE, LENGTHS), TARGET)
    close(logits, theirs(peer))
    write_hub(tmp_path, found, tensors=weights_of(model), tokenizer=None)
    opened, report = transformers.MarianMTModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["unexpected_keys"]
    assert not report["missing_keys"]
    close(theirs(opened.eval()), logits)


def test_positions_far_out_are_the_same():
    peer = marian()
    model, _ = taken(peer)
    long = torch.randint(1, 10, (1, 300))
    with torch.no_grad():
        close(model(long, TARGET[:1]), peer(input_ids=long, decoder_input_ids=TARGET[:1]).logits)


def test_a_model_of_our_own_is_written_as_marian(tmp_path):
    tokenizer = learn_tokenizer(["a dog runs"], "words", size=11)
    options = {"n_source": 11, "n_target": 11, "d_model": 12, "n_heads": 3, "d_feedforward": 10}
    options |= {"n_encoder_layers": 1, "n_decoder_layers": 2}
    model = build("transformer", options).eval()
    found = ModelSpec("translation", "transformer", options)
    write_hub(tmp_path, found, tensors=weights_of(model), tokenizer=tokenizer)
    opened = transformers.MarianMTModel.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        close(theirs(opened), model(Rows(SOURCE, LENGTHS), TARGET))
    config = opened.config
    assert (config.decoder_start_token_id, config.eos_token_id, config.pad_token_id) == (2, 3, 0)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)("a dog").input_ids
    assert read == [*tokenizer.encode("a dog"), tokenizer.eos_id]


def test_what_cannot_be_expressed(tmp_path):
    with pytest.raises(CheckpointError, match="encoder_ffn_dim is 10 and decoder_ffn_dim is 14; regard has one number"):
        taken(marian(decoder_ffn_dim=14))
    with pytest.raises(CheckpointError, match="scale_embedding is False, which regard does not have; it has True"):
        taken(marian(scale_embedding=False))
    sizes = {"n_source": 11, "n_target": 11, "order": "pre"}
    with pytest.raises(
        CheckpointError, match="no format of others can express this transformer; known are bert, "
    ) as e:
        write_hub(tmp_path, ModelSpec("translation", "transformer", sizes), tensors={}, tokenizer=None)
    assert e.value.hint
