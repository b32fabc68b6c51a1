"""BERT's files in Hugging Face's spelling: the bare encoder, pre-training heads, classifiers and answer finders.

    architecture                      ours
    BertModel, BertForPreTraining,    bert, with the heads that the file holds
    BertForMaskedLM
    BertForSequenceClassification     classifier on [CLS] through the pooler
    BertForQuestionAnswering          span-reader

`Heads` says the same for its relatives, which differ in names only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from regard.checkpoints.foreign.family import Family, Fields, TheirConfig, labels_for, labels_of
from regard.checkpoints.foreign.names import NameMap, Rule, affine, block_rules
from regard.checkpoints.spec import ModelSpec


@dataclass(frozen=True)
class Heads:
    """The architectures of a family: their common beginning, and how its classifier transforms [CLS].

    `fields` are what its backbones have in common with ours, `dropouts` what it calls those of our heads.
    """

    name: str
    transform: str
    fields: Fields
    dropouts: Mapping[str, str]

    def recognise(
        self, config: TheirConfig, backbone: Mapping[str, Any], *, dropouts: tuple[float, float]
    ) -> ModelSpec:
        """What a config's architecture makes of the backbone; dropouts of the classifier and the span reader."""
        known = ("Model", "ForPreTraining", "ForMaskedLM", "ForSequenceClassification", "ForQuestionAnswering")
        kind = config.architecture(*(self.name + kind for kind in known)).removeprefix(self.name).removeprefix("For")
        bare = {"name": "bert", **backbone, "mlm": False, "nsp": False}
        if kind == "SequenceClassification":
            labels = labels_of(config)
            options = {"backbone": bare, "n_outputs": len(labels), "pooling": "first", "transform": self.transform}
            return ModelSpec("labels", "classifier", {**options, "dropout": dropouts[0]}, labels)
        if kind == "QuestionAnswering":
            options = {"backbone": {**bare, "pooler": False}, "dropout": dropouts[1]}
            return ModelSpec("answers", "span-reader", options)
        return ModelSpec("masked", "bert", backbone)

    def architecture(self, model: ModelSpec) -> str:
        """What others call the model."""
        if model.model == "classifier":
            return f"{self.name}ForSequenceClassification"
        if model.model == "span-reader":
            return f"{self.name}ForQuestionAnswering"
        if not model.options.get("mlm", True):
            return f"{self.name}Model"
        return f"{self.name}ForPreTraining" if model.options.get("nsp", True) else f"{self.name}ForMaskedLM"

    def expresses(self, model: ModelSpec) -> bool:
        """Whether the model is a BERT, or stands on one as this family's heads do."""
        if model.model == "classifier":
            head = (model.options.get("pooling"), model.options.get("transform"))
            return head == ("first", self.transform) and backbone_of(model).get("name") == "bert"
        return model.model == "bert" or (model.model == "span-reader" and backbone_of(model).get("name") == "bert")

    def config(self, model: ModelSpec) -> dict[str, Any]:
        """Their config.json of a model that the family expresses."""
        backbone = backbone_of(model)
        names = {"model_type": self.name.lower(), "architectures": [self.architecture(model)]}
        config = {**names, **self.fields.write(backbone), "pad_token_id": backbone["pad_id"]}
        if model.model in self.dropouts:
            config[self.dropouts[model.model]] = model.options["dropout"]
        return config | (labels_for(model.labels or ()) if model.model == "classifier" else {})


def backbone_of(model: ModelSpec) -> Mapping[str, Any]:
    """The options of the BERT in a model: its own, or those of what it stands on."""
    options: Mapping[str, Any] = model.options.get("backbone", model.options)
    return options


_FIELDS = Fields(
    {"n_tokens": "vocab_size", "d_model": "hidden_size", "n_heads": "num_attention_heads",
     "d_feedforward": "intermediate_size", "n_layers": "num_hidden_layers", "n_positions": "max_position_embeddings"},
    {"n_segments": ("type_vocab_size", 2), "dropout": ("hidden_dropout_prob", 0.1),
     "attention_dropout": ("attention_probs_dropout_prob", 0.1), "norm_epsilon": ("layer_norm_eps", 1e-12),
     "tied": ("tie_word_embeddings", True)},
    ("hidden_act", "gelu"),
)  # fmt: skip
HEADS = Heads("Bert", transform="pooler", fields=_FIELDS, dropouts={"classifier": "classifier_dropout"})
_LAYER = (
    ("attention.self.query", "attention.self.key", "attention.self.value"), "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
)  # fmt: skip


def _recognise(config: TheirConfig, names: Collection[str]) -> ModelSpec:
    config.choose("position_embedding_type", {"absolute": True}, default="absolute")
    config.choose("is_decoder", {False: True}, default=False)
    held = _map("bert", tied=True).canonical(names)
    dropout = config.get("hidden_dropout_prob", 0.1)
    backbone = _FIELDS.read(config) | {
        "mlm": "cls.predictions.transform.dense.weight" in held,
        "pooler": "bert.pooler.dense.weight" in held,
        "nsp": "cls.seq_relationship.weight" in held,
        "pad_id": config.get("pad_token_id") or 0,
    }
    classifier_dropout = config.get("classifier_dropout")
    last = dropout if classifier_dropout is None else classifier_dropout
    return HEADS.recognise(config, backbone, dropouts=(last, dropout))


def _config(model: ModelSpec) -> dict[str, Any] | None:
    return HEADS.config(model) if HEADS.expresses(model) and backbone_of(model)["n_segments"] else None


def _names(model: ModelSpec) -> NameMap:
    return _map(model.model, tied=bool(backbone_of(model).get("tied", True)))


def _map(model: str, *, tied: bool) -> NameMap:
    at = "" if model == "bert" else "backbone."
    ignored = ["bert.embeddings.position_ids", "bert.embeddings.token_type_ids"]
    if model == "span-reader":
        ignored += ["bert.pooler.dense.weight", "bert.pooler.dense.bias"]  # nothing in it uses them
    if not tied:
        ignored += ["cls.predictions.bias"]  # then `decoder.bias` is the one that is added
    word, head = "bert.embeddings.word_embeddings.weight", "cls.predictions"
    return NameMap(
        (*_backbone(at), *_heads(model, tied=tied)),
        prefixes=("bert.",),
        tied={f"{head}.decoder.weight": word, f"{head}.decoder.bias": f"{head}.bias"} if tied else {},
        ignored=tuple(ignored),
        respelled={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    )


def _backbone(at: str) -> tuple[Rule, ...]:
    theirs = "bert.embeddings"
    return (
        Rule(f"{theirs}.word_embeddings.weight", f"{at}embedding.weight"),
        Rule(f"{theirs}.position_embeddings.weight", f"{at}positions.table.weight"),
        Rule(f"{theirs}.token_type_embeddings.weight", f"{at}segments.weight"),
        *affine(f"{theirs}.LayerNorm", f"{at}norm"),
        *block_rules("bert.encoder.layer.{i}.", at + "encoder.blocks.{i}", _LAYER),
    )


def _heads(model: str, *, tied: bool) -> tuple[Rule, ...]:
    if model == "span-reader":
        return affine("qa_outputs", "output")
    if model == "classifier":
        return (*affine("bert.pooler.dense", "backbone.pooler"), *affine("classifier", "output"))
    theirs = "cls.predictions"
    output = (
        (Rule(f"{theirs}.bias", "output_bias"),)
        if tied
        else (Rule(f"{theirs}.decoder.weight", "output.weight"), Rule(f"{theirs}.decoder.bias", "output_bias"))
    )
    return (
        *affine("bert.pooler.dense", "pooler"),
        *affine(f"{theirs}.transform.dense", "mlm.dense"),
        *affine(f"{theirs}.transform.LayerNorm", "mlm.norm"),
        *output,
        *affine("cls.seq_relationship", "judge"),
    )


BERT = Family("bert", recognise=_recognise, names=_names, config=_config, template="cls-sep")
