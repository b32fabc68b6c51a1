"""BERT and DistilBERT in and out: the same numbers as transformers, from its files and from ours."""

import pytest
import torch

from hub_peers import close, ours, randomised, saved, transformers
from regard.attention import Rows
from regard.checkpoints.foreign.hub import open_foreign, write_hub
from regard.checkpoints.weights import weights_of
from regard.errors import CheckpointError

IDS = torch.tensor([[2, 5, 6, 7, 3, 8, 9, 3], [2, 10, 8, 3, 0, 0, 0, 0], [2, 3, 0, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([8, 4, 2])
ROWS = Rows(IDS, LENGTHS)
REAL = torch.arange(8) < LENGTHS[:, None]
SEGMENTS = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0] * 8, [0] * 8])


def bert(architecture, **options):
    sizes = {"vocab_size": 14, "hidden_size": 21, "num_hidden_layers": 2, "num_attention_heads": 3}
    sizes |= {"intermediate_size": 10, "max_position_embeddings": 9, "type_vocab_size": 2}
    return randomised(getattr(transformers, architecture)(transformers.BertConfig(**sizes | options)))


def distilbert(architecture, **options):
    sizes = {"vocab_size": 14, "dim": 20, "n_layers": 2, "n_heads": 5, "hidden_dim": 11, "max_position_embeddings": 9}
    return randomised(getattr(transformers, architecture)(transformers.DistilBertConfig(**sizes | options)))


def theirs(model):
    """What a model of transformers makes of the ids; segments only where it has them."""
    segments = {} if model.config.model_type == "distilbert" else {"token_type_ids": SEGMENTS}
    with torch.no_grad():
        return model(input_ids=IDS, attention_mask=REAL.long(), **segments)


def segments_of(model):
    backbone = getattr(model, "backbone", model)
    return {"segments": SEGMENTS} if backbone.segments is not None else {}


def back(model, foreign, folder):
    """Our model, written for others and opened by transformers."""
    write_hub(folder, foreign, tensors=weights_of(model), tokenizer=foreign.tokenizer)
    architecture = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    opened, report = getattr(transformers, architecture).from_pretrained(folder, output_loading_info=True)
    # Where the output is not tied, transformers keeps a second bias that it does not use.
    assert set(report["missing_keys"]) <= ({"cls.predictions.bias"} if not opened.config.tie_word_embeddings else set())
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    return opened.eval()


@pytest.mark.parametrize(
    ("make", "architecture", "options"),
    [
        (bert, "BertForPreTraining", {}),
        (bert, "BertForMaskedLM", {"hidden_act": "gelu_new", "type_vocab_size": 3, "layer_norm_eps": 1e-3}),
        (bert, "BertForMaskedLM", {"hidden_act": "silu", "tie_word_embeddings": False}),
        (distilbert, "DistilBertForMaskedLM", {}),
        (distilbert, "DistilBertForMaskedLM", {"activation": "relu", "tie_word_embeddings": False}),
    ],
)
def test_masked_language_models(tmp_path, make, architecture, options):
    peer = make(architecture, **options)
    model, foreign = ours(saved(peer, tmp_path / "in"))
    assert (foreign.task, foreign.model) == ("masked", "bert")
    with torch.no_grad():
        logits = model(ROWS, **segments_of(model))
        expected = theirs(peer)
        close(logits[REAL], (expected.prediction_logits if "PreTraining" in architecture else expected.logits)[REAL])
        if "PreTraining" in architecture:
            judged = model.next_sentence(model.encode(ROWS, segments=SEGMENTS))
            close(judged, expected.seq_relationship_logits)
        again = theirs(back(model, foreign, tmp_path / "out"))
        close((again.prediction_logits if "PreTraining" in architecture else again.logits)[REAL], logits[REAL])


@pytest.mark.parametrize(("make", "architecture"), [(bert, "BertModel"), (distilbert, "DistilBertModel")])
def test_the_bare_encoder(tmp_path, make, architecture):
    peer = make(architecture)
    model, foreign = ours(saved(peer, tmp_path / "in"))
    assert not model.config.mlm
    with torch.no_grad():
        encoded = model.encode(ROWS, **segments_of(model))
        close(encoded[REAL], theirs(peer).last_hidden_state[REAL])
        if model.config.pooler:
            close(model.pooled(encoded), theirs(peer).pooler_output)
        opened = back(model, foreign, tmp_path / "out")
        close(theirs(opened).last_hidden_state[REAL], encoded[REAL])


@pytest.mark.parametrize("make", [bert, distilbert])
def test_classifiers(tmp_path, make):
    family = "Bert" if make is bert else "DistilBert"
    peer = make(f"{family}ForSequenceClassification", id2label={0: "bad", 1: "so so", 2: "good"})
    model, foreign = ours(saved(peer, tmp_path / "in"))
    assert (foreign.task, foreign.model, foreign.labels) == ("labels", "classifier", ("bad", "so so", "good"))
    with torch.no_grad():
        logits = model(ROWS, **segments_of(model))
        close(logits, theirs(peer).logits)
        opened = back(model, foreign, tmp_path / "out")
        close(theirs(opened).logits, logits)
    assert opened.config.id2label == {0: "bad", 1: "so so", 2: "good"}


def test_one_number_and_classes_without_names(tmp_path):
    peer = bert("BertForSequenceClassification", num_labels=1)
    model, foreign = ours(saved(peer, tmp_path / "one"))
    assert model.config.n_outputs == 1
    close(model(ROWS, segments=SEGMENTS), theirs(peer).logits)
    _, foreign = ours(saved(bert("BertForSequenceClassification"), tmp_path / "two"))
    assert foreign.labels == ("LABEL_0", "LABEL_1")


@pytest.mark.parametrize("make", [bert, distilbert])
def test_answer_finders(tmp_path, make):
    peer = make("BertForQuestionAnswering" if make is bert else "DistilBertForQuestionAnswering")
    model, foreign = ours(saved(peer, tmp_path / "in"))
    assert (foreign.task, foreign.model) == ("answers", "span-reader")
    with torch.no_grad():
        start, end = model(ROWS, **segments_of(model))
        close(start[REAL], theirs(peer).start_logits[REAL])
        close(end[REAL], theirs(peer).end_logits[REAL])
        opened = back(model, foreign, tmp_path / "out")
        close(theirs(opened).end_logits[REAL], end[REAL])


def test_files_of_old(tmp_path):
    """A pickled file with norms called gamma and beta, with buffers, and with the names of a bare encoder."""
    peer = bert("BertForPreTraining")
    folder = saved(peer, tmp_path)
    (folder / "model.safetensors").unlink()
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in peer.state_dict().items()}
    old = {name.replace("LayerNorm.bias", "LayerNorm.beta"): tensor.half() for name, tensor in old.items()}
    old["bert.embeddings.position_ids"] = torch.arange(9)[None]
    del old["cls.predictions.decoder.bias"]
    torch.save(old, folder / "pytorch_model.bin")
    model, _ = ours(folder)
    logits = peer.half().float()(input_ids=IDS, attention_mask=REAL.long(), token_type_ids=SEGMENTS).prediction_logits
    close(model(ROWS, segments=SEGMENTS)[REAL], logits[REAL])


def test_what_bert_cannot_be(tmp_path):
    folder = saved(bert("BertForMaskedLM", hidden_act="tanh"), tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"config.json: hidden_act is 'tanh', which regard does not have; it has"):
        open_foreign(folder)
    folder = saved(bert("BertForTokenClassification"), tmp_path / "b")
    with pytest.raises(CheckpointError, match="'BertForTokenClassification' is not known; there are BertModel, Bert"):
        open_foreign(folder)
